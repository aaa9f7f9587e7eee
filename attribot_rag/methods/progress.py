"""The one progress bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tqdm.auto import tqdm


@contextmanager
def ablation_progress(total: int, *, shown: bool) -> Iterator[Callable[[int], object]]:
    """A bar over ablations; yields the function that moves it."""
    with tqdm(
        total=total, desc="attributing", unit="source", leave=False, disable=not shown
    ) as progress_bar:
        yield progress_bar.update
