"""Threads that share a model: turns, background tasks, and locks in forked processes."""

from __future__ import annotations

import os
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar
from weakref import WeakSet

from attribot_rag.errors import QueueFull


class ForkSafe(ABC):
    """An object with locks that `_begin` makes, and makes again in a forked process.

    There, nobody would release the locks of the parent's threads.
    """

    _instances: ClassVar[weakref.WeakSet[ForkSafe]] = weakref.WeakSet()

    def __init__(self) -> None:
        self._begin()
        ForkSafe._instances.add(self)

    @abstractmethod
    def _begin(self) -> None:
        """Make the locks, and all state that belongs to this process's threads."""


def _begin_all() -> None:
    for instance in list(ForkSafe._instances):
        instance._begin()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_begin_all)


Result = TypeVar("Result")


class Background(ForkSafe):
    """Runs tasks in one thread, in order, and finishes them before the interpreter exits.

    A forked process begins with no tasks.
    """

    def _begin(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="attribot-rag")
        self._submitting = threading.RLock()
        self._futures: WeakSet[Future[Any]] = WeakSet()

    @property
    def num_pending(self) -> int:
        """How many tasks wait or run."""
        with self._submitting:
            return sum(not future.done() for future in self._futures)

    def submit(
        self, task: Callable[[], Result], *, max_pending: int, after: Future[Any] | None = None
    ) -> Future[Result]:
        """Run the task when `after` is done. Raises QueueFull if `max_pending` wait or run."""
        future: Future[Result] = Future()
        with self._submitting:
            if self.num_pending >= max_pending:
                raise QueueFull(
                    f"{self.num_pending} answers wait for their attribution already "
                    f"(max_pending={max_pending}); raise it, give each a smaller budget, or "
                    "attribute inline"
                )
            self._futures.add(future)

        def begin(_: object = None) -> None:
            try:
                self._thread.submit(_run, task, future)
            except RuntimeError:  # the interpreter is exiting, and waits for this thread
                _run(task, future)

        if after is None:
            begin()
        else:
            after.add_done_callback(begin)
        return future


def _run(task: Callable[[], Result], future: Future[Result]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = task()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)


@dataclass(eq=False)
class _Share:
    """How long a thread has had the turn, plus the smallest share when it came."""

    seconds: float


class Turn(ForkSafe):
    """A reentrant lock that a thread passes on between the steps of its work.

    Two attributions at the same time would share a model's twin and its memory. The thread with the
    smallest share is next, so threads that give way have the turn for equal times (start-time fair
    queueing, Goyal et al. 1996). Threads that never give way get it in the order in which they
    came.
    """

    def _begin(self) -> None:
        self._changed = threading.Condition()
        self._line: list[_Share] = []
        self._current: _Share | None = None
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
                if self._owner == threading.get_ident():  # otherwise it was interrupted in the line
                    self._leave()

    def give_way(self) -> float:
        """Let threads with smaller shares go first. Returns the seconds that they had the turn.

        Call it between two steps of the thread that has the turn. In other threads, it does
        nothing.
        """
        with self._changed:
            share = self._current
            if share is None or self._owner != threading.get_ident():
                return 0.0
            started = self._count(share)
            if all(waiting.seconds >= share.seconds for waiting in self._line):
                return 0.0
            self._leave()
            self._enter(share)
            return time.perf_counter() - started

    def _least(self) -> float:
        """The smallest share so far.

        New threads start there, so they do not catch up on the past.
        """
        present = list(self._line)
        if self._current is not None:
            self._count(self._current)
            present.append(self._current)
        return min((share.seconds for share in present), default=0.0)

    def _count(self, current: _Share) -> float:
        """Add the time until now to the current share. Returns the time."""
        now = time.perf_counter()
        current.seconds += now - self._since
        self._since = now
        return now

    def _enter(self, share: _Share) -> None:
        self._line.append(share)
        try:
            self._changed.wait_for(lambda: self._current is None and self._next() is share)
        finally:  # also after an interruption
            self._line.remove(share)
            self._changed.notify_all()
        self._current, self._owner = share, threading.get_ident()
        self._since = time.perf_counter()

    def _next(self) -> _Share:
        return min(self._line, key=lambda share: share.seconds)  # of equal shares, the first

    def _leave(self) -> None:
        self._current = self._owner = None
        self._changed.notify_all()
