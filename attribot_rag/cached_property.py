"""A property that is computed once for each object, without a lock."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functools import cached_property as cached_property
else:

    class cached_property(functools.cached_property):  # noqa: N801
        """`functools.cached_property` without the lock that it has before Python 3.12.

        All objects of a class share that lock. A thread that computes a property may yield its turn
        at the model. It would then block the thread that takes the turn. Without the lock, two
        threads may compute the same property at the same time.
        """

        def __init__(self, func: Callable[[Any], Any]) -> None:
            super().__init__(func)
            self.lock = nullcontext()
