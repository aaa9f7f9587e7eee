"""Compares amounts in different units."""

from __future__ import annotations

import re
from functools import cache
from math import isclose
from typing import Any

from attribot_checks.quantities import Quantity
from attribot_checks.vocabulary import CENT, HUNDREDTHS, Unit

_TOLERANCE = 0.05  # converted amounts are rounded
_NAMES = {
    "celsius": "degC",
    "fahrenheit": "degF",
    "tonne": "metric_ton",
    "gallon-imperial": "imperial_gallon",
}
_POWER = re.compile(r"\b(square|cubic)-")  # which pint reads before a space


def same_amount(first: Quantity, second: Quantity) -> bool:
    """Whether two amounts in different units are equal, up to rounding."""
    if first.unit is None or second.unit is None or first.unit == second.unit:
        return False
    is_money = first.unit.is_currency and CENT not in (first.unit, second.unit)  # rates change
    if is_money or first.unit.dimension != second.unit.dimension:
        return False
    for value in first.values:
        amount = converted(float(value), first.unit, second.unit)
        if amount is None:
            return True  # unknown
        if any(isclose(amount, other, rel_tol=_TOLERANCE) for other in second.values):
            return True
    return False


def converted(value: float, source: Unit, target: Unit) -> float | None:
    """An amount in another unit; None if the registry lacks one of them."""
    if not {source, target}.isdisjoint(HUNDREDTHS):
        return value / (100 if source in HUNDREDTHS else 1) * (100 if target in HUNDREDTHS else 1)
    try:
        quantity = _registry().Quantity(value, _pint_name(source.name))
        return float(quantity.to(_pint_name(target.name)).magnitude)
    except (AttributeError, ValueError, ArithmeticError):  # pint's errors are AttributeErrors
        return None


def _pint_name(name: str) -> str:
    power = _POWER.sub(r"\1 ", _NAMES.get(name, name))
    return power.replace("-per-", "/").replace("-", "_")


@cache
def _registry() -> Any:
    import pint

    return pint.UnitRegistry()
