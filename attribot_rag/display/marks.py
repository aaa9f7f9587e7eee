"""The marks of citations: the numbers, or the prompt's names, of the documents behind them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from attribot_rag.context import Source
from attribot_rag.display.own_markers import OwnMarkers
from attribot_rag.result import Citations, CitedSentence, Result


@dataclass(frozen=True)
class Mark:
    """The numbers of cited documents: '1', or '1 or 2' where either document suffices.

    `names` stand in their place where the prompt calls the documents so.
    """

    numbers: tuple[int, ...]
    names: tuple[str, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        return self.names or tuple(map(str, self.numbers))

    def __str__(self) -> str:
        return " or ".join(self.labels)


def mark_of(sources: Sequence[Source], citations: Citations) -> Mark | None:
    """The numbers of all documents that hold any of these sources."""
    documents = {document for source in sources for document in source.documents}
    names = {
        citations.numbers[i]: citations.names.get(i, "") for i in documents & {*citations.numbers}
    }
    return _named(names) if names else None


def _named(names: Mapping[int, str]) -> Mark:
    """The mark of some numbers, with names if there are any."""
    numbers = tuple(sorted(names))
    labels = tuple(names[number] or str(number) for number in numbers)
    return Mark(numbers, labels if any(names.values()) else ())


def marks_of(
    attribution: Result, citations: Citations, sentence: CitedSentence, own: OwnMarkers
) -> Iterable[Mark]:
    """The marks of a sentence, without those that its own markers stand for."""
    in_prompt = attribution.prompt_numbers if citations.by_marker else {}
    numbers = {**in_prompt, **citations.numbers}
    written = {numbers[document] for document in own.cited if document in numbers}
    cited = [attribution.sources[source_id] for source_id in sentence.source_ids]
    joined = [cited] if sentence.relation == "either" else [[source] for source in cited]
    marks = dict.fromkeys(filter(None, (mark_of(sources, citations) for sources in joined)))
    shown = [mark for mark in marks if written.isdisjoint(mark.numbers)]
    seen = written.union(*(mark.numbers for mark in marks))
    further = {
        numbers[i]: citations.names.get(i, "")
        for i in own.covered
        if i in numbers and numbers[i] not in seen
    }
    return (*shown, *(_named({number: further[number]}) for number in sorted(further)))
