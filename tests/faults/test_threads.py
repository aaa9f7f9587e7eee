"""A background thread that is ended: nothing is lost, nothing stuck."""

import sys
import threading

import pytest
from support.patience import scaled

from attribot_rag.model.background import Background


def test_a_callback_that_exits_holds_up_nothing() -> None:
    """Futures pass on what is no Exception from their callbacks."""
    queue, opened = Background(), threading.Event()

    held = queue.submit(lambda: opened.wait(scaled(60)), max_pending=9)
    held.add_done_callback(lambda _: sys.exit())
    waiting = queue.submit(lambda: 4, max_pending=9)
    opened.set()
    assert held.result(scaled(60))
    assert waiting.result(scaled(60)) == 4
    assert queue.num_pending == 0
    assert queue.submit(lambda: 3, max_pending=9).result(scaled(60)) == 3


def test_a_task_that_kills_its_thread_is_told_and_the_next_one_runs() -> None:
    queue = Background()
    killing = queue.submit(sys.exit, max_pending=9)
    with pytest.raises(SystemExit):
        killing.result(scaled(60))
    assert queue.submit(lambda: 3, max_pending=9).result(scaled(60)) == 3
