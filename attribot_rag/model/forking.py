"""Locks and threads that are made again in a forked process, which has only its own thread."""

from __future__ import annotations

import os
import weakref
from abc import ABC, abstractmethod
from typing import ClassVar


class ForkSafe(ABC):
    """An object with locks: in a forked process nobody would release those that a thread held.

    What belongs to the parent's threads is made in `_begin`, and made again in the child.
    """

    _instances: ClassVar[weakref.WeakSet[ForkSafe]] = weakref.WeakSet()

    def __init__(self) -> None:
        self._begin()
        ForkSafe._instances.add(self)

    @abstractmethod
    def _begin(self) -> None:
        """Make the locks, and what only makes sense with the threads that hold them."""


def _begin_all() -> None:
    for instance in list(ForkSafe._instances):
        instance._begin()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_begin_all)
