"""Lines in the log for what a reader would look for in vain."""

from __future__ import annotations

import logging
from collections.abc import Hashable

from langchain_attribot.documents import METADATA_KEY

logger = logging.getLogger(__name__)

NOTHING_SEEN = (
    "no documents were seen. Say what was retrieved, where it is: from langchain_attribot import "
    "retrieved; documents = retrieved(documents). Or name it with the call: "
    f"config={{'metadata': {{'{METADATA_KEY}': documents}}}}. A tool's artifacts and the documents "
    "of retrievers are seen in the chain that the handler is attached to"
)

WRONG_PLACE = (
    "AttributionCallbackHandler is attached to the model, where it sees no retriever; attach it to "
    "the chain, chain.with_config(callbacks=[handler]), or pass it per call"
)

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
