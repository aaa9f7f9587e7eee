"""What a method's time is read from."""

from __future__ import annotations

import time

from attribot_rag.errors import InvalidInput

CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
"""'wall' is what a user waits; 'cpu' is the processor time of all threads together, which other
work on the machine does not change, and which says nothing of a GPU."""


def check_clock(clock: str, device_type: str) -> None:
    """Raises InvalidInput for an unknown clock, and for one that cannot see the device."""
    if clock not in CLOCKS:
        raise InvalidInput(f"unknown clock {clock!r}; choose one of {', '.join(CLOCKS)}")
    if clock == "cpu" and device_type != "cpu":
        raise InvalidInput(f"clock 'cpu' does not count what {device_type} does; use 'wall'")
