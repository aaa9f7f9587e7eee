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


class Turn(ForkSafe):
    """A reentrant lock that a thread passes on between the steps of its work.

    Two attributions at the same time would share a model's twin and its memory. Threads get the
    turn in the order in which they came. One that gives way comes again after those that wait.
    """

    def _begin(self) -> None:
        self._changed = threading.Condition()
        self._line: list[int] = []  # threads; the first one has the turn

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Wait until no other thread has the turn, and keep it for the block."""
        thread = threading.get_ident()
        if self._line[:1] == [thread]:
            yield
            return
        try:
            with self._changed:
                self._wait(thread)
            yield
        finally:
            with self._changed:
                if thread in self._line:  # a forked process begins a new line
                    self._line.remove(thread)
                self._changed.notify_all()

    def give_way(self) -> float:
        """Let the threads in the line go first. Returns the seconds that they had the turn.

        Call it between two steps of the thread that has the turn. In other threads, it does
        nothing.
        """
        thread, started = threading.get_ident(), time.perf_counter()
        with self._changed:
            if self._line[:1] != [thread] or len(self._line) == 1:
                return 0.0
            self._line.remove(thread)
            self._wait(thread)
        return time.perf_counter() - started

    def _wait(self, thread: int) -> None:
        self._line.append(thread)
        self._changed.notify_all()
        self._changed.wait_for(lambda: self._line[0] == thread)
