"""Thresholds that make no sense are named."""

import math
from typing import Any

import pytest

from attribot_rag.errors import InvalidInput
from attribot_rag.verdicts import VerdictOptions


@pytest.mark.parametrize("name", ["kept_share", "kept_word", "needed_share"])
@pytest.mark.parametrize("value", [0.0, 1.0, math.nan, None])
def test_shares_lie_between_0_and_1(name: str, value: float) -> None:
    options: dict[str, Any] = {name: value}
    with pytest.raises(InvalidInput, match=f"^{name}={value}; use a value between 0 and 1"):
        VerdictOptions(**options)


NATS = (*("min_effect", "min_word", "min_sought", "min_reliance", "min_turn", "min_follows"),)
FACTORS = ("max_set", "noise_factor", "token_share", "min_tokens")


@pytest.mark.parametrize("name", [*NATS, *FACTORS])
@pytest.mark.parametrize("value", [0.0, math.nan])
def test_effects_are_positive(name: str, value: float) -> None:
    options: dict[str, Any] = {name: value}
    with pytest.raises(InvalidInput, match=f"^{name}={value}; use more than 0"):
        VerdictOptions(**options)
