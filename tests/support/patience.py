"""Time limits of tests: `ATTRIBOT_RAG_PATIENCE` multiplies them all, for busy machines."""

import os
import time
from collections.abc import Callable

PATIENCE = float(os.environ.get("ATTRIBOT_RAG_PATIENCE", "1"))


def scaled(limit: float) -> float:
    """A limit of time, in whatever unit, for this machine."""
    return limit * PATIENCE


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + scaled(20)
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)
