"""Thresholds of the verdicts."""

from __future__ import annotations

from dataclasses import dataclass

from attribot_rag.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class VerdictOptions:
    """From which effect on a verdict is given; docs/verdicts.md says how these were calibrated.

    Effects in nats: a source is cited from `min_effect` on, and from `noise_factor` times the
    noise of the scores on; a sentence is supported if what it cites or the whole context is worth
    `min_reliance`, and follows from an earlier sentence or turn that is worth `min_origin` and
    `origin_ratio` times what the context is.

    Shares: a source that accounts for `carrying_share` of the reliance is cited even where it
    does not stand out, a cited source has at least `min_share` of the best one's effect, all cited
    ones account for at least `cited_share` of the reliance, and sources explain a sentence if they
    account for `explained_share` of it. A source suffices if the sentence loses at most
    `stands_share` of the joint effect with it alone. `alpha` is the significance level of outliers.
    A group has at most `max_group` sources.

    Judging takes at most `token_share` times the tokens that the scores took, but may take
    `min_tokens`; what is not decided then is open, and the result partial.
    """

    alpha: float = 0.05
    min_effect: float = 1.5
    noise_factor: float = 3.0
    min_reliance: float = 3.0
    min_origin: float = 3.0
    origin_ratio: float = 2.0
    min_share: float = 0.2
    carrying_share: float = 0.5
    cited_share: float = 0.2
    explained_share: float = 0.6
    stands_share: float = 0.3
    max_group: int = 5
    token_share: float = 1.0
    min_tokens: int = 4096

    def __post_init__(self) -> None:
        shares = ("min_share", "carrying_share", "cited_share", "explained_share", "stands_share")
        for name in ("alpha", *shares):
            if not 0 < getattr(self, name) < 1:
                raise InvalidInput(f"{name}={getattr(self, name)!r}; use a value between 0 and 1")
        nats = ("min_effect", "noise_factor", "min_reliance", "min_origin", "origin_ratio")
        for name in (*nats, "token_share", "min_tokens"):
            if not getattr(self, name) > 0:
                raise InvalidInput(f"{name}={getattr(self, name)!r}; use more than 0")
        if self.max_group < 2:
            raise InvalidInput(f"max_group={self.max_group}; use at least 2")
