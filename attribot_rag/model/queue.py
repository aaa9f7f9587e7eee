"""One attribution at a time for each model, and those that wait in the background."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, TypeVar
from weakref import WeakKeyDictionary

from attribot_rag.errors import QueueFull
from attribot_rag.model.forking import ForkSafe


@dataclass(eq=False)
class _Share:
    """What a thread has had of the turn, in seconds, with what others had before it came."""

    seconds: float


class Turn:
    """Held by one thread at a time, and again by the same one within that.

    The next is the one that has had least, so that threads which give way between their steps have
    it for equal times (start-time fair queueing, Goyal et al. 1996); those that never do have it in
    the order in which they came.
    """

    def __init__(self) -> None:
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


Result = TypeVar("Result")

_making = threading.Lock()


class ModelQueue(ForkSafe):
    """Who scores a model takes its turn: two at once would share its twin and its memory.

    Tasks that are submitted run in one background thread, in their order, and are finished before
    the interpreter exits. A forked process has a queue of its own, which is empty.
    """

    _queues: ClassVar[WeakKeyDictionary[Hashable, ModelQueue]] = WeakKeyDictionary()

    def _begin(self) -> None:
        self._turn = Turn()
        self._changed = threading.Condition()
        self._ready: deque[Callable[[], None]] = deque()
        self._num_pending = 0
        self._thread: threading.Thread | None = None

    @classmethod
    def of(cls, model: Hashable) -> ModelQueue:
        """The queue that all who attribute this model's answers share.

        `model` is the loaded one, or a LanguageModel's `identity`.
        """
        with _making:
            return cls._queues.setdefault(model, cls())

    @property
    def num_pending(self) -> int:
        """How many tasks wait or run in the background."""
        return self._num_pending

    def turn(self) -> AbstractContextManager[None]:
        """Wait until no other thread has the model's turn, and keep it for the block."""
        return self._turn.taken()

    def give_way(self) -> float:
        """Let others go first that have had less of the turn, see `Turn.give_way`."""
        return self._turn.give_way()

    def submit(
        self,
        task: Callable[[], Result],
        *,
        max_pending: int,
        after: Future[Any] | None = None,
    ) -> Future[Result]:
        """Run the task in the background, once the future `after` is done.

        The task takes no turn by itself. Raises QueueFull if `max_pending` tasks wait or run
        already.
        """
        future: Future[Result] = Future()
        with self._changed:
            if self._num_pending >= max_pending:
                raise QueueFull(
                    f"{self._num_pending} answers wait for their attribution already "
                    f"(max_pending={max_pending}); raise it, give each a smaller budget, or "
                    "attribute inline"
                )
            if self._thread is None:
                self._start()
            self._num_pending += 1
        future.add_done_callback(self._count_cancelled)
        ready = partial(self._make_ready, partial(self._run, task, future))
        if after is None:
            ready()
        else:
            after.add_done_callback(lambda _: ready())
        return future

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._work, name="attribot-rag")
        self._thread.start()

    def _make_ready(self, job: Callable[[], None]) -> None:
        with self._changed:
            if self._thread is not None:  # else it was cancelled, and nothing else is pending
                self._ready.append(job)
                self._changed.notify_all()

    def _work(self) -> None:
        """Run what is ready, until nothing is pending."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ready or not self._num_pending)
                if not self._ready:
                    self._thread = None
                    return
                job = self._ready.popleft()
            try:
                job()
            except BaseException:  # a callback of the future ends this thread: another goes on
                with self._changed:
                    self._start()
                raise
            del job  # and with it the task's model

    def _run(self, task: Callable[[], Result], future: Future[Result]) -> None:
        """Count the task out before its future is done: who waits for that may submit."""
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = task()
        except BaseException as error:
            self._count_out()
            future.set_exception(error)
        else:
            self._count_out()
            future.set_result(result)

    def _count_cancelled(self, future: Future[Result]) -> None:
        if future.cancelled():  # it never ran
            self._count_out()

    def _count_out(self) -> None:
        with self._changed:
            self._num_pending -= 1
            self._changed.notify_all()
