"""The limits of searches and verdicts, and the public ones as options."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from attribot_rag.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of the verdicts and of the search for sources.

    Limits named `min_` or `max_` are in nats for a sentence or a word, except the counts `max_set`
    and `max_earlier`. `num_` limits are counts too. A `_share` or `_factor` multiplies another
    number. docs/verdicts.md has the rules, and docs/evaluation/calibration.md says how the limits
    were chosen.
    """

    min_effect: float = 4.0
    """The effect from which a source is needed, and from which a source decides alone."""
    min_word: float = 2.0
    """How much a content word may always lose, and how much one of several sources must be worth.
    """
    min_reliance: float = 6.0
    """The reliance from which the documents matter, and the effect from which a group is needed."""
    min_per_token: float = 0.0
    """The least mean reliance of the tokens for a citation; 0 for no such limit."""
    min_follows: float = 8.0
    """The effect from which a sentence follows from an earlier one."""
    max_unexplained: float = 8.0
    """How unlikely new words may be in all, after the earlier sentence that a sentence follows
    from."""
    min_turn: float = 4.0
    """The effect from which a sentence comes from a turn, or from what the prompt states."""
    min_sought: float = 2.0
    """The reliance, of the sentence or a word, from which sources are searched."""
    min_word_effect: float = 2.5
    """The effect on a content word from which a source is needed."""
    min_surprise: float = 2.0
    """A word or number is unexpected if its log-likelihood is at most minus this, and its reliance
    below this."""
    kept_share: float = 0.7
    """The share of the reliance that a sentence must keep with sources that are enough."""
    kept_word: float = 0.5
    """The share of its reliance that each content word must keep with them."""
    needed_share: float = 0.5
    """The share of the reliance that a sentence must keep with other sources that replace one."""
    cited_share: float = 0.25
    """The least share of the reliance from which a source is needed."""
    stated_share: float = 0.6
    """The share of the surprise of all content words that the prompt's statements must explain."""
    noise_factor: float = 2.0
    """Multiplies a server's noise between calls; the product may replace `min_reliance`."""
    sure_factor: float = 2.0
    """Multiplies the least reliance. Beyond that, no other origin of a sentence is searched."""
    max_set: int = 6
    """The most sources in a set."""
    masked_share: float = 0.45
    """The share of `min_effect` that a masked row must show before the exact row is scored."""
    masked_factor: float = 2.0
    """The multiple of `min_effect` from which a masked effect of one source is clear."""
    search_share: float = 0.5
    """The share of a reliance, or of `min_word_effect`, by which a search decides how to continue.
    """
    num_at_once: int = 3
    """How many documents, sources or earlier sentences a search tries at once."""
    num_new_words: int = 2
    """How many words that were not said before one source must have, to leave out earlier text."""
    num_needed: int = 2
    """The most sources that are cited if no set is enough."""
    max_earlier: int = 100
    """From how many earlier sentences, the last ones, a sentence may follow."""
    source_share: float = 0.8
    """The share of the largest gain from which the first of several earlier sentences is named."""

    @property
    def sure_reliance(self) -> float:
        """The reliance of a sentence from which no other origin is searched, in nats."""
        return self.sure_factor * self.min_reliance

    @property
    def clear_effect(self) -> float:
        """The masked effect, in nats, that decides without an exact row."""
        return self.masked_factor * self.min_effect

    def largest_set(self, reliance: float) -> int:
        """The most sources for a sentence of this reliance.

        A set may double for each `min_effect` that must be explained.
        """
        doublings = max(1.0, min(reliance / self.min_effect, self.max_set))
        return min(self.max_set, 1 << int(doublings))


READER_LIMITS = Limits(
    min_effect=2.0,
    min_word=1.0,
    min_reliance=3.0,
    min_per_token=0.35,
    min_sought=1.0,
    min_word_effect=1.25,
    min_surprise=1.0,
    max_set=1,
)
"""The limits of a model that reads another one's answer: docs/evaluation/readers.md."""


@dataclass(frozen=True, kw_only=True)
class VerdictOptions:
    """The limits of verdicts that you can change. The page "Tune verdicts" of the documentation
    explains them.

    None stands for a default that was chosen on data. The default depends on whether the model gave
    the answer or only reads it. Raises InvalidInput for limits of 0 or less, and for tags that are
    not two texts.

    Args:
        min_effect: A sentence needs a source if the source has at least this effect, in nats. A
            source with a smaller effect can still be cited if it is enough alone.
        min_word: If a sentence cites several sources, each must have at least this effect, in nats.
            A content word of the sentence may also lose as much if only the cited sources stay in
            the prompt.
        min_reliance: The documents matter to a sentence from this reliance on, in nats.
        min_follows: A sentence follows from an earlier sentence if the earlier one has at least
            this effect, in nats.
        token_share: How many tokens judging may read, as a multiple of the tokens that the scores
            took. The search of the default method does not count. If judging reaches this limit,
            undecided sentences are open, and the result is incomplete.
        min_tokens: Judging may read this many tokens, even if `token_share` allows fewer.
        thinking_tags: The texts before and after the thinking in an answer, as in `("<plan>",
            "</plan>")`. By default, those of the tokenizer's response template, or tags that models
            use.
    """

    min_effect: float | None = None
    min_word: float | None = None
    min_reliance: float | None = None
    min_follows: float | None = None
    token_share: float = 1.0
    min_tokens: int = 4096
    thinking_tags: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        tags = self.thinking_tags
        if tags is not None and (len(tags) != 2 or not all(tags) or isinstance(tags, str)):
            raise InvalidInput(f"thinking_tags={tags!r}; pass two texts, or None")
        numbers = {**self._given, "token_share": self.token_share, "min_tokens": self.min_tokens}
        for name, value in numbers.items():
            if not (isinstance(value, int | float) and value > 0):
                raise InvalidInput(f"{name}={value!r}; use a number above 0")

    def limits(self, *, is_reader: bool = False) -> Limits:
        """The limits for the model's own answer, or for another model's."""
        return replace(READER_LIMITS if is_reader else Limits(), **self._given)

    @property
    def _given(self) -> dict[str, Any]:
        names = ("min_effect", "min_word", "min_reliance", "min_follows")
        return {name: value for name in names if (value := getattr(self, name)) is not None}
