"""Processes that a test started, and how they ended."""

import os
import signal
import time


def exit_code(child: int, seconds: float) -> int | None:
    """The exit code of a forked child; None if it had to be ended after this time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None
