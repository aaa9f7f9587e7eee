"""Thresholds of the verdicts."""

from __future__ import annotations

from dataclasses import dataclass

from attribot_rag.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class VerdictOptions:
    """The thresholds of the verdicts; docs/evaluation/calibration.md says how they were chosen.

    Effects in nats: the best source is cited if its effect is at least `min_effect` and at least
    `noise_factor` times the noise of the scores; another source also needs an effect of `min_own`
    on the tokens for which it is the best. A sentence without cited sources is unsupported if its
    context reliance is below `min_reliance`, unless an earlier turn has an effect of `min_turn` on
    it, or an earlier sentence of the answer an effect of `min_follows`, and at least that of the
    context. A number cites the source with an effect of `min_figure` on it that is twice that of
    any other source, if its reliance is at least as much. A sentence without cited sources whose
    numbers all have a smaller reliance is unsupported, whatever the reliance of its other words.

    Shares: the cited sources account for at least `cited_share` of the reliance, and explain a
    sentence if they account for `explained_share` of it. A source suffices if the sentence loses at
    most `stands_share` of the joint effect with this source alone. A group has at most `max_group`
    sources.

    Judging takes at most `token_share` times the tokens that the scores took, or `min_tokens` if
    that is more. Sentences that are undecided then are open, and the result is partial.

    `thinking_tags` open and close the thinking in an answer, as in `("<plan>", "</plan>")`; by
    default, it is told by the tokenizer's response template, or by the tags that models use.
    """

    min_effect: float = 4.0
    min_own: float = 5.5
    min_figure: float = 2.0
    noise_factor: float = 2.0
    min_reliance: float = 6.0
    min_turn: float = 4.0
    min_follows: float = 8.0
    cited_share: float = 0.2
    explained_share: float = 0.6
    stands_share: float = 0.4
    max_group: int = 5
    token_share: float = 1.0
    min_tokens: int = 4096
    thinking_tags: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        tags = self.thinking_tags
        if tags is not None and (len(tags) != 2 or not all(tags) or isinstance(tags, str)):
            raise InvalidInput(f"thinking_tags={tags!r}; pass two texts, or None")
        if self.max_group < 2:
            raise InvalidInput(f"max_group={self.max_group}; use at least 2")
        for name, value in vars(self).items():
            if name in ("cited_share", "explained_share", "stands_share") and not 0 < value < 1:
                raise InvalidInput(f"{name}={value!r}; use a value between 0 and 1")
            if name != "thinking_tags" and not value > 0:
                raise InvalidInput(f"{name}={value!r}; use more than 0")
