"""The use of a model by one thread at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from attribot_rag.model.forking import ForkSafe


@dataclass(eq=False)
class _Share:
    """What a thread has had of the turn, in seconds, with what others had before it came."""

    seconds: float


class Turn(ForkSafe):
    """Held by one thread at a time, and again by the same one within that.

    Two attributions at once would share a model's twin and its memory.

    The next is the one that has had least, so that threads which give way between their steps have
    it for equal times (start-time fair queueing, Goyal et al. 1996); those that never do have it in
    the order in which they came.
    """

    def _begin(self) -> None:
        self._changed = threading.Condition()
        self._line: list[_Share] = []
        self._held: _Share | None = None
        self._owner: int | None = None
        self._since = 0.0

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Wait until no other thread has the turn, and keep it for the block."""
        if self._owner == threading.get_ident():
            yield
            return
        with self._changed:
            self._enter(_Share(self._least()))
        try:
            yield
        finally:
            with self._changed:
                if self._owner == threading.get_ident():  # else it was interrupted in line
                    self._leave()

    def give_way(self) -> float:
        """Let those that have had less go first; returns for how many seconds they had the turn.

        For the thread that holds it, between two of its steps; nothing in any other.
        """
        with self._changed:
            share = self._held
            if share is None or self._owner != threading.get_ident():
                return 0.0
            started = self._count(share)
            if all(other.seconds >= share.seconds for other in self._line):
                return 0.0
            self._leave()
            self._enter(share)
            return time.perf_counter() - started

    def _least(self) -> float:
        """What the one that has had least has had: who comes is not to catch up with the past."""
        if self._held is not None:
            self._count(self._held)
        present = [*self._line, self._held] if self._held is not None else self._line
        return min((one.seconds for one in present), default=0.0)

    def _count(self, held: _Share) -> float:
        """Add the time until now to the share of the one that holds the turn; returns now."""
        now = time.perf_counter()
        held.seconds += now - self._since
        self._since = now
        return now

    def _enter(self, share: _Share) -> None:
        self._line.append(share)
        try:
            self._changed.wait_for(lambda: self._held is None and self._next() is share)
        finally:  # interrupted, too
            self._line.remove(share)
            self._changed.notify_all()
        self._held, self._owner = share, threading.get_ident()
        self._since = time.perf_counter()

    def _next(self) -> _Share:
        return min(self._line, key=lambda one: one.seconds)  # the first of equal ones

    def _leave(self) -> None:
        self._held = self._owner = None
        self._changed.notify_all()
