"""A caller's processors of logits, watched: do they forbid or force tokens?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from transformers import LogitsProcessor, LogitsProcessorList

_CERTAIN = 0.999


class ProcessorWatch:
    """Compares the scores before and after the processors of one `generate` call, at each step."""

    def __init__(self, eos_ids: Collection[int]) -> None:
        self._eos_ids = sorted(eos_ids)
        self._before: torch.Tensor | None = None
        self._constrained: torch.Tensor | None = None

    def around(self, processors: Sequence[Any]) -> LogitsProcessorList:
        """The same processors between two of ours, which change nothing."""
        return LogitsProcessorList([_Look(self._begin), *processors, _Look(self._end)])

    @property
    def constrained(self) -> bool:
        """Whether a score was changed, other than to end the response: then EOS is certain."""
        return self._constrained is not None and bool(self._constrained)

    def _begin(self, scores: torch.Tensor) -> None:
        self._before = scores.clone()  # a processor may write to the scores

    def _end(self, scores: torch.Tensor) -> None:
        assert self._before is not None
        changed = (scores != self._before).any(-1)
        ends = scores.softmax(-1)[:, self._eos_ids].sum(-1) > _CERTAIN
        constrained = (changed & ~ends).any()
        earlier = self._constrained
        self._constrained = constrained if earlier is None else earlier | constrained


class _Look(LogitsProcessor):
    """Shows the scores to a function and gives them on as they are."""

    def __init__(self, look: Callable[[torch.Tensor], None]) -> None:
        self._look = look

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        self._look(scores)
        return scores
