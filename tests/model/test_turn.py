"""The turns of threads that use a model."""

import threading
import time
from collections.abc import Callable

import pytest
from support.patience import scaled

from attribot_rag.model.threads import Turn


def started(run: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=run)
    thread.start()
    return thread


def joined(*threads: threading.Thread) -> None:
    for thread in threads:
        thread.join(scaled(60))
        assert not thread.is_alive()


def until_in_line(turn: Turn, count: int) -> None:
    """Until so many threads wait for the one that has the turn."""
    while len(turn._line) <= count:
        time.sleep(0.001)


def test_one_thread_at_a_time_in_the_order_in_which_they_came() -> None:
    turn, had = Turn(), []

    def take(name: int) -> None:
        with turn.taken(), turn.taken():
            had.append(name)

    with turn.taken():
        threads = []
        for name in range(5):
            threads.append(started(lambda name=name: take(name)))  # type: ignore[misc]
            until_in_line(turn, name + 1)
        assert had == []
    joined(*threads)
    assert had == [0, 1, 2, 3, 4]


def test_the_turn_goes_to_all_that_wait_before_it_comes_back() -> None:
    turn, steps = Turn(), []

    def short() -> None:
        with turn.taken():
            steps.append("short")

    def long(name: str) -> None:
        with turn.taken():
            for _ in range(20):
                time.sleep(0.002)
                steps.append(name)
                turn.give_way()

    with turn.taken():
        threads = [started(lambda: long("a")), started(lambda: long("b"))]
        until_in_line(turn, 2)
        assert steps == []
        threads.append(started(short))
        until_in_line(turn, 3)
        assert turn.give_way() > 0
        assert steps == ["a", "b", "short"]
    joined(*threads)
    assert steps.count("a") == steps.count("b") == 20
    assert {"a", "b"} == set(steps[3:7])  # they share it


def test_a_failure_leaves_the_turn_to_the_next_thread() -> None:
    turn, reached = Turn(), threading.Event()
    assert turn.give_way() == 0.0  # without the turn
    with turn.taken():
        assert turn.give_way() == 0.0  # to nobody
    with pytest.raises(ZeroDivisionError), turn.taken():
        raise ZeroDivisionError

    def take() -> None:
        with turn.taken():
            reached.set()

    joined(started(take))
    assert reached.is_set()
