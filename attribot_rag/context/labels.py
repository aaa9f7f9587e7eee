"""Labels that a prompt writes before documents, such as "[1]", "Document 2:" or "Title: ..."."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, count, pairwise
from typing import NamedTuple

from rapidfuzz.distance import Prefix

from attribot_rag.context.document import Source
from attribot_rag.context.intervals import Interval

_MAX_LABEL = 300  # characters before a document in which its label stands
# Documents of the same retrieval are separated by titles and separators, not by a conversation.
_MAX_GAP = 300
_NUMBER = re.compile(
    r"(?P<bracket>[\[({<#【［（〔^]?)(?P<word>[^\W\d_]*)(?P<marks>[^\w\n]*)(?<![\d.,/-])(?P<number>\d{1,3})"
    r"(?![.,/:-]?\d)(?=[ \t]*(?:[^\w\s]|\n|\Z))"
)
_BRACKETS = frozenset("[({<#【［（〔^")


class _Kind(NamedTuple):
    """A bracket, a word and marks before the numbers of a kind, such as "[", "index=" or "(ID:"."""

    bracket: str
    word: str
    marks: str

    @property
    def is_bracketed(self) -> bool:
        return not _BRACKETS.isdisjoint(self.bracket + self.marks)


def document_numbers(prompt: str, sources: Sequence[Source], num_documents: int) -> dict[int, int]:
    """The number of each document that stands in the prompt, by the document's index.

    It is the label before the document's last place, of a kind that differs for most documents.
    Where no bracket marks it, it could be a page, so it must not be larger than the number of
    documents, and there have to be two. Documents without a label are counted by their places in
    the prompt. No two have the same number: of those at one place, the first has its label.
    """
    places = _last_places(sources)
    labels = _labels(_texts_before(prompt, places.values()), num_documents)
    by_start: dict[int, int] = {}
    for document in sorted(places):
        start, _ = places[document]
        by_start.setdefault(start, document)
    numbers = {by_start[start]: number for start, number in labels.items()}
    unused = (number for number in count(1) if number not in labels.values())
    in_prompt_order = [by_start[start] for start in sorted(by_start)]
    for document in (*in_prompt_order, *sorted(places)):
        if document not in numbers:
            numbers[document] = next(unused)
    return numbers


def _last_places(sources: Sequence[Source]) -> dict[int, Interval]:
    """For each document the last stretch of the prompt that holds it from its beginning on."""
    pieces = [
        (occurrence, span)
        for source in sources
        for occurrence in source.occurrences
        for span in occurrence.spans
    ]
    places: dict[int, Interval] = {}
    read_to: dict[int, int] = {}
    for occurrence, span in sorted(pieces, key=lambda piece: piece[0].start):
        begins_again = span.document not in places or span.start < read_to[span.document]
        start = occurrence.start if begins_again else places[span.document][0]
        places[span.document] = start, occurrence.end
        read_to[span.document] = span.end
    return places


def _texts_before(prompt: str, places: Iterable[Interval]) -> dict[int, str]:
    """The text between each place and the places before it, by where the place begins."""
    texts: dict[int, str] = {}
    done = 0
    for start, end in sorted(places):
        texts.setdefault(start, prompt[max(done, start - _MAX_LABEL) : start])
        done = max(done, end)
    return texts


def _labels(texts_before: Mapping[int, str], num_documents: int) -> dict[int, int]:
    """The numbers of the kind that labels most of the places; none without such a kind."""
    by_kind: dict[_Kind, dict[int, int]] = {}
    for place, text in texts_before.items():
        for kind, number in _numbers(text):
            if kind.is_bracketed or number <= num_documents:
                by_kind.setdefault(kind, {}).setdefault(place, number)
    candidates = []
    for kind, numbers in by_kind.items():
        labels = _last_of_equal(numbers)
        is_label = kind.is_bracketed or len(labels) > 1
        if is_label and 2 * len(labels) > len(texts_before):
            candidates.append(labels)
    return max(candidates, key=_rank, default={})


def _rank(labels: Mapping[int, int]) -> tuple[int, bool]:
    """The number of labelled places, and whether the labels count them."""
    numbers = list(labels.values())
    return len(numbers), all(after == before + 1 for before, after in pairwise(numbers))


def _last_of_equal(numbers: Mapping[int, int]) -> dict[int, int]:
    """Of places with the same number, which an earlier turn may have given, only the last."""
    last = {number: place for place, number in numbers.items()}
    return {place: number for number, place in sorted(last.items(), key=lambda item: item[1])}


def _numbers(text: str) -> Iterator[tuple[_Kind, int]]:
    """The numbers in a text, each with its kind; a space parts a word from the marks after it."""
    for match in _NUMBER.finditer(text):
        kind = _Kind(match["bracket"], match["word"].casefold(), match["marks"].strip())
        attached = match["marks"].rpartition(" ")[2]
        if attached and attached != match["marks"]:
            kind = _Kind("", "", attached.strip())
        yield kind, int(match["number"])


def with_labels(
    prompt: str, regions: Sequence[Interval], turns: Sequence[Interval]
) -> tuple[Interval, ...]:
    """The documents' regions with the text between them, such as titles and metadata lines.

    Unless one of the earlier `turns` begins or ends there. A label on the line before each document
    ("Title: ...") also belongs to the first document.
    """
    joined: list[Interval] = []
    labels: set[str] = set()
    bounds = [*chain.from_iterable(turns)]
    for start, end in regions:
        first, last = joined[-1] if joined else (0, -_MAX_GAP - 1)
        is_near = start - last <= _MAX_GAP
        if is_near and not any(last <= bound <= start for bound in bounds):
            labels.add(_label(prompt, last, start))
            joined[-1] = first, end
        else:
            joined.append((start, end))
    if "" in labels or not labels:
        return tuple(joined)
    return tuple((start - len(_label(prompt, 0, start)), end) for start, end in joined)


def _label(prompt: str, first: int, start: int) -> str:
    """The text on the same line before a document, from `first` on."""
    return prompt[max(first, prompt.rfind("\n", first, start) + 1) : start]


def separator(prompt: str, regions: Sequence[Interval]) -> str:
    """What separates documents: the beginning that the texts between them have in common.

    If these are not the same, it ends with a line, so that it is no part of a label; with white
    space where there is only one.
    """
    gaps = [prompt[end:start] for (_, end), (start, _) in pairwise(regions)]
    common = gaps[0][: min(Prefix.similarity(gaps[0], gap) for gap in gaps)]
    if len(gaps) > 1 and all(gap == common for gap in gaps):
        return common
    lines = common.rfind("\n") + 1 if len(gaps) > 1 else 0
    return common[: lines or len(common) - len(common.lstrip())]
