"""Who has to wait for whom, when several answers of a model are to be attributed."""

import gc
import itertools
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future

import pytest
from support.tiny_models import build

from attribot_rag.adapting import Worker
from attribot_rag.errors import QueueFull


class Blocker:
    """A task that runs until it is let go."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()

    def __call__(self) -> str:
        self.reached.set()
        assert self.opened.wait(60)
        return "done"


@pytest.fixture
def blocker() -> Iterator[Blocker]:
    """Opened at the end in any case, so that no thread is left waiting."""
    blocker = Blocker()
    yield blocker
    blocker.opened.set()


@pytest.fixture
def worker() -> Worker:
    return Worker()


def submit(worker: Worker, task: Callable[[], object], max_pending: int = 100) -> Future[object]:
    return worker.submit(task, max_pending=max_pending)


def fail() -> None:
    raise ValueError("no answer")


class TestTurns:
    def test_results_are_those_of_the_tasks(self, worker: Worker) -> None:
        assert worker.run(lambda: 3) == 3
        assert submit(worker, lambda: 4).result(60) == 4

    def test_what_is_submitted_runs_in_another_thread(self, worker: Worker) -> None:
        here = threading.current_thread()
        assert worker.run(threading.current_thread) is here
        assert submit(worker, threading.current_thread).result(60) is not here

    def test_one_at_a_time(self, worker: Worker) -> None:
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

        def run() -> None:
            for _ in range(10):
                worker.run(task)

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        futures = [submit(worker, task) for _ in range(10)]
        for thread in threads:
            thread.join()
        for future in futures:
            future.result(60)
        assert most == 1

    def test_what_runs_here_waits_for_what_runs_in_the_background(
        self, worker: Worker, blocker: Blocker
    ) -> None:
        order: list[str] = []
        future = submit(worker, lambda: order.append(blocker()))
        assert blocker.reached.wait(60)
        thread = threading.Thread(target=lambda: worker.run(lambda: order.append("here")))
        thread.start()
        thread.join(0.1)
        assert order == []
        blocker.opened.set()
        thread.join()
        future.result(60)
        assert order == ["done", "here"]

    def test_in_the_order_in_which_they_were_submitted(
        self, worker: Worker, blocker: Blocker
    ) -> None:
        order: list[int] = []
        submit(worker, blocker)
        futures = [submit(worker, lambda i=i: order.append(i)) for i in range(20)]  # type: ignore[misc]
        assert order == []
        blocker.opened.set()
        for future in futures:
            future.result(60)
        assert order == list(range(20))

    def test_what_runs_already_may_run_more(self, worker: Worker) -> None:
        def nested() -> int:
            return worker.run(lambda: worker.run(lambda: 5))

        assert submit(worker, nested).result(60) == 5
        assert worker.run(nested) == 5

    def test_an_error_is_the_caller_s_and_the_next_one_runs(self, worker: Worker) -> None:
        with pytest.raises(ValueError, match="no answer"):
            worker.run(fail)
        with pytest.raises(ValueError, match="no answer"):
            submit(worker, fail).result(60)
        assert submit(worker, lambda: 3).result(60) == 3
        assert worker.run(lambda: 4) == 4


class TestPending:
    def test_those_that_wait_and_the_one_that_runs_are_counted(
        self, worker: Worker, blocker: Blocker
    ) -> None:
        assert worker.num_pending == 0
        futures = [submit(worker, blocker)]
        assert blocker.reached.wait(60)
        assert worker.num_pending == 1
        futures += [submit(worker, lambda: None), submit(worker, fail)]
        assert worker.num_pending == 3
        blocker.opened.set()
        for future in futures:
            future.exception(60)
        assert worker.num_pending == 0

    def test_what_runs_here_is_not_counted(self, worker: Worker) -> None:
        assert worker.run(lambda: worker.num_pending) == 0

    @pytest.mark.parametrize("max_pending", [1, 3])
    def test_more_than_max_pending_are_refused(
        self, worker: Worker, blocker: Blocker, max_pending: int
    ) -> None:
        futures = [submit(worker, blocker, max_pending) for _ in range(max_pending)]
        message = (
            rf"{max_pending} answers wait for their attribution already "
            rf"\(max_pending={max_pending}\); raise it, give each a smaller budget, or attribute"
        )
        with pytest.raises(QueueFull, match=message):
            submit(worker, fail, max_pending)
        assert worker.num_pending == max_pending
        assert not submit(worker, lambda: None, max_pending + 1).done()
        blocker.opened.set()
        assert [future.result(60) for future in futures] == ["done"] * max_pending

    @pytest.mark.parametrize("task", [lambda: None, fail])
    def test_who_waited_for_one_may_submit_the_next(
        self, worker: Worker, task: Callable[[], None]
    ) -> None:
        for _ in range(100):
            submit(worker, task, max_pending=1).exception(60)
            assert worker.num_pending == 0

    def test_what_was_cancelled_waits_no_longer(self, worker: Worker, blocker: Blocker) -> None:
        running = submit(worker, blocker)
        assert blocker.reached.wait(60)
        waiting = submit(worker, fail)
        assert waiting.cancel()
        assert worker.num_pending == 1
        blocker.opened.set()
        assert running.result(60) == "done"
        with pytest.raises(CancelledError):
            waiting.result(60)
        assert submit(worker, lambda: 3).result(60) == 3
        assert worker.num_pending == 0


class TestModels:
    def test_all_who_attribute_a_model_s_answers_share_one(self) -> None:
        models = [build("llama").model for _ in range(3)]
        workers = [Worker.of(model) for model in models]
        assert [Worker.of(model) for model in models] == workers
        assert all(one is not other for one, other in itertools.combinations(workers, 2))

    def test_even_if_they_ask_at_once(self) -> None:
        model = build("llama").model
        together = threading.Barrier(8)
        found: list[Worker] = []

        def ask() -> None:
            together.wait(60)
            found.append(Worker.of(model))

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 8
        assert len(set(found)) == 1

    def test_another_model_does_not_wait(self, blocker: Blocker) -> None:
        one, other = build("llama").model, build("llama").model
        future = submit(Worker.of(one), blocker)
        assert blocker.reached.wait(60)
        assert submit(Worker.of(other), lambda: 3).result(60) == 3
        assert Worker.of(other).run(lambda: 4) == 4
        assert not future.done()

    def test_neither_the_model_nor_a_thread_is_kept_alive(self) -> None:
        model = build("llama").model
        worker = Worker.of(model)
        thread = submit(worker, threading.current_thread).result(60)
        assert isinstance(thread, threading.Thread)
        assert thread.is_alive()
        assert submit(worker, lambda model=model: model.num_parameters()).result(60)  # type: ignore[misc]
        submit(worker, lambda: None).result(60)  # the thread has let go of the one before
        gone = weakref.ref(model)
        del model
        gc.collect()
        assert gone() is None
        gone_worker = weakref.ref(worker)
        del worker
        gc.collect()
        assert gone_worker() is None
        thread.join(60)
        assert not thread.is_alive()
