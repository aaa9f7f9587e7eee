"""A bounded number of tasks that wait in the background."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar
from weakref import WeakSet

from attribot_rag.errors import QueueFull
from attribot_rag.model.forking import ForkSafe

Result = TypeVar("Result")


class Background(ForkSafe):
    """Tasks run in one thread, in their order, and are finished before the interpreter exits.

    A forked process has a background of its own, which is empty.
    """

    def _begin(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="attribot-rag")
        self._submitting = threading.RLock()
        self._futures: WeakSet[Future[Any]] = WeakSet()

    @property
    def num_pending(self) -> int:
        """The number of tasks that wait or run."""
        with self._submitting:
            return sum(not future.done() for future in self._futures)

    def submit(
        self, task: Callable[[], Result], *, max_pending: int, after: Future[Any] | None = None
    ) -> Future[Result]:
        """Run the task once `after` is done; raises QueueFull if `max_pending` wait or run."""
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
            except RuntimeError:  # the interpreter exits, and waits for this thread
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
