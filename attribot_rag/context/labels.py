"""The numbers by which a prompt labels its documents: "[2] ...", "Document 2: ..." and the like."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import count, pairwise
from typing import NamedTuple

from attribot_rag.context.document import Source
from attribot_rag.context.intervals import Interval

_LEAD = 300
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

    It is the label before the document's last place, of a kind that tells most documents apart.
    Where no bracket marks it, it could be a page, so it must not be larger than the number of
    documents, and there have to be two. Without labels, documents are counted by their places in
    the prompt. No two have the same number: of those at one place, the first has its label.
    """
    places = _last_places(sources)
    labels = _labels(_leads(prompt, list(places.values())), num_documents)
    first: dict[int, int] = {}
    for document in sorted(places):
        first.setdefault(places[document][0], document)
    numbers = {first[start]: number for start, number in labels.items()}
    free = (number for number in count(1) if number not in labels.values())
    for document in [*(first[start] for start in sorted(first)), *sorted(places)]:
        if document not in numbers:
            numbers[document] = next(free)
    return numbers


def _last_places(sources: Sequence[Source]) -> dict[int, Interval]:
    """For each document the last stretch of the prompt that holds it from its beginning on."""
    spans = (
        (occurrence.start, occurrence.end, span)
        for source in sources
        for occurrence in source.occurrences
        for span in occurrence.spans
    )
    places: dict[int, Interval] = {}
    reached: dict[int, int] = {}
    for start, end, span in sorted(spans, key=lambda item: item[0]):
        goes_on = reached.get(span.document, span.start + 1) <= span.start
        places[span.document] = places[span.document][0] if goes_on else start, end
        reached[span.document] = span.end
    return places


def _leads(prompt: str, places: Sequence[Interval]) -> dict[int, str]:
    """The text before each place and after the places before it, by where the place begins."""
    leads: dict[int, str] = {}
    done = 0
    for start, end in sorted(places):
        leads.setdefault(start, prompt[max(done, start - _LEAD) : start])
        done = max(done, end)
    return leads


def _labels(leads: Mapping[int, str], num_documents: int) -> dict[int, int]:
    """The numbers of the kind that labels most of the places; none without such a kind."""
    by_kind: dict[_Kind, dict[int, int]] = {}
    for place, lead in leads.items():
        for kind, number in _numbers(lead):
            if kind.is_bracketed or number <= num_documents:
                by_kind.setdefault(kind, {}).setdefault(place, number)

    def rank(labels: Mapping[int, int]) -> tuple[int, bool]:
        numbers = list(labels.values())
        return len(numbers), all(after == before + 1 for before, after in pairwise(numbers))

    latest = {kind: _latest(labels) for kind, labels in by_kind.items()}
    telling = (
        labels
        for kind, labels in latest.items()
        if 2 * len(labels) > len(leads) and (kind.is_bracketed or len(labels) > 1)
    )
    return max(telling, key=rank, default={})


def _latest(labels: Mapping[int, int]) -> dict[int, int]:
    """Of places with the same number, which an earlier turn may have given, only the last."""
    last = {number: place for place, number in labels.items()}
    return {place: number for number, place in sorted(last.items(), key=lambda item: item[1])}


def _numbers(lead: str) -> Iterator[tuple[_Kind, int]]:
    """The numbers in a lead, each with its kind; a space parts a word from the marks after it."""
    for match in _NUMBER.finditer(lead):
        bracket, word, marks = match["bracket"], match["word"].casefold(), match["marks"]
        attached = marks.rpartition(" ")[2]
        if attached != marks and attached:
            bracket, word, marks = "", "", attached
        yield _Kind(bracket, word, marks.strip()), int(match["number"])
