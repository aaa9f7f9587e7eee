"""Faults at a chosen moment."""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class FailingAllocation(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Memory runs out in the operation number `index` of this thread; -1 counts and fails nothing.

    `count` is the number of operations so far.
    """

    def __init__(self, index: int = -1) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.index = index
        self.count = 0

    def __torch_dispatch__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        self.count += 1
        if self.count - 1 == self.index:
            raise torch.OutOfMemoryError("out of memory")
        return function(*args, **(kwargs or {}))
