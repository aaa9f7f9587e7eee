"""The progress bar of attributions and evaluations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tqdm.auto import tqdm

from attribot_rag.scoring import Progress

_FORMAT = "{desc}: {percentage:3.0f}% |{bar}| {n_fmt} of {total_fmt} {unit} [{elapsed}<{remaining}]"


class ProgressBar(Progress):
    """A bar whose total grows with the expected work."""

    def __init__(self, bar: tqdm[Any]) -> None:
        self._bar = bar

    def expect(self, count: int) -> None:
        self._bar.total = (self._bar.total or 0) + count
        self._bar.refresh()

    def advance(self, count: int) -> None:
        self._bar.update(count)


@contextmanager
def progress_bar(
    *, shown: bool, doing: str = "attributing", unit: str = "source", every: float = 0.1
) -> Iterator[Progress]:
    """A bar for the block, nothing unless `shown`; drawn again `every` so many seconds."""
    with tqdm(
        total=0,
        desc=doing,
        unit=f"{unit}s",
        bar_format=_FORMAT,
        leave=False,
        disable=not shown,
        mininterval=every,
    ) as bar:
        yield ProgressBar(bar)
