"""Counts the operations that PyTorch is given: on a GPU, they are the price of a small pass."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_WAITING = frozenset({"aten::_local_scalar_dense", "aten::nonzero", "aten::is_nonzero"})


class Dispatched(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts operations of this thread, and those that wait for their device.

    On a CPU, copies from a device are none, so fewer `synchronisations` are seen.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations = 0
        self.synchronisations = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        outcome = function(*args, **(kwargs or {}))
        self.operations += 1
        devices = [value.device.type for value in (*args, outcome) if torch.is_tensor(value)]
        is_copied_back = len(devices) > 1 and devices[-1] == "cpu" != devices[0]
        self.synchronisations += function._schema.name in _WAITING or is_copied_back
        return outcome
