"""Thresholds that make no sense are named."""

import math
from dataclasses import replace
from typing import Any

import pytest

from attribot_rag.errors import InvalidInput
from attribot_rag.methods.limits import READER_LIMITS, Limits
from attribot_rag.verdicts import VerdictOptions

LIMITS = ("min_effect", "min_word", "min_reliance", "min_follows")


@pytest.mark.parametrize("name", [*LIMITS, "token_share", "min_tokens"])
@pytest.mark.parametrize("value", [0.0, math.nan, "4"])
def test_options_are_more_than_0(name: str, value: float) -> None:
    options: dict[str, Any] = {name: value}
    with pytest.raises(InvalidInput, match=f"^{name}={value!r}; use a number above 0"):
        VerdictOptions(**options)


@pytest.mark.parametrize(("is_reader", "chosen"), [(False, Limits()), (True, READER_LIMITS)])
def test_limits_are_the_options_and_else_those_chosen_on_data(
    is_reader: bool, chosen: Limits
) -> None:
    options = VerdictOptions(min_effect=5.0, min_word=3.0, min_reliance=7.0, min_follows=9.0)
    changed = {name: getattr(options, name) for name in LIMITS}
    assert options.limits(is_reader=is_reader) == replace(chosen, **changed)
    assert VerdictOptions().limits(is_reader=is_reader) == chosen
    few = VerdictOptions(min_word=3.0).limits(is_reader=is_reader)
    assert few == replace(chosen, min_word=3.0)
