"""A background thread that is ended: nothing is lost, nothing stuck."""

import sys
import threading

import pytest
from support.patience import scaled

from attribot_rag.model.queue import ModelQueue


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_another_thread_goes_on_for_one_that_was_ended() -> None:
    """Futures pass on what is no Exception from their callbacks."""
    queue, opened = ModelQueue(), threading.Event()

    def hold() -> threading.Thread:
        assert opened.wait(scaled(60))
        return threading.current_thread()

    held = queue.submit(hold, max_pending=9)
    held.add_done_callback(lambda _: sys.exit())
    waiting = queue.submit(threading.current_thread, max_pending=9)
    opened.set()
    ended = held.result(scaled(60))
    assert waiting.result(scaled(60)) is not ended
    ended.join(scaled(60))
    assert not ended.is_alive()
    assert queue.num_pending == 0
    assert queue.submit(lambda: 3, max_pending=9).result(scaled(60)) == 3


def test_a_task_that_kills_its_thread_is_told_and_the_next_one_runs() -> None:
    queue = ModelQueue()
    killing = queue.submit(sys.exit, max_pending=9)
    with pytest.raises(SystemExit):
        killing.result(scaled(60))
    assert queue.submit(lambda: 3, max_pending=9).result(scaled(60)) == 3
