"""Thresholds that make no sense are named."""

import math
from typing import Any

import pytest

from attribot_rag.errors import InvalidInput
from attribot_rag.verdicts import VerdictOptions


def test_the_defaults_are_allowed() -> None:
    assert VerdictOptions() == VerdictOptions()


@pytest.mark.parametrize(
    "name", ["alpha", "min_share", "carrying_share", "cited_share", "explained_share"]
)
@pytest.mark.parametrize("value", [0.0, 1.0, -0.1, 2, math.nan, math.inf])
def test_shares_lie_between_0_and_1(name: str, value: float) -> None:
    given: dict[str, Any] = {name: value}
    with pytest.raises(InvalidInput, match=f"^{name}={value}; use a value between 0 and 1"):
        VerdictOptions(**given)


@pytest.mark.parametrize("name", ["min_effect", "min_reliance", "min_origin", "origin_ratio"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.nan])
def test_effects_are_positive(name: str, value: float) -> None:
    given: dict[str, Any] = {name: value}
    with pytest.raises(InvalidInput, match=f"^{name}={value}; use more than 0"):
        VerdictOptions(**given)


@pytest.mark.parametrize("value", [1, 0, -3])
def test_a_group_has_room_for_two(value: int) -> None:
    with pytest.raises(InvalidInput, match=f"^max_group={value}; use at least 2"):
        VerdictOptions(max_group=value)
