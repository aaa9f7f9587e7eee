"""A property that is computed once for each object, without a lock."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functools import cached_property as cached_property
else:

    class cached_property(functools.cached_property):  # noqa: N801
        """`functools.cached_property` without the lock that it holds until Python 3.12.

        That lock is one for all objects of a class. A thread that gave its turn at the model away
        while it computed a property would hold up the thread that takes the turn. Two threads that
        ask for the same property of one object at once may both compute it.
        """

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            values = vars(instance)
            if self.attrname not in values:
                values[self.attrname] = self.func(instance)
            return values[self.attrname]
