"""Time limits of tests, for slow and busy machines, too: `ATTRIBOT_RAG_PATIENCE` multiplies all.

Without it, they are multiplied by how much longer a loop takes than `_IDLE`.
"""

import os
import time
from collections.abc import Callable

import pytest

_LOOP = 300_000
_IDLE = 0.02
"""Seconds of the loop on an idle machine for which the limits are right."""


def _slowness() -> float:
    began, total = time.perf_counter(), 0
    for number in range(_LOOP):
        total += number
    return max(1.0, (time.perf_counter() - began) / _IDLE)


PATIENCE = float(os.environ.get("ATTRIBOT_RAG_PATIENCE") or _slowness())


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """The time that a test may take, where the command line does not say it."""
    if config.option.timeout is None:
        config.option.timeout = scaled(float(config.getini("timeout")))


def scaled(limit: float) -> float:
    """A limit of time, in whatever unit, for this machine."""
    return limit * PATIENCE


def wait_until(condition: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + scaled(seconds)
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)
