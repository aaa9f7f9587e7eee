"""The citation markers that a model wrote itself, and an audit of them."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from operator import attrgetter

from attribot_rag.context import Context, Document
from attribot_rag.context.intervals import at
from attribot_rag.methods.base import total
from attribot_rag.methods.sufficiency import Sufficiency
from attribot_rag.result import Marker
from attribot_rag.result.pieces import markdown

# What a number in brackets is called, by models and in the prompts that they answer.
_NAME = (
    r"(?:sources?|documents?|docs?|passages?|chunks?|contexts?|references?|refs?|citations?"
    r"|quellen?|fuentes?|fontes?|источники?|来源|來源|文档|文件|资料|引用|出典|資料)"
)
_LABEL = rf"(?:{_NAME}|ids?)[.:：#\s]*"
_ITEM = rf"(?:{_LABEL})?#?\d{{1,3}}(?:\s*[-–—]\s*\d{{1,3}})?"
_ITEMS = rf"{_ITEM}(?:\s*(?:[,;，；、&]|\band\b)\s*{_ITEM})*"
_LINK = r"(?:\((?:<[^<>\n]*>|[^()\s]*)(?:\s+\"[^\"\n]*\")?\))?"
_UNIT = (
    rf"\[\^?{_ITEMS}(?:†[^\[\]\n]*)?\]{_LINK}"
    rf"|[【［〔]\^?{_ITEMS}(?:†[^】］〕\n]*)?[】］〕]"
    rf"|[(（](?:see\s+)?(?={_NAME}){_ITEMS}[)）]"
)
_UNITS = rf"(?:{_UNIT})(?:[\s,;，；、]*(?:{_UNIT}))*"
# Markers in brackets of their own are one marker: nothing of it stays when it is taken out.
_MARKER = re.compile(
    rf"[(（](?:see\s+)?(?:{_LABEL})?{_UNITS}[)）]|\[(?:{_UNIT})\]{_LINK}|[\[【［]{_LABEL}{_UNITS}[\]】］]"
    rf"|{_UNIT}",
    re.IGNORECASE,
)
_RANGE = re.compile(r"(\d{1,3})(?:\s*[-–—]\s*(\d{1,3}))?")
_NAMES_NO_DOCUMENT = re.compile(r"†[^】］〕\]]*|\]\([^()]*\)")
_CALLED = re.compile(rf"{_NAME}|†", re.IGNORECASE)
_INDEXED = re.compile(r"[^\W\d]\w*\Z")
_WORD_BEFORE = re.compile(r"\w+(?=\W*\Z)")
_MAX_WORD = 40
_MAX_RUN = 10
_MAX_RANGE = 20


@dataclass(frozen=True)
class WrittenMarker:
    """Characters [start, end) of an answer that cite the documents of these numbers."""

    start: int
    end: int
    numbers: tuple[int, ...]


def written_markers(
    response: str, numbers: Collection[int], documents: Sequence[Document]
) -> tuple[WrittenMarker, ...]:
    """The markers in a response, in order.

    A number in brackets is a marker if `numbers` has it, if it is called a source or the like, or
    if another marker stands right before it. It is none in code, right after a name or a bracket
    (`items[1]`), or where it stands so in a document, from which the model copied it.
    """
    code = markdown(response).code
    markers: list[WrittenMarker] = []
    for match in _MARKER.finditer(response):
        start, end = match.span()
        run = start
        for marker in markers[: -_MAX_RUN - 1 : -1]:
            if response[marker.end : run].strip(" ,;\t"):
                break
            run = marker.start
        written = _numbers(match[0])
        follows_another = bool(markers) and markers[-1].end == start
        is_sure = follows_another or _CALLED.search(match[0]) is not None
        is_known = {*written} <= {*numbers} and not _is_index(response, match)
        may_be = written and (is_sure or is_known) and not at(code, start)
        if may_be and not _is_copied(response, run, end, documents):
            markers.append(WrittenMarker(start, end, written))
    return tuple(markers)


def _numbers(marker: str) -> tuple[int, ...]:
    numbers: list[int] = []
    for match in _RANGE.finditer(_NAMES_NO_DOCUMENT.sub("]", marker)):
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last <= first + _MAX_RANGE:
            return ()
        numbers += range(first, last + 1)
    return tuple(numbers)


def _is_index(response: str, match: re.Match[str]) -> bool:
    """Whether plain brackets follow a name or a bracket, as an index does in code.

    A word of a script without capitals is no name: such scripts need no space before a marker.
    """
    start = match.start()
    if not match[0].startswith(("[", "(")) or match[0].startswith("[^") or not start:
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


def numbered_documents(context: Context) -> Mapping[int, int]:
    """The index of each document by the number that markers give it.

    A document that the prompt gives no number has its place among all, if no other has that number.
    """
    places = {index + 1: index for index in range(len(context.documents))}
    missing = {place: index for place, index in places.items() if index not in context.numbers}
    return missing | {number: index for index, number in context.numbers.items()}


def markers_in(response: str, context: Context) -> tuple[WrittenMarker, ...]:
    """The markers in a response to a prompt with these documents."""
    return written_markers(response, numbered_documents(context), context.documents)


def markers_of(
    markers: Iterable[WrittenMarker],
    context: Context,
    supports: Callable[[int], bool | None] = lambda document: None,
) -> tuple[Marker, ...]:
    """The markers with their documents; `supports` says whether one supports what is marked."""
    documents = numbered_documents(context)
    return tuple(
        Marker(
            start=marker.start,
            end=marker.end,
            number=number,
            document=document,
            supported=None if document is None else supports(document),
        )
        for marker in markers
        for number in marker.numbers
        for document in [documents.get(number)]
    )


@dataclass(frozen=True)
class MarkerAudit:
    """Checks whether the scores support the markers of a response.

    A marker is supported if a source of its document is cited for the marked text, or if the
    document is worth `min_effect` nats to it.
    """

    markers: tuple[WrittenMarker, ...]
    context: Context
    search: Sufficiency
    min_effect: float

    def markers_in(
        self, start: int, end: int, tokens: Sequence[int], cited: Collection[int]
    ) -> tuple[Marker, ...]:
        """The markers among the characters [start, end) of the response.

        `tokens` are the response tokens that the markers speak of, `cited` the ids of the sources
        that are cited for these tokens.
        """
        supports = cache(partial(self._supports, tokens, cited))
        by_start = attrgetter("start")
        first, last = (bisect_left(self.markers, edge, key=by_start) for edge in (start, end))
        return markers_of(self.markers[first:last], self.context, supports)

    def _supports(
        self, tokens: Sequence[int], cited: Collection[int], document: int
    ) -> bool | None:
        """Whether a document supports these tokens, for which sources are cited.

        None if it was not scored, or without tokens that the marker could speak of.
        """
        if any(document in self.context.sources[source_id].documents for source_id in cited):
            return True
        if document in self.context.not_located:
            return False
        own = [source.id for source in self.context.sources if document in source.documents]
        if not own or not tokens:
            return None
        self.search.score_without([own])
        row = self.search.loss_without(own)
        return None if row is None else total(row, tokens) >= self.min_effect
