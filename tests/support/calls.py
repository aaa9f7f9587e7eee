"""The amount of work, counted and not timed."""

import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any


def calls_of(work: Callable[[], object]) -> Counter[str]:
    """The calls of functions and the steps of generators by name; those of C under ''."""
    counts: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call":
            counts[frame.f_code.co_name] += 1
        elif event == "c_call":
            counts[""] += 1

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return counts


def num_calls(work: Callable[[], object]) -> int:
    return calls_of(work).total()
