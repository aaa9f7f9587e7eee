"""Nodes that went through a postprocessor, for syntheses that are steps of their own."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import MutableMapping, Sequence

from llama_index.core.schema import MetadataMode, NodeWithScore
from llama_index.postprocessor.attribot.query import QueryObserver
from torch.utils.weak import WeakIdKeyDictionary

_MAX_NODES = 1024


class PassedNodes:
    """The observer of the last nodes that went through a postprocessor.

    A workflow may make others of them, with their ids and texts.
    """

    def __init__(self) -> None:
        self._objects: MutableMapping[NodeWithScore, QueryObserver] = WeakIdKeyDictionary()
        self._texts: OrderedDict[tuple[str, int], QueryObserver] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, nodes: Sequence[NodeWithScore], observer: QueryObserver) -> None:
        with self._lock:
            for node in nodes:
                self._objects[node] = observer
                self._texts[_key(node)] = observer
            while len(self._texts) > _MAX_NODES:
                self._texts.popitem(last=False)

    def observer_of(
        self, nodes: Sequence[NodeWithScore], *, same_objects: bool
    ) -> QueryObserver | None:
        """The observer of one of these nodes, or unless `same_objects` one with its id and text."""
        observers = [self._objects.get(node) for node in nodes]
        if self._texts and not same_objects:
            observers += [self._texts.get(_key(node)) for node in nodes]
        return next(filter(None, observers), None)


def _key(node: NodeWithScore) -> tuple[str, int]:
    return node.node_id, hash(node.node.get_content(MetadataMode.NONE))
