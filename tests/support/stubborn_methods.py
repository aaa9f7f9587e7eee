"""Methods that wait until they may score, and that fail."""

import threading
from typing import Any

from attribot_rag import LeaveOneOut
from support.patience import scaled


class WaitingMethod(LeaveOneOut):
    """Scores as soon as it is `allowed` to."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.allowed = threading.Event()

    def run(self, scorer: Any) -> Any:
        self.begun.set()
        assert self.allowed.wait(scaled(60))
        return super().run(scorer)


class Broken(LeaveOneOut):
    def run(self, scorer: Any) -> Any:
        raise ZeroDivisionError("the scorer broke")
