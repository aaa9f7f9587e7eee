"""A copy of the caller's tokenizer, which threads and forked processes can share."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from transformers import PreTrainedTokenizerBase

from attribot_rag.model.forking import BeginsAnewInChild


class PrivateTokenizer(BeginsAnewInChild):
    """A copy of the caller's tokenizer, which one thread uses at a time.

    Encoding changes the settings of a fast tokenizer, and the caller may be encoding in another
    thread. The copy is made on first use, and again in a forked child, where it may be half-used.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        super().__init__()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._copy: PreTrainedTokenizerBase | None = None

    @contextmanager
    def locked(self) -> Iterator[PreTrainedTokenizerBase]:
        """The copy, for this thread alone."""
        with self._lock:
            if self._copy is None:
                self._copy = copy.deepcopy(self._tokenizer)
            yield self._copy
