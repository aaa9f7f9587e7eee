"""Tasks that wait in the background: their number, their order, and their end."""

import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from typing import Any

import pytest
from support.patience import scaled
from support.threads import at_once
from support.tiny_models import build

from attribot_rag.errors import QueueFull
from attribot_rag.model.local_model import LocalWeights
from attribot_rag.model.threads import Background


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
def background() -> Background:
    return Background()


def submit(
    background: Background, task: Callable[[], object], max_pending: int = 100, **options: Any
) -> Future[object]:
    return background.submit(task, max_pending=max_pending, **options)


def fail() -> None:
    raise ValueError("no answer")


def test_tasks_run_in_another_thread_in_the_order_of_their_submission(
    background: Background, blocker: Blocker
) -> None:
    order: list[int] = []
    submit(background, blocker)
    futures = [submit(background, lambda i=i: order.append(i)) for i in range(20)]  # type: ignore[misc]
    assert order == []
    blocker.opened.set()
    for future in futures:
        future.result(scaled(60))
    assert order == list(range(20))
    here = threading.current_thread()
    assert submit(background, threading.current_thread).result(scaled(60)) is not here


@pytest.mark.parametrize(("task", "error"), [(fail, ValueError), (sys.exit, SystemExit)])
def test_an_error_is_the_caller_s_and_the_next_one_runs(
    background: Background, task: Callable[[], None], error: type[BaseException]
) -> None:
    """Even one that ends the thread."""
    with pytest.raises(error):
        submit(background, task).result(scaled(60))
    assert submit(background, lambda: 3).result(scaled(60)) == 3


def test_a_callback_that_exits_holds_up_nothing(background: Background, blocker: Blocker) -> None:
    """Futures pass on what is no Exception from their callbacks."""
    running = submit(background, blocker)
    running.add_done_callback(lambda _: sys.exit())
    waiting = submit(background, lambda: 4)
    blocker.opened.set()
    assert running.result(scaled(60)) == "done"
    assert waiting.result(scaled(60)) == 4
    assert background.num_pending == 0
    assert submit(background, lambda: 3).result(scaled(60)) == 3


def test_more_than_max_pending_are_refused(background: Background, blocker: Blocker) -> None:
    max_pending = 3
    futures = [submit(background, blocker, max_pending) for _ in range(max_pending)]
    with pytest.raises(QueueFull, match=r"max_pending=3.*raise it"):
        submit(background, fail, max_pending)
    assert background.num_pending == max_pending
    assert not submit(background, lambda: None, max_pending + 1).done()
    blocker.opened.set()
    assert [future.result(scaled(60)) for future in futures] == ["done"] * max_pending


def test_a_task_that_waits_for_a_future_is_counted_and_holds_up_no_other(
    background: Background,
) -> None:
    awaited: Future[None] = Future()
    later = submit(background, lambda: "later", 2, after=awaited)
    assert submit(background, lambda: "now", 2).result(scaled(60)) == "now"
    assert background.num_pending == 1
    with pytest.raises(QueueFull):
        submit(background, fail, 1)
    assert not later.done()
    awaited.set_result(None)
    assert later.result(scaled(60)) == "later"
    assert background.num_pending == 0


def test_a_cancelled_task_is_pending_no_longer(background: Background, blocker: Blocker) -> None:
    awaited: Future[None] = Future()
    assert submit(background, fail, after=awaited).cancel()
    assert background.num_pending == 0
    running = submit(background, blocker)
    assert blocker.reached.wait(scaled(60))
    waiting = submit(background, fail)
    assert waiting.cancel()
    assert background.num_pending == 1
    blocker.opened.set()
    awaited.set_result(None)
    assert running.result(scaled(60)) == "done"
    with pytest.raises(CancelledError):
        waiting.result(scaled(60))
    assert submit(background, lambda: 3).result(scaled(60)) == 3
    assert background.num_pending == 0


def test_users_of_one_model_share_a_backend_and_other_models_do_not_wait(
    blocker: Blocker,
) -> None:
    model, other = build("llama").model, build("llama").model
    together = threading.Barrier(8)
    backends: list[LocalWeights] = []

    def ask() -> None:
        together.wait(scaled(60))
        backends.append(LocalWeights.of(model))

    at_once(*[ask] * 8)
    assert len(backends) == 8
    assert len(set(backends)) == 1
    future = submit(backends[0].background, blocker)
    assert blocker.reached.wait(scaled(60))
    apart = LocalWeights.of(other)
    assert submit(apart.background, lambda: 3).result(scaled(60)) == 3
    with backends[0].turn(), apart.turn():
        assert not future.done()  # and takes no turn unasked


def test_neither_the_model_nor_a_thread_is_kept_alive() -> None:
    backend = LocalWeights.of(build("llama").model)
    thread = submit(backend.background, threading.current_thread).result(scaled(60))
    assert isinstance(thread, threading.Thread)
    count = submit(backend.background, lambda model=backend.model: model.num_parameters())  # type: ignore[misc]
    assert count.result(scaled(60))
    gone = weakref.ref(backend.model)
    del backend
    gc.collect()
    assert gone() is None
    thread.join(scaled(60))
    assert not thread.is_alive()


@pytest.mark.long
def test_submitted_tasks_finish_before_the_interpreter_exits() -> None:
    program = """
import threading
from concurrent.futures import Future
from attribot_rag.model.threads import Background

awaited = Future()
Background().submit(lambda: print("done"), max_pending=1, after=awaited)
threading.Timer(0.2, awaited.set_result, [None]).start()
"""
    backends = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (backends.stdout, backends.stderr) == ("done\n", "")
