"""Memory: what a token takes, what is free, and errors for what does not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import psutil
import torch
from transformers import PreTrainedModel

from attribot_rag.errors import ScoringOutOfMemory

REMEDY = "use a shorter context, a smaller dtype, or another device"
_CPU_TOKENS = 1536
_MAX_CUDA_TOKENS = 1 << 16
_MEMORY_SHARE = 0.5
Result = TypeVar("Result")


def token_bytes(model: PreTrainedModel) -> int:
    """Bytes of a token's states in the largest layer: residual, attention and feed-forward."""
    config = model.config.get_text_config(decoder=True)
    hidden = int(config.hidden_size)
    inner = 4 * hidden
    # Most models have one shape for all layers.
    for layer in getattr(config, "per_layer_config", None) or [config]:
        sizes = getattr(layer, "intermediate_size", None) or 0  # Gemma 3n has a list of them
        inner = max(inner, *(sizes if isinstance(sizes, list) else [sizes]))
    return (12 * hidden + 4 * inner) * model.dtype.itemsize


def free_memory(device: torch.device) -> int | None:
    """Free bytes; None for a device that does not report them."""
    if device.type == "cpu":
        return int(psutil.virtual_memory().available)
    if device.type != "cuda":
        return None
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def default_budget(device: torch.device, bytes_per_token: int) -> int:
    """How many tokens a pass has: on a GPU, by its free memory. On a CPU, more are not faster."""
    if device.type != "cuda":
        return _CPU_TOKENS
    free, _ = torch.cuda.mem_get_info(device)
    return max(1, min(int(free * _MEMORY_SHARE) // bytes_per_token, _MAX_CUDA_TOKENS))


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out. CUDA has its own error; the CPU raises a plain RuntimeError."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    messages = ("not enough memory", "can't allocate memory")
    return isinstance(error, RuntimeError) and any(text in str(error) for text in messages)


@contextmanager
def report_out_of_memory(num_tokens: int) -> Iterator[None]:
    """Raise the out-of-memory errors of any allocator as ScoringOutOfMemory."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if isinstance(error, ScoringOutOfMemory) or not is_out_of_memory(error):
            raise
        raise ScoringOutOfMemory(
            f"the attribution of {num_tokens} tokens does not fit into memory; {REMEDY}"
        ) from error


def unless_out_of_memory(compute: Callable[[], Result]) -> Result | None:
    """The result, computed without gradients; None if it does not fit into memory."""
    try:
        with torch.no_grad():
            return compute()
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return None
