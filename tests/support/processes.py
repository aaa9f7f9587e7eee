"""Processes that a test started, and how they ended."""

import os
import signal
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from threading import RLock
from typing import Any

from tqdm.auto import tqdm


def forked(target: Callable[..., object], *args: Any, **kwargs: Any) -> BaseProcess:
    """A forked process that may be killed at any moment.

    Its progress bars have a lock of their own: killed while it holds tqdm's, which forked processes
    share, it would keep all others waiting.
    """

    def run() -> None:
        tqdm.set_lock(RLock())
        target(*args, **kwargs)

    return get_context("fork").Process(target=run)


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
