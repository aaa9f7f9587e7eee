"""Batches of rows, limited by a token budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import torch
from transformers import PreTrainedModel

from attribot_rag.errors import ScoringOutOfMemory
from attribot_rag.scoring.base import Implementation
from attribot_rag.scoring.footprint import logit_bytes, token_bytes
from attribot_rag.scoring.row import Row

_REMEDY = "use a shorter context, a smaller dtype, or another device"
_CPU_TOKENS = 1536
_MAX_CUDA_TOKENS = 1 << 16
_MEMORY_SHARE = 0.5

Found = TypeVar("Found")


class Batching:
    """Divides rows into batches by a token budget, which is halved when memory runs out.

    A position whose logits are needed counts as several tokens, by its memory. Without a
    `token_budget`, the free memory of a GPU decides; on a CPU, where larger batches are not faster,
    the budget is fixed.
    """

    def __init__(
        self, model: PreTrainedModel, implementation: Implementation, token_budget: int | None
    ) -> None:
        num_logits = len(implementation.generation.response_ids)
        self._head_tokens = num_logits * logit_bytes(model) // token_bytes(model)
        self._implementation = implementation
        self.token_budget = token_budget or _default_budget(model.device, token_bytes(model))

    def next_batch(self, rows: Sequence[Row], start: int = 0) -> list[Row]:
        """As many of the rows from `start` on as the budget allows, at least a single row."""
        batch: list[Row] = []
        used = 0
        for index in range(start, len(rows)):
            row = rows[index]
            used += self._num_tokens(row)
            if used > self.token_budget and batch:
                break
            batch.append(row)
        return batch

    def halve(self, batch: Sequence[Row]) -> None:
        """Make room after this batch did not fit; raises ScoringOutOfMemory for a single row."""
        if len(batch) == 1:
            raise ScoringOutOfMemory(
                f"one ablation of {self._implementation.num_tokens(batch[0])} tokens does not fit "
                f"into memory; {_REMEDY}"
            )
        self.token_budget = min(self.token_budget, sum(map(self._num_tokens, batch))) // 2
        if self._implementation.device.type == "cuda":
            torch.cuda.empty_cache()

    def _num_tokens(self, row: Row) -> int:
        return self._implementation.num_tokens(row) + self._head_tokens


def _default_budget(device: torch.device, bytes_per_token: int) -> int:
    if device.type != "cuda":
        return _CPU_TOKENS
    free, _ = torch.cuda.mem_get_info(device)
    return max(1, min(int(free * _MEMORY_SHARE) // bytes_per_token, _MAX_CUDA_TOKENS))


def is_out_of_memory(error: BaseException) -> bool:
    """CUDA has an error of its own; the CPU allocator raises a plain RuntimeError."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and (
        "not enough memory" in str(error) or "can't allocate memory" in str(error)
    )


@contextmanager
def naming_out_of_memory(num_tokens: int) -> Iterator[None]:
    """Raises the errors of any allocator as ScoringOutOfMemory."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if isinstance(error, ScoringOutOfMemory) or not is_out_of_memory(error):
            raise
        raise ScoringOutOfMemory(
            f"the attribution of {num_tokens} tokens does not fit into memory; {_REMEDY}"
        ) from error


def unless_out_of_memory(compute: Callable[[], Found]) -> Found | None:
    """The result computed without gradients, or None if it does not fit into memory."""
    try:
        with torch.no_grad():
            return compute()
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return None
