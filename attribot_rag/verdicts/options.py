"""Thresholds of the verdicts."""

from __future__ import annotations

from dataclasses import dataclass

from attribot_rag.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class VerdictOptions:
    """From which effect on a verdict is given; docs/verdicts.md says how these were calibrated.

    Effects in nats: the best source is cited from `min_effect` on, and from `noise_factor` times
    the noise of the scores on; a further one if it is also worth `min_own` to the tokens for which
    it is the best. A sentence of which no source is cited is unsupported below a context reliance
    of `min_reliance`, unless an earlier turn is worth `min_turn` to it, or an earlier sentence of
    the answer `min_follows`, and as much as the context.

    Shares: all cited sources account for at least `cited_share` of the reliance, and explain a
    sentence if they account for `explained_share` of it. A source suffices if the sentence loses
    at most `stands_share` of the joint effect with it alone. A group has at most `max_group`
    sources.

    Judging takes at most `token_share` times the tokens that the scores took, but may take
    `min_tokens`; what is not decided then is open, and the result partial.
    """

    min_effect: float = 4.0
    min_own: float = 5.5
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

    def __post_init__(self) -> None:
        for name in ("cited_share", "explained_share", "stands_share"):
            if not 0 < getattr(self, name) < 1:
                raise InvalidInput(f"{name}={getattr(self, name)!r}; use a value between 0 and 1")
        nats = ("min_effect", "min_own", "noise_factor", "min_reliance", "min_turn", "min_follows")
        for name in (*nats, "token_share", "min_tokens"):
            if not getattr(self, name) > 0:
                raise InvalidInput(f"{name}={getattr(self, name)!r}; use more than 0")
        if self.max_group < 2:
            raise InvalidInput(f"max_group={self.max_group}; use at least 2")
