"""All limits of methods, searches and verdicts, and those that are public options."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from attribot_rag.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of the verdicts and of the search for sources.

    Those named `min_` or `max_` are in nats for a sentence or a word of it, but for `max_set` and
    `max_earlier`, which are counts as `num_` are; a `_share` or `_factor` is a part of another
    number. docs/verdicts.md has the rules, docs/evaluation/calibration.md how the limits were
    chosen.
    """

    min_effect: float = 4.0
    """The effect with which a source is needed, and that of a source which decides by itself."""
    min_word: float = 2.0
    """What a content word may lose in any case, and what a member of several has to be worth."""
    min_reliance: float = 6.0
    """The reliance from which the context matters, and the effect with which a group is needed."""
    min_per_token: float = 0.0
    """The mean reliance of the tokens below which nothing is cited; 0 for no such limit."""
    min_follows: float = 8.0
    """The effect of an earlier sentence that another follows from."""
    max_unexplained: float = 8.0
    """How unlikely new words may be after the earlier sentence, in all, if one follows from it."""
    min_turn: float = 4.0
    """The effect of a turn, or of what the prompt states, that a sentence comes from."""
    min_sought: float = 2.0
    """The reliance, of the sentence or a word, from which sources are looked for."""
    min_word_effect: float = 2.5
    """The effect on a content word with which a source is needed."""
    min_figure: float = 2.0
    """How unlikely a number or word is unexpected, where the context is worth less to it."""
    kept_share: float = 0.7
    """The share of the reliance that a sentence keeps with sources that suffice."""
    kept_word: float = 0.5
    """The share of its own reliance that each content word keeps with them."""
    needed_share: float = 0.5
    """The share of the reliance that a sentence keeps with what replaces a source."""
    cited_share: float = 0.25
    """The least share of the reliance for which a source is needed."""
    stated_share: float = 0.6
    """What statements of the prompt are worth, of what makes all content words unlikely."""
    noise_factor: float = 2.0
    """Of the noise between calls of a server, if that is more than `min_reliance`."""
    sure_factor: float = 2.0
    """Times the least reliance: from there on, no other origin of a sentence is looked for."""
    max_set: int = 6
    """The most sources in a set."""
    min_short_word: float = 4.0
    """The reliance with which a word of up to three letters is a content word."""
    min_candidate: float = 0.5
    """The score with which a unit, or a group of them, is scored more closely."""
    masked_share: float = 0.45
    """The share of `min_effect` that a masked row shows before the exact one is scored."""
    search_share: float = 0.5
    """The share of a reliance, or of `min_word_effect`, by which a search decides how to go on."""
    num_at_once: int = 3
    """The documents, sources or earlier sentences that a search tries at once."""
    num_needed: int = 2
    """The most sources that are cited where no set suffices."""
    max_earlier: int = 100
    """The earlier sentences, the last ones, that a sentence may follow from."""
    source_share: float = 0.8
    """The share of the largest gain with which the first of several earlier sentences is named."""
    unlocated_share: float = 0.4
    """The share of a sentence's words in the prompt if it may say an unlocated document."""

    @property
    def sure_reliance(self) -> float:
        """The reliance of a sentence for which no other origin is looked for, in nats."""
        return self.sure_factor * self.min_reliance

    def largest_set(self, reliance: float) -> int:
        """The most sources that a sentence of this reliance may have.

        A set may double for each `min_effect` that there is to explain.
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
    min_figure=1.0,
    max_set=1,
)
"""Those of a model that reads another one's answer: docs/evaluation/readers.md."""


@dataclass(frozen=True, kw_only=True)
class VerdictOptions:
    """The public limits of verdicts; docs/tuning-verdicts.md explains them.

    Those that are None are the ones that were chosen on data: for the model that answered, and
    others for a reader. Raises InvalidInput for limits of 0 or less, and for tags other than two
    texts.

    Args:
        min_effect: Nats without which a sentence is not cited from a source that does not suffice.
        min_word: Nats for which each of several sources is cited.
        min_reliance: Nats from which the context as a whole matters to a sentence.
        min_follows: Nats from which a sentence follows from an earlier one.
        token_share: Judging, but for the default method's search, takes at most so many times the
            tokens of the scores; what is undecided then is open, and the result partial.
        min_tokens: The tokens that it may take in any case.
        thinking_tags: What opens and closes the thinking in an answer, as in `("<plan>",
            "</plan>")`; by default the tokenizer's response template, or tags that models use.
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
        """The limits for what the model itself answered, or for another one's answer."""
        return replace(READER_LIMITS if is_reader else Limits(), **self._given)

    @property
    def _given(self) -> dict[str, Any]:
        names = ("min_effect", "min_word", "min_reliance", "min_follows")
        return {name: value for name in names if (value := getattr(self, name)) is not None}
