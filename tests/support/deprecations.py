"""Deprecations that transformers logs because of our own code are errors."""

import logging
import sys
from collections.abc import Iterator

import pytest

OURS = (
    "attribot_batch",
    "attribot_rag",
    "attribot_server",
    "langchain_attribot",
    "llama_index.postprocessor.attribot",
)
HANDED_ON = "attribot_rag.recording.hook"
"""Calls `generate` with whatever the caller gave."""


class Deprecations(logging.Handler):
    """Collects messages about deprecations in calls that come from a module of ours."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "deprecat" in record.getMessage().lower() and _caller().startswith(OURS):
            self.messages.append(record.getMessage())


def _caller() -> str:
    """The module that called transformers, perhaps through torch or the standard library."""
    frame = sys._getframe()
    names = []
    while frame.f_back is not None:
        frame = frame.f_back
        names.append(str(frame.f_globals.get("__name__")))
    last = max(index for index, name in enumerate(names) if name.startswith("transformers"))
    callers = (name for name in names[last:] if not name.startswith(("transformers", "torch")))
    caller = next(callers, "")
    return "" if caller == HANDED_ON else caller


@pytest.fixture(autouse=True)
def no_deprecations() -> Iterator[None]:
    handler = Deprecations()
    logger = logging.getLogger("transformers")
    logger.addHandler(handler)
    yield
    logger.removeHandler(handler)
    assert handler.messages == []
