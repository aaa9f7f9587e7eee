"""The citation markers that the model itself wrote, and their audit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from attribot_rag.context import Context, Document
from attribot_rag.context.intervals import at
from attribot_rag.result import Marker
from attribot_rag.result.segments import markdown
from attribot_rag.verdicts.marker_syntax import KnownLabels, candidates

_OPENED = re.compile(
    r"<(?P<tag>[a-z]\w*)(?:\s[^<>]*)?>\Z|(?P<same>\*{1,3}|_{1,3}|~~|\^)\Z", re.IGNORECASE
)
_MAX_TAG = 200
_BETWEEN = re.compile(r"[ \t,;]*")
_INDEXED = re.compile(r"[^\W\d]\w*\Z")
_WORD_BEFORE = re.compile(r"\w+(?=\W*\Z)")
_MAX_WORD = 40
_MAX_RUN = 10


@dataclass(frozen=True)
class WrittenMarker:
    """Characters [start, end) of an answer, mark-up included, that cite documents by `labels`."""

    start: int
    end: int
    labels: tuple[str, ...]


def written_markers(
    response: str, known: KnownLabels, documents: Sequence[Document]
) -> tuple[WrittenMarker, ...]:
    """The markers in a response, in order.

    What stands in brackets is a marker if it is a label of the prompt, if it is called a source or
    the like, or if another marker stands right before it. It is no marker in code, right after a
    name or a bracket (`items[1]`), or in text copied from a document.
    """
    code = markdown(response).code
    markers: list[WrittenMarker] = []
    for found in candidates(response, known):
        start, end = found.start, found.end
        run = start
        for marker in markers[: -_MAX_RUN - 1 : -1]:
            if response[marker.end : run].strip(" ,;\t"):
                break
            run = marker.start
        follows_another = bool(markers) and markers[-1].end == start
        is_known = all(map(known.has, found.labels)) and not _is_index(response, start, end)
        may_be = found.labels and (follows_another or found.is_called or is_known)
        if may_be and not at(code, start) and not _is_copied(response, run, end, documents):
            markers.append(WrittenMarker(start, end, found.labels))
    return tuple(_with_markup(response, markers))


def _with_markup(response: str, markers: Sequence[WrittenMarker]) -> Iterator[WrittenMarker]:
    """The markers with the mark-up around each marker, or around several in a row."""
    run: list[WrittenMarker] = []
    for marker in markers:
        start, end = _around(response, marker.start, marker.end)
        if run and not _BETWEEN.fullmatch(response, run[-1].end, start):
            yield from _run_with_markup(response, run)
            run = []
        run.append(replace(marker, start=start, end=end))
    if run:
        yield from _run_with_markup(response, run)


def _run_with_markup(response: str, run: list[WrittenMarker]) -> list[WrittenMarker]:
    start, end = _around(response, run[0].start, run[-1].end)
    run[0] = replace(run[0], start=start)
    run[-1] = replace(run[-1], end=end)
    return run


def _around(response: str, start: int, end: int) -> tuple[int, int]:
    """The characters with tags and marks that open right before [start, end) and close after it."""
    while opened := _OPENED.search(response[max(0, start - _MAX_TAG) : start]):
        closing = f"</{opened['tag']}>" if opened["tag"] else opened["same"]
        if not response.startswith(closing, end):
            break
        start, end = start - len(opened[0]), end + len(closing)
    return start, end


def _is_index(response: str, start: int, end: int) -> bool:
    """Whether plain brackets follow a name or a bracket, as an index does in code.

    So does a power (`m<sup>2</sup>`). A word of a script without capitals is no name: such scripts
    need no space before a marker.
    """
    if response[start] not in "[(<" or response[start + 1] == "^" or not start:
        return False
    if response[start] == "<":
        return response[start - 1].isalnum()
    if _around(response, start, end) != (start, end):
        return False
    before = response[start - 1]
    if before in ")]}":
        return True
    word = _INDEXED.search(response, max(0, start - _MAX_WORD), start)
    return word is not None and (
        before == "_" or before.isdigit() or before.lower() != before.upper()
    )


def _is_copied(response: str, start: int, end: int, documents: Sequence[Document]) -> bool:
    """Whether a document has the same markers, after the same word."""
    marked = response[start:end]
    brackets = marked.split()
    holding = [document.text for document in documents if brackets[-1] in document.text]
    if not holding:
        return False
    word = _WORD_BEFORE.search(response, max(0, start - _MAX_WORD), start)
    if word is None:
        return any(text.lstrip().startswith(marked) for text in holding)
    pattern = re.compile(
        rf"\b{re.escape(word[0])}[^\w\[\]\n]*" + r"\s*".join(map(re.escape, brackets))
    )
    return any(pattern.search(text) for text in holding)


def markers_in(response: str, context: Context) -> tuple[WrittenMarker, ...]:
    """The markers in a response to a prompt with these documents."""
    return written_markers(response, KnownLabels.of(context), context.documents)


def markers_of(
    markers: Iterable[WrittenMarker],
    known: KnownLabels,
    supports: Callable[[int], bool | None] = lambda document: None,
) -> tuple[Marker, ...]:
    """The markers with their documents; `supports` audits one document."""
    return tuple(
        Marker(
            start=marker.start,
            end=marker.end,
            label=label,
            number=int(label) if label.isdecimal() else None,
            document=document,
            supported=supported,
        )
        for marker in markers
        for label in marker.labels
        for document, supported in [_audited(known.of_label(label), supports)]
    )


def _audited(
    documents: Sequence[int], supports: Callable[[int], bool | None]
) -> tuple[int | None, bool | None]:
    """The first document of a label that supports the marked text, else the first document."""
    audits = []
    for document in documents:
        audits.append(supports(document))
        if audits[-1]:
            return document, True
    return next(iter(documents), None), None if None in audits or not audits else False
