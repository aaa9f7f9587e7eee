from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event

from support.patience import scaled

from attribot_rag.cached_property import cached_property


class Work:
    def __init__(self, do: Callable[[], object]) -> None:
        self.do = do
        self.times = 0

    @cached_property
    def result(self) -> object:
        self.times += 1
        return self.do()


def test_is_computed_once() -> None:
    work = Work(lambda: 7)

    assert (work.result, work.result, work.times) == (7, 7, 1)


def test_another_object_s_does_not_wait_for_it() -> None:
    begun, done = Event(), Event()

    def wait() -> bool:
        begun.set()
        return done.wait(scaled(20))

    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(lambda: Work(wait).result)
        assert begun.wait(scaled(20))
        other = pool.submit(lambda: Work(lambda: 7).result)
        assert other.result(scaled(10)) == 7
        done.set()
        assert waiting.result()
