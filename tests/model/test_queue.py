"""Who has to wait for whom, when several answers of a model are to be attributed."""

import gc
import itertools
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from typing import TypeVar

import pytest
from support.patience import scaled
from support.threads import at_once
from support.tiny_models import build

from attribot_rag.errors import QueueFull
from attribot_rag.model.queue import ModelQueue

Result = TypeVar("Result")


class Blocker:
    """A task that runs until it is let go."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()

    def __call__(self) -> str:
        self.reached.set()
        assert self.opened.wait(scaled(60))
        return "done"


@pytest.fixture
def blocker() -> Iterator[Blocker]:
    """Opened at the end in any case, so that no thread is left waiting."""
    blocker = Blocker()
    yield blocker
    blocker.opened.set()


@pytest.fixture
def queue() -> ModelQueue:
    return ModelQueue()


def submit(queue: ModelQueue, task: Callable[[], object], max_pending: int = 100) -> Future[object]:
    return queue.submit(task, max_pending=max_pending)


def run(queue: ModelQueue, task: Callable[[], Result]) -> Result:
    with queue.turn():
        return task()


def fail() -> None:
    raise ValueError("no answer")


class TestTurns:
    def test_one_at_a_time(self, queue: ModelQueue) -> None:
        running, most = 0, 0
        counting = threading.Lock()

        def task() -> None:
            nonlocal running, most
            with counting:
                running += 1
                most = max(most, running)
            time.sleep(0.002)
            with counting:
                running -= 1

        def work() -> None:
            for _ in range(10):
                run(queue, task)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        futures = [submit(queue, lambda: run(queue, task)) for _ in range(10)]
        for thread in threads:
            thread.join()
        for future in futures:
            future.result(scaled(60))
        assert most == 1

    def test_what_runs_here_waits_for_what_runs_in_the_background(
        self, queue: ModelQueue, blocker: Blocker
    ) -> None:
        order: list[str] = []
        future = submit(queue, lambda: run(queue, lambda: order.append(blocker())))
        assert blocker.reached.wait(scaled(60))
        thread = threading.Thread(target=lambda: run(queue, lambda: order.append("here")))
        thread.start()
        thread.join(0.1)
        assert order == []
        blocker.opened.set()
        thread.join()
        future.result(scaled(60))
        assert order == ["done", "here"]

    def test_in_the_order_in_which_they_were_submitted(
        self, queue: ModelQueue, blocker: Blocker
    ) -> None:
        order: list[int] = []
        submit(queue, blocker)
        futures = [submit(queue, lambda i=i: order.append(i)) for i in range(20)]  # type: ignore[misc]
        assert order == []
        blocker.opened.set()
        for future in futures:
            future.result(scaled(60))
        assert order == list(range(20))

    def test_what_runs_in_the_background_takes_no_turn_unasked(
        self, queue: ModelQueue, blocker: Blocker
    ) -> None:
        future = submit(queue, blocker)
        assert blocker.reached.wait(scaled(60))
        assert run(queue, lambda: 3) == 3
        assert not future.done()

    def test_what_runs_already_may_run_more(self, queue: ModelQueue) -> None:
        def nested() -> int:
            return run(queue, lambda: run(queue, lambda: 5))

        assert submit(queue, nested).result(scaled(60)) == 5
        assert run(queue, nested) == 5

    def test_an_error_is_the_caller_s_and_the_next_one_runs(self, queue: ModelQueue) -> None:
        with pytest.raises(ValueError, match="no answer"):
            run(queue, fail)
        with pytest.raises(ValueError, match="no answer"):
            submit(queue, fail).result(scaled(60))
        here = threading.current_thread()
        assert run(queue, threading.current_thread) is here
        assert submit(queue, threading.current_thread).result(scaled(60)) is not here


class TestPending:
    def test_those_that_wait_and_the_one_that_runs_are_counted(
        self, queue: ModelQueue, blocker: Blocker
    ) -> None:
        assert queue.num_pending == 0
        futures = [submit(queue, blocker)]
        assert blocker.reached.wait(scaled(60))
        assert queue.num_pending == 1
        futures += [submit(queue, lambda: None), submit(queue, fail)]
        assert queue.num_pending == 3
        blocker.opened.set()
        for future in futures:
            future.exception(60)
        assert queue.num_pending == 0

    def test_who_waited_for_one_may_submit_the_next(self, queue: ModelQueue) -> None:
        for task in [lambda: None, fail] * 50:
            submit(queue, task, max_pending=1).exception(60)
            assert queue.num_pending == 0

    @pytest.mark.parametrize("max_pending", [1, 3])
    def test_more_than_max_pending_are_refused(
        self, queue: ModelQueue, blocker: Blocker, max_pending: int
    ) -> None:
        futures = [submit(queue, blocker, max_pending) for _ in range(max_pending)]
        message = (
            rf"{max_pending} answers wait for their attribution already "
            rf"\(max_pending={max_pending}\); raise it, give each a smaller budget, or attribute"
        )
        with pytest.raises(QueueFull, match=message):
            submit(queue, fail, max_pending)
        assert queue.num_pending == max_pending
        assert not submit(queue, lambda: None, max_pending + 1).done()
        blocker.opened.set()
        assert [future.result(scaled(60)) for future in futures] == ["done"] * max_pending

    def test_what_waits_for_something_else_is_counted_and_holds_up_nobody(
        self, queue: ModelQueue
    ) -> None:
        awaited: Future[None] = Future()
        later = queue.submit(lambda: "later", max_pending=2, after=awaited)
        assert queue.submit(lambda: "now", max_pending=2).result(scaled(60)) == "now"
        assert queue.num_pending == 1
        with pytest.raises(QueueFull):
            queue.submit(fail, max_pending=1)
        assert not later.done()
        awaited.set_result(None)
        assert later.result(scaled(60)) == "later"
        assert queue.num_pending == 0

    def test_what_was_cancelled_waits_no_longer(self, queue: ModelQueue, blocker: Blocker) -> None:
        """Neither for its turn nor for something else."""
        running = submit(queue, blocker)
        assert blocker.reached.wait(scaled(60))
        awaited: Future[None] = Future()
        cancelled = [submit(queue, fail), queue.submit(fail, max_pending=9, after=awaited)]
        assert queue.num_pending == 3
        for waiting in cancelled:
            assert waiting.cancel()
            with pytest.raises(CancelledError):
                waiting.result(scaled(60))
        assert queue.num_pending == 1
        awaited.set_result(None)
        blocker.opened.set()
        assert running.result(scaled(60)) == "done"
        assert submit(queue, lambda: 3).result(scaled(60)) == 3
        assert queue.num_pending == 0


class TestModels:
    def test_all_who_attribute_a_model_s_answers_share_one(self) -> None:
        models = [build("llama").model for _ in range(3)]
        queues = [ModelQueue.of(model) for model in models]
        assert [ModelQueue.of(model) for model in models] == queues
        together, asked = threading.Barrier(8), build("llama").model
        found: list[ModelQueue] = []

        def ask() -> None:
            together.wait(scaled(60))
            found.append(ModelQueue.of(asked))

        at_once(*[ask] * 8)
        assert len({*found}) == 1
        assert all(one is not other for one, other in itertools.combinations(queues, 2))

    def test_another_model_does_not_wait(self, blocker: Blocker) -> None:
        one, other = build("llama").model, build("llama").model
        future = submit(ModelQueue.of(one), blocker)
        assert blocker.reached.wait(scaled(60))
        assert submit(ModelQueue.of(other), lambda: 3).result(scaled(60)) == 3
        assert run(ModelQueue.of(other), lambda: 4) == 4
        assert not future.done()

    def test_neither_the_model_nor_a_thread_is_kept_alive(self) -> None:
        model = build("llama").model
        queue = ModelQueue.of(model)
        thread = submit(queue, threading.current_thread).result(scaled(60))
        assert isinstance(thread, threading.Thread)
        assert submit(queue, lambda model=model: model.num_parameters()).result(scaled(60))  # type: ignore[misc]
        thread.join(60)
        assert not thread.is_alive()
        gone = weakref.ref(model)
        del model
        gc.collect()
        assert gone() is None
        gone_queue = weakref.ref(queue)
        del queue
        gc.collect()
        assert gone_queue() is None


def test_what_was_submitted_is_finished_before_the_interpreter_exits() -> None:
    program = """
import threading
from concurrent.futures import Future
from attribot_rag.model.queue import ModelQueue

awaited = Future()
ModelQueue().submit(lambda: print("done"), max_pending=1, after=awaited)
threading.Timer(0.2, awaited.set_result, [None]).start()
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (found.stdout, found.stderr) == ("done\n", "")
