"""The processors of logits of a `generate` call, watched: which tokens do they change?"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from transformers import LogitsProcessor, LogitsProcessorList


class ProcessorWatch:
    """Compares the best token before and after each processor of one call, at each step."""

    def __init__(self, eos_ids: Collection[int]) -> None:
        self._eos_ids = torch.tensor(sorted(eos_ids), dtype=torch.long)
        self._best: torch.Tensor | None = None
        self._changed: dict[str, torch.Tensor] | None = None

    def around(self, processors: Sequence[Any]) -> LogitsProcessorList:
        """The same processors between observers, which change nothing."""
        self._changed = {}
        watched = LogitsProcessorList([_Look(self._begin)] if processors else [])
        for processor in processors:
            name = getattr(processor, "__name__", type(processor).__name__)
            watched += [processor, _Look(partial(self._compare, name))]
        return watched

    @property
    def changing(self) -> tuple[str, ...] | None:
        """Processors that changed the best token, other than to end; None if they were not seen."""
        if self._changed is None:
            return None
        return tuple(name for name, changed in self._changed.items() if changed)

    def _begin(self, scores: torch.Tensor) -> None:
        self._best = scores.argmax(-1)  # at once: a processor may write to the scores

    def _compare(self, name: str, scores: torch.Tensor) -> None:
        best, before = scores.argmax(-1), self._best
        assert self._changed is not None
        if before is None or before.shape != best.shape:  # guidance joins rows with and without it
            changed = torch.tensor(True, device=best.device)
        else:
            changed = ((best != before) & ~torch.isin(best, self._eos_ids.to(best.device))).any()
        self._changed[name] = self._changed[name] | changed if name in self._changed else changed
        self._best = best


class ProcessorHook:
    """Stands in for the model's method that makes logits processors."""

    def __init__(self, original: Callable[..., Any]) -> None:
        self.original = original
        self._thread = threading.local()

    @contextmanager
    def watched_by(self, watch: ProcessorWatch) -> Iterator[None]:
        """Watch the processors that this thread's calls make."""
        outer = getattr(self._thread, "watch", None)
        self._thread.watch = watch
        try:
            yield
        finally:
            self._thread.watch = outer

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        processors = self.original(*args, **kwargs)
        watch = getattr(self._thread, "watch", None)
        return processors if watch is None else watch.around(processors)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copied or unpickled model makes its own."""
        return unhooked, (self.original,)


def unhooked(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method as it is, which a copy of a hook stands for."""
    return method


class _Look(LogitsProcessor):
    """Shows the scores to a function, and returns them unchanged."""

    def __init__(self, look: Callable[[torch.Tensor], None]) -> None:
        self._look = look

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        self._look(scores)
        return scores
