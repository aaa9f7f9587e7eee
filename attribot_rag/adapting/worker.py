"""One attribution at a time for each model, in the background too."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ClassVar, TypeVar
from weakref import WeakKeyDictionary

from transformers import PreTrainedModel

from attribot_rag.errors import QueueFull

Result = TypeVar("Result")

_making = threading.Lock()


class Worker:
    """Runs what scores one model: two at once would only share its processor and its memory.

    What was submitted is finished before the interpreter exits.
    """

    _workers: ClassVar[WeakKeyDictionary[PreTrainedModel, Worker]] = WeakKeyDictionary()

    def __init__(self) -> None:
        self._turn = threading.RLock()
        self._counting = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None
        self._num_pending = 0

    @classmethod
    def of(cls, model: PreTrainedModel) -> Worker:
        """The one that all who attribute this model's answers share."""
        with _making:
            return cls._workers.setdefault(model, cls())

    @property
    def num_pending(self) -> int:
        """How many wait or run in the background."""
        return self._num_pending

    def run(self, task: Callable[[], Result]) -> Result:
        """Run it here, as soon as nothing else runs."""
        with self._turn:
            return task()

    def submit(self, task: Callable[[], Result], *, max_pending: int) -> Future[Result]:
        """Run it in the background, after what was submitted before.

        Raises QueueFull if `max_pending` wait or run already.
        """
        with self._counting:
            if self._num_pending >= max_pending:
                raise QueueFull(
                    f"{self._num_pending} answers wait for their attribution already "
                    f"(max_pending={max_pending}); raise it, give each a smaller budget, or "
                    "attribute inline"
                )
            self._num_pending += 1
            if self._executor is None:
                self._executor = ThreadPoolExecutor(1, thread_name_prefix="attribot-rag")
        future = self._executor.submit(self._run_counted, task)
        future.add_done_callback(self._count_cancelled)
        return future

    def _run_counted(self, task: Callable[[], Result]) -> Result:
        """Run it and count it out before its future is done: who waits for that may submit."""
        try:
            return self.run(task)
        finally:
            self._count_out()

    def _count_cancelled(self, future: Future[Result]) -> None:
        if future.cancelled():  # it never ran
            self._count_out()

    def _count_out(self) -> None:
        with self._counting:
            self._num_pending -= 1
