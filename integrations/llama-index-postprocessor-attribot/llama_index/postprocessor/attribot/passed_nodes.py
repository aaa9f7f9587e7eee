"""Nodes that went through a postprocessor, for those who retrieve and synthesize step by step."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from weakref import ReferenceType, ref

from llama_index.core.schema import MetadataMode, NodeWithScore
from llama_index.postprocessor.attribot.tracked_query import QueryObserver

_MAX_NODES = 1024


class PassedNodes:
    """Who observed the last nodes. A workflow may make others of them, with their ids and texts."""

    def __init__(self) -> None:
        self._objects: OrderedDict[int, tuple[ReferenceType[NodeWithScore], QueryObserver]] = (
            OrderedDict()
        )
        self._texts: OrderedDict[tuple[str, int], QueryObserver] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, nodes: Sequence[NodeWithScore], observer: QueryObserver) -> None:
        with self._lock:
            for node in nodes:
                self._objects[id(node)] = ref(node), observer
                self._texts[_key(node)] = observer
            for kept in (self._objects, self._texts):
                while len(kept) > _MAX_NODES:
                    kept.popitem(last=False)

    def observer_of(
        self, nodes: Sequence[NodeWithScore], *, same_objects: bool
    ) -> QueryObserver | None:
        """Who saw one of these nodes, or unless `same_objects` one with its id and text."""
        for node in nodes if self._objects else ():
            reference, observer = self._objects.get(id(node), (None, None))
            if reference is not None and reference() is node:
                return observer
        for node in nodes if self._texts and not same_objects else ():
            observer = self._texts.get(_key(node))
            if observer is not None:
                return observer
        return None


def _key(node: NodeWithScore) -> tuple[str, int]:
    return node.node_id, hash(node.node.get_content(MetadataMode.NONE))
