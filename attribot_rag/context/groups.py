"""Groups of sources: documents, paragraphs, passages and groups by metadata."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from itertools import accumulate

from attribot_rag.context.context import Context
from attribot_rag.context.splitting.splitter import paragraphs
from attribot_rag.errors import InvalidInput

Unit = tuple[int, ...]
Level = str | Callable[[Context], Sequence[Hashable]]

_ABSENT = -1
_RUN = 10


def group(context: Context, units: Sequence[Unit], level: Level) -> list[list[int]]:
    """Indices of the units that belong together, in groups ordered by their first member.

    A unit is a set of source ids that are ablated together; its first source decides its group.
    `level` is 'document', 'paragraph' (blank lines within a document), 'passage' (a document, or
    about ten consecutive sources of a long document), 'metadata.KEY' (documents with an equal value
    in their metadata), or a function from the context to the key of each source's group. Raises
    InvalidInput for another level.
    """
    make_keys = _LEVELS.get(level) if isinstance(level, str) else level
    if isinstance(level, str) and level.startswith("metadata."):
        make_keys = partial(_metadata, level.removeprefix("metadata."))
    if make_keys is None:
        names = ", ".join([*_LEVELS, "metadata.KEY"])
        raise InvalidInput(f"unknown level {level!r}; choose one of {names}, or pass a function")
    keys = make_keys(context)
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for index, unit in enumerate(units):
        groups[keys[unit[0]]].append(index)
    return list(groups.values())


def _documents(context: Context) -> list[int]:
    """The first document of each source, -1 for a source that the prompt lacks."""
    return [next(iter(source.documents), _ABSENT) for source in context.sources]


def _paragraphs(context: Context) -> list[Hashable]:
    ends = [list(accumulate(map(len, paragraphs(document.text)))) for document in context.documents]
    keys: list[Hashable] = []
    for source, document in zip(context.sources, _documents(context), strict=True):
        spans = (span for place in source.occurrences for span in place.spans)
        start = min((span.start for span in spans if span.document == document), default=0)
        keys.append((document, bisect_right(ends[document], start)))
    return keys


def _passages(context: Context) -> list[Hashable]:
    documents = _documents(context)
    members: dict[int, list[int]] = defaultdict(list)
    for source_id, document in enumerate(documents):
        members[document].append(source_id)
    keys: list[Hashable] = [None] * len(documents)
    for document, sources in members.items():
        num_runs = round(len(sources) / _RUN) if len(sources) > 2 * _RUN else 1
        for place, source_id in enumerate(sources):
            keys[source_id] = (document, place * num_runs // len(sources))
    return keys


def _metadata(key: str, context: Context) -> list[Hashable]:
    values = [document.metadata.get(key) for document in context.documents]
    return [
        ("document", document) if values[document] is None else ("value", str(values[document]))
        for document in _documents(context)
    ]


_LEVELS: dict[str, Callable[[Context], Sequence[Hashable]]] = {
    "document": _documents,
    "paragraph": _paragraphs,
    "passage": _passages,
}
