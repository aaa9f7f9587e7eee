"""Locks and threads that are made again in a forked process, which has only its own thread."""

from __future__ import annotations

import os
import weakref
from abc import ABC, abstractmethod
from typing import ClassVar


class ForkSafe(ABC):
    """An object with locks, which are made in `_begin`, and made again in a forked child.

    There nobody would release the locks of the parent's threads.
    """

    _instances: ClassVar[weakref.WeakSet[ForkSafe]] = weakref.WeakSet()

    def __init__(self) -> None:
        self._begin()
        ForkSafe._instances.add(self)

    @abstractmethod
    def _begin(self) -> None:
        """Make the locks, and all state that belongs to the threads of this process."""


def _begin_all() -> None:
    for instance in list(ForkSafe._instances):
        instance._begin()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_begin_all)
