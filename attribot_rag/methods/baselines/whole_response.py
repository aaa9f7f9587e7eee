"""Scores of methods that give one number per source for the whole response."""

from __future__ import annotations

from collections.abc import Sequence

from attribot_rag.methods.base import Scores, TokenScores
from attribot_rag.scoring import Scorer


def whole_response(
    scorer: Scorer,
    totals: Sequence[float] | None,
    unit: str,
    token_log_likelihoods: TokenScores | None = None,
) -> Scores:
    """Each unit's total, spread evenly over the response's tokens; no scores without `totals`."""
    num_tokens, num_units = len(scorer.generation.response_ids), len(scorer.units)
    rows: tuple[TokenScores | None, ...] = (None,) * num_units
    if totals is not None:
        rows = tuple((float(total) / num_tokens,) * num_tokens for total in totals)
    return Scores(token_log_likelihoods, rows, (False,) * num_units, unit=unit)
