"""Counts forward passes and the operations that PyTorch is given: on a GPU, the price of both."""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import PreTrainedModel
from typing_extensions import Self

_WAITING = frozenset({"aten::_local_scalar_dense", "aten::nonzero", "aten::is_nonzero"})


class Dispatched(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts forward passes, operations of this thread, and those that wait for their device.

    `passes` are those of whole models, with or without their heads, prefills too, by all threads.
    On a CPU, copies from a device are none, so fewer `synchronisations` are seen.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations = 0
        self.synchronisations = 0
        self.passes = 0
        self._running = threading.local()  # the models that this thread is in, one in another

    def __enter__(self) -> Self:
        self._hooks = (
            register_module_forward_pre_hook(self._begin_pass),
            register_module_forward_hook(self._end_pass, always_call=True),
        )
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        for hook in self._hooks:
            hook.remove()
        super().__exit__(*error)  # type: ignore[no-untyped-call]

    def _begin_pass(self, module: torch.nn.Module, *_: Any) -> None:
        if isinstance(module, PreTrainedModel):
            depth = getattr(self._running, "depth", 0)
            self.passes += depth == 0
            self._running.depth = depth + 1

    def _end_pass(self, module: torch.nn.Module, *_: Any) -> None:
        if isinstance(module, PreTrainedModel):
            self._running.depth -= 1

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        outcome = function(*args, **(kwargs or {}))
        self.operations += 1
        devices = [value.device.type for value in (*args, outcome) if torch.is_tensor(value)]
        is_copied_back = len(devices) > 1 and devices[-1] == "cpu" != devices[0]
        self.synchronisations += function._schema.name in _WAITING or is_copied_back
        return outcome
