"""The labels of documents in a prompt, and the retrievals of these documents."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from attribot_rag.context.document import Source
from attribot_rag.context.intervals import Interval

_SAID = re.compile(r"[^\W_][\"'”’»)\]]*[.!?。！？।؟](?!\w)")  # the end of a sentence


class Label(NamedTuple):
    """A label before a document, and the text between the document before and the label."""

    text: str
    before: str


Labels = Mapping[int, Label]  # by where the document begins


def document_places(sources: Sequence[Source]) -> dict[int, tuple[Interval, ...]]:
    """The stretches of the prompt with each document, each from its beginning on."""
    pieces = [
        (occurrence, span)
        for source in sources
        for occurrence in source.occurrences
        for span in occurrence.spans
    ]
    places: dict[int, list[Interval]] = defaultdict(list)
    read_to: dict[int, int] = {}
    for occurrence, span in sorted(pieces, key=lambda piece: piece[0].start):
        of_document = places[span.document]
        if of_document and span.start >= read_to[span.document]:
            of_document[-1] = of_document[-1][0], occurrence.end
        else:
            of_document.append((occurrence.start, occurrence.end))
        read_to[span.document] = span.end
    return {document: tuple(places[document]) for document in sorted(places)}


def retrievals_of(places: Sequence[Interval], turns: Sequence[Interval]) -> dict[int, int]:
    """The number of the retrieval, from 0, of each place; turns separate retrievals."""
    bounds = [bound for turn in turns for bound in turn]
    retrievals: dict[int, int] = {}
    retrieval = last = 0
    for start, end in places:
        if retrievals and any(last <= bound <= start for bound in bounds):
            retrieval += 1
        retrievals.setdefault(start, retrieval)
        last = max(last, end)
    return retrievals


def with_restarts(retrievals: Mapping[int, int], labels: Labels) -> dict[int, int]:
    """The retrievals, split further where the labels restart after a question and an answer.

    Where they restart after anything else, such as a heading, one turn searched several times.
    """
    texts = Counter(label.before for label in labels.values())
    usual, times = next(iter(texts.most_common(1)), ("", 0))
    parted: dict[int, int] = {}
    first, past, further = "", -1, 0
    for start, retrieval in retrievals.items():
        label = labels.get(start)
        if label and (retrieval != past or not first):
            first = label.text
        elif label and times > 1 and label.text == first and label.before != usual:
            further += len(_SAID.findall(label.before)) > 1
        past = retrieval
        parted[start] = retrieval + further
    return parted


class ShownDocuments:
    """The places of documents in their last retrieval.

    Documents of the same text have a place each, as far as there are enough.
    """

    def __init__(
        self, places: Mapping[int, tuple[Interval, ...]], retrievals: Mapping[int, int]
    ) -> None:
        self._retrievals = retrievals
        self._starts: dict[int, list[int]] = {}
        alike: dict[tuple[Interval, ...], list[int]] = defaultdict(list)
        for document, of_document in places.items():
            alike[of_document].append(document)
        for of_document, documents in alike.items():
            last = max(retrievals[start] for start, _ in of_document)
            starts = [start for start, _ in of_document if retrievals[start] == last]
            for index, document in enumerate(documents):
                self._starts[document] = starts[index :: len(documents)] or starts[-1:]

    @property
    def in_order(self) -> list[int]:
        """The documents by their places; documents that share a place come last."""
        first: dict[int, int] = {}
        for document in sorted(self._starts):
            first.setdefault(self._starts[document][0], document)
        return [*(first[start] for start in sorted(first)), *sorted(self._starts)]

    def labels(self, *forms: Labels, last_only: bool = True) -> dict[int, tuple[str, ...]]:
        """The labels of each document that has some.

        With `last_only`, a label counts only in its last retrieval.
        """
        latest: dict[str, int] = {}
        for start, label in (item for labels in forms for item in labels.items()):
            latest[label.text] = max(self._retrievals[start], latest.get(label.text, 0))
        labelled = {
            document: [
                text
                for labels in forms
                for start in filter(labels.__contains__, starts)
                for text in [labels[start].text]
                if not last_only or latest[text] == self._retrievals[start]
            ]
            for document, starts in self._starts.items()
        }
        return {document: (*dict.fromkeys(texts),) for document, texts in labelled.items() if texts}
