"""Thresholds of the search for sources that suffice, and of the verdicts."""

from __future__ import annotations

from dataclasses import dataclass

from attribot_rag.errors import InvalidInput

_SHARES = ("kept_share", "kept_word", "needed_share", "cited_share", "stated_share")


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """When sources suffice for a part of the response.

    A part is looked into if its context reliance, or that of one of its content words, is at least
    `min_sought` nats. Sources suffice if it keeps `kept_share` of its reliance with them alone, and
    each of its content words keeps `kept_word` of its own, or loses no more than `min_word` nats.
    A set has at most `max_set` sources; at most two where the reliance is below twice `min_effect`,
    four below three times. A source that suffices is replaceable if the part and each content word
    lose less than `kept_share` of their reliance without it, or than `min_word` nats; another
    replaces it if the part keeps `needed_share` with it alone, and each word `kept_share`. Below
    `min_reliance` no set is sought unless a content word loses half of `min_word_effect` without
    the source that holds most of the part's words; else a single source is, which has an exact
    effect of `min_effect`.
    """

    min_sought: float = 2.0
    min_effect: float = 4.0
    kept_share: float = 0.7
    kept_word: float = 0.5
    min_word: float = 2.0
    needed_share: float = 0.5
    min_reliance: float = 6.0
    min_word_effect: float = 2.5
    max_set: int = 6


@dataclass(frozen=True, kw_only=True)
class VerdictOptions(Thresholds):
    """The thresholds of the verdicts; docs/evaluation/calibration.md says how they were chosen.

    Those of `Thresholds` say when sources suffice for a sentence. A source is needed if it has an
    effect of `min_effect` nats on the sentence, or of `min_word_effect` on one of its content
    words, and accounts for `cited_share` of the reliance. Of several that suffice only together,
    those are cited each that decide words of their own, and have an effect of `min_word` nats, if
    the sentence keeps `kept_share` with these, or loses the rest without them; else all are cited
    together. Sources that are not needed are cited if they suffice and the reliance is at least
    `min_reliance`; below twice that, a single source only if the model expects each content word.
    A sentence is unsupported if its context reliance is below `min_reliance`, or below
    `noise_factor` times the noise between calls of a server, unless an earlier turn has an effect
    of `min_turn` on it, or an earlier sentence of the answer an effect of `min_follows`, and at
    least that of the context; or unless the instructions or the question state it: its words that
    stand there are worth `min_turn` by that, and `stated_share` of what makes its content words
    unlikely. It is also unsupported if the model expects its numbers neither with
    the context nor without (by `min_figure` nats, as with words), and the context is worth less
    than that to them; or if that holds of a content word, and nothing else decides.

    Judging, but for the search that the default method leaves to it, takes at most `token_share`
    times the tokens that the scores took, or `min_tokens` if that is more. Sentences that are
    undecided then are open, and the result is partial.

    `thinking_tags` open and close the thinking in an answer, as in `("<plan>", "</plan>")`; by
    default, it is found by the tokenizer's response template, or by the tags that models use.
    """

    cited_share: float = 0.25
    min_figure: float = 2.0
    noise_factor: float = 2.0
    min_turn: float = 4.0
    min_follows: float = 8.0
    stated_share: float = 0.6
    token_share: float = 1.0
    min_tokens: int = 4096
    thinking_tags: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        tags = self.thinking_tags
        if tags is not None and (len(tags) != 2 or not all(tags) or isinstance(tags, str)):
            raise InvalidInput(f"thinking_tags={tags!r}; pass two texts, or None")
        for name, value in vars(self).items():
            if name in _SHARES and not (isinstance(value, int | float) and 0 < value < 1):
                raise InvalidInput(f"{name}={value!r}; use a value between 0 and 1")
            if name != "thinking_tags" and not (isinstance(value, int | float) and value > 0):
                raise InvalidInput(f"{name}={value!r}; use more than 0")


# Of a reader, which did not give the answer: those of causes, until its own have been chosen.
READER = VerdictOptions()
