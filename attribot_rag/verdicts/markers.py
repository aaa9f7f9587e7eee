"""The citation markers that the model itself wrote: where they stand, and what they cite."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from attribot_rag.context import Context, Document
from attribot_rag.context.splitting.blocks import json_in, json_values
from attribot_rag.context.text import Interval, at, merge, overlapping
from attribot_rag.result import Marker
from attribot_rag.result.answer_text import IN_RUN, AnswerMarks, do_lead, markdown, runs
from attribot_rag.verdicts.answer_fields import json_fields, tag_pairs
from attribot_rag.verdicts.marker_syntax import (
    KnownLabels,
    WrittenMarker,
    candidates,
    is_power,
    labels_in,
    private_signs,
)
from attribot_rag.verdicts.source_lists import source_lists

_OPENED = re.compile(
    r"<(?P<tag>[a-z]\w*)(?:\s[^<>]*)?>\Z|(?P<same>\*{1,3}|_{1,3}|~~|\^)\Z", re.IGNORECASE
)
_RAISED_NUMBER = re.compile(r"<sup[^<>]*>\s*\d", re.IGNORECASE)
_MAX_TAG = 200
_INDEXED = re.compile(r"[^\W\d]\w*\Z")
_WORD_BEFORE = re.compile(r"\w+(?=\W*\Z)")
_MAX_WORD = 40
_MAX_RUN = 10


@dataclass(frozen=True)
class MarkedAnswer:
    """The markers of an answer, in order, and all that states nothing in it."""

    markers: tuple[WrittenMarker, ...] = ()
    marks: AnswerMarks = field(default_factory=AnswerMarks)


def read_markers(response: str, known: KnownLabels, documents: Sequence[Document]) -> MarkedAnswer:
    """The markers in a response.

    What stands in brackets is a marker if it is a label of the prompt, if it is called a source or
    the like, or if another marker stands right before it; beside a label, a number of no document
    is a label too. It is no marker in code, right after a name or a bracket (`items[1]`), or in
    text copied from a document. Values of JSON and elements that are labels are markers. They speak
    of what stands beside them, and a list of sources of the whole answer.
    """
    json = [
        span
        for span in json_in(response, 0, len(response))
        if not any(map(known.has, labels_in(response[slice(*span)], known)))
    ]
    found = _with_markup(response, _written(response, known, documents, json))
    fields, in_fields = json_fields(response, json, known, documents)
    markers = [marker for marker in found if not at(fields, marker.start)]
    markers = sorted([*markers, *in_fields], key=lambda marker: marker.start)
    lists = source_lists(response, markers, known, documents, json)
    markers = sorted([*markers, *lists.missing], key=lambda marker: marker.start)
    known, in_lists = known.redefined(lists.definitions), merge(lists.lines)
    spans = [marker.span for marker in markers]
    tags = tag_pairs(response, spans, merge([*json, *markdown(response).code]))
    whole = (0, len(response))

    def scopes(marker: WrittenMarker) -> tuple[Interval, ...]:
        if at(in_lists, marker.start):
            return (whole,)
        if not marker.scopes or at(json, marker.start):
            return marker.scopes
        elements = ((first[0], last[1]) for first, last in tags)
        around = (x for x in elements if x[0] < marker.start and marker.end < x[1])
        return (*sorted(around, key=lambda x: x[1] - x[0]), whole)

    markers = [
        replace(x, documents=tuple(map(known.of_label, x.labels)), scopes=scopes(x))
        for x in markers
    ]
    in_text = [x for x in markers if not x.scopes]
    texts = [" ".join(documents[i].text for i in {*chain(*x.documents)}) for x in in_text]
    last = in_text[-1].end if in_text else 0
    end = next((start for start, _ in lists.lines if start >= last), len(response))
    lead = do_lead(response[:end], [x.span for x in in_text], texts)
    leading = {x.span for x in in_text} if lead else set()
    signs = (span for span in private_signs(response) if not overlapping(spans, span))
    closing = (last for _, last in tags if not at(spans, last[0]))
    trailing = ({*spans} - leading).union(closing, signs)
    return MarkedAnswer(
        tuple(markers),
        AnswerMarks(
            trailing=sorted(trailing),
            leading=sorted(leading.union(first for first, _ in tags)),
            lists=lists.lines,
            json=json,
            fields=fields,
        ),
    )


def _written(
    response: str, known: KnownLabels, documents: Sequence[Document], json: Sequence[Interval]
) -> list[WrittenMarker]:
    code = markdown(response).code
    leaves = (leaf for span in json for leaf in json_values(response, *span))
    strings = [leaf.span("string") for leaf in leaves if leaf["string"] is not None]
    markers: list[WrittenMarker] = []
    is_usual = known.are_written
    for found in candidates(response, known):
        start, end = found.start, found.end
        if not at(strings, start) if at(json, start) else at(code, start):
            continue
        follows_another = bool(markers) and markers[-1].end == start
        are_known = [known.has(label) for label in found.labels]
        is_known = all(are_known) or (is_usual and any(are_known) and not found.is_raised)
        is_known &= not _is_index(response, start, end)
        if markers and start < markers[-1].end:
            continue
        latest = [*(marker.span for marker in markers[-_MAX_RUN:]), (start, end)]
        run = runs(response, latest, IN_RUN)[-1][0][0]
        is_label = found.labels and (follows_another or found.is_called or is_known)
        if is_label and not _is_copied(response, run, end, documents):
            is_usual |= is_known
            scopes = ((start, end),) if found.is_field else ()
            markers.append(WrittenMarker(start, end, found.labels, scopes=scopes))
    return markers


def _with_markup(response: str, markers: Sequence[WrittenMarker]) -> Iterator[WrittenMarker]:
    """The markers with the mark-up around each marker, or around several in a row."""
    spans: list[Interval] = []
    for run in runs(response, [_around(response, *marker.span) for marker in markers], IN_RUN):
        start, end = _around(response, run[0][0], run[-1][1])
        run[0] = start, run[0][1]
        run[-1] = run[-1][0], end
        spans += run
    for marker, (start, end) in zip(markers, spans, strict=True):
        yield replace(marker, start=start, end=end)


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
        return _RAISED_NUMBER.match(response, start) is not None and is_power(response, start)
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


def markers_in(response: str, context: Context) -> MarkedAnswer:
    """The markers in a response to a prompt with these documents."""
    return read_markers(response, KnownLabels.of(context), context.documents)


def markers_of(
    markers: Iterable[WrittenMarker],
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
        for label, documents in zip(marker.labels, marker.documents, strict=True)
        for document, supported in [_audited(documents, supports)]
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
