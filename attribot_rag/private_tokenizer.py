"""A copy of the caller's tokenizer, which threads and forked processes can share."""

from __future__ import annotations

import copy
import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from transformers import PreTrainedTokenizerBase


class PrivateTokenizer:
    """A copy of the caller's tokenizer, which one thread uses at a time.

    Encoding changes the settings of a fast tokenizer, and the caller may be encoding in another
    thread. The copy is made on first use, and again in a forked child: there, the thread that held
    the lock does not exist and would never release it.
    """

    _instances: ClassVar[weakref.WeakSet[PrivateTokenizer]] = weakref.WeakSet()

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        self._reset()
        self._instances.add(self)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._copy: PreTrainedTokenizerBase | None = None

    @contextmanager
    def locked(self) -> Iterator[PreTrainedTokenizerBase]:
        """The copy, for this thread alone."""
        with self._lock:
            if self._copy is None:
                self._copy = copy.deepcopy(self._tokenizer)
            yield self._copy

    @classmethod
    def reset_all(cls) -> None:
        for instance in cls._instances:
            instance._reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=PrivateTokenizer.reset_all)
