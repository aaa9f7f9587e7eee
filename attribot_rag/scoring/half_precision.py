"""Linear layers in bfloat16, for scores that are approximate anyway."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

import psutil
import torch
from torch import nn
from transformers import PreTrainedModel

_NATIVE = ("avx512_bf16", "amx_bf16", "bf16")
_LEAST_PARAMETERS = 20_000_000  # products of smaller layers take no longer than their conversion
_MEMORY_SHARE = 1 / 8  # of all memory: what is free would change with the copy itself

_in_half = ContextVar("in_half", default=False)


def multiplies_half(device: torch.device) -> bool:
    """Whether the device multiplies bfloat16 numbers by instructions of its own."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type != "cpu" or not hasattr(torch.cpu, "get_capabilities"):
        return False
    capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(name) for name in _NATIVE)


def pays_off(num_parameters: int, device: torch.device) -> bool:
    """Whether a float32 model of this size is faster with linear layers in bfloat16 here.

    On a CPU with instructions for it, if a copy of the weights takes little of the memory. GPUs
    were not measured.
    """
    copy = num_parameters * torch.bfloat16.itemsize
    fits = copy <= _MEMORY_SHARE * psutil.virtual_memory().total
    large = num_parameters >= _LEAST_PARAMETERS
    return device.type == "cpu" and large and fits and multiplies_half(device)


def is_half() -> bool:
    """Whether this thread is within `half_precision`."""
    return _in_half.get()


class _EitherLinear(nn.Linear):
    """A linear layer that multiplies in bfloat16 within `half_precision`.

    What goes in and out keeps its type, and the own weights stay what they are; the bfloat16 copy
    is made when it is first used.
    """

    _copies: tuple[torch.Tensor, torch.Tensor | None] | None = None

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if not is_half():
            return super().forward(input)
        if self._copies is None:
            bias = None if self.bias is None else self.bias.detach().bfloat16()
            self._copies = self.weight.detach().bfloat16(), bias
        return nn.functional.linear(input.bfloat16(), *self._copies).to(input.dtype)


def allow_half_precision(twin: PreTrainedModel) -> None:
    """Let the twin's float32 linear layers run within `half_precision`, the vocabulary's not.

    Layers of other classes (adapters, quantized weights) are left as they are.
    """
    head = cast(Any, twin).get_output_embeddings()
    for module in twin.modules():
        if type(module) is not nn.Linear or module is head:
            continue
        if module.weight.dtype == torch.float32:
            module.__class__ = _EitherLinear


@contextmanager
def half_precision(on: bool) -> Iterator[None]:
    """Within it, and if `on`, linear layers that allow it multiply in bfloat16."""
    token = _in_half.set(on)
    try:
        yield
    finally:
        _in_half.reset(token)
