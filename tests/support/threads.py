"""Several threads at once."""

import threading
from collections.abc import Callable


def at_once(*works: Callable[[], object]) -> None:
    """Each work in a thread of its own; ends when all have ended."""
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
