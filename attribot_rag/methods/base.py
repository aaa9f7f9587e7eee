"""What every method gives back."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SourceScores:
    """Scores of all sources in nats, one row per source id.

    A row holds one score per response token, or is None for a source that was not scored.
    `exact` says of each source whether its text was removed exactly and everything after it
    encoded again; `token_log_likelihoods` are those of the response with nothing removed.
    """

    method: str
    token_log_likelihoods: tuple[float, ...]
    token_scores: tuple[tuple[float, ...] | None, ...]
    exact: tuple[bool, ...]
