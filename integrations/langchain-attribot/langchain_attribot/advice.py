"""Lines in the log for what a reader would look for in vain."""

from __future__ import annotations

import logging
import sys
from collections.abc import Hashable, Iterator
from typing import Any

from langchain_attribot.documents import METADATA_KEY

logger = logging.getLogger(__name__)

NOTHING_SEEN = (
    "no documents were seen. Say what was retrieved, where it is: from langchain_attribot import "
    "retrieved; documents = retrieved(documents). Or name it with the call: "
    f"config={{'metadata': {{'{METADATA_KEY}': documents}}}}. A tool's artifacts and the documents "
    "of retrievers are seen in the chain that the handler is attached to"
)

_NOT_IN_RESULT = (
    "the attribution of what %s answered is not in the dict that it returns: chains of "
    "langchain_classic return another one than callbacks are given. Call it by "
    "with_attribution(chain), pass return_only_outputs=True, or read handler.results[run_id], with "
    "config={'run_id': run_id}"
)

_CLASSIC = "langchain_classic.chains.base"
_MAX_CHAINS = 256


class Advice:
    """The line in the log for a chain that was not attributed, once for each of 256 chains."""

    def __init__(self) -> None:
        self._told: set[Hashable] = set()

    def tell(self, chain: Hashable, name: str, reason: str) -> None:
        """Say why the answer of a chain, known by `chain`, has no attribution."""
        if chain in self._told or len(self._told) >= _MAX_CHAINS:
            return
        self._told.add(chain)
        logger.warning("no attribution of what %s answered: %s", name, reason)

    def tell_place(self, chain: Hashable, name: str) -> None:
        """Say where the attribution of a chain is whose dict does not show it."""
        if chain not in self._told and len(self._told) < _MAX_CHAINS:
            self._told.add(chain)
            logger.warning(_NOT_IN_RESULT, name)


def is_classic(names: frozenset[str]) -> bool:
    """Whether a run of these names is that of a chain of langchain_classic."""
    module = sys.modules.get(_CLASSIC)
    return module is not None and not names.isdisjoint(_names_below(module.Chain))


def _names_below(kind: type[Any]) -> Iterator[str]:
    for below in kind.__subclasses__():
        yield below.__name__
        yield from _names_below(below)
