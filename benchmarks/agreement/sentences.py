"""Sentences of answers with the sources that caused them, and those that a reader cites."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from attribot_rag import Attribution
from attribot_rag.attribution import Verdict
from attribot_rag.context import DocumentSpan
from benchmarks.experiment.tables import markdown_table
from benchmarks.halves import share
from benchmarks.natural.truth import PromptRows, truth_of

Places = frozenset[DocumentSpan]


@dataclass(frozen=True)
class PairedSentence:
    """The places of the sources that are cited, as causes and by the reader.

    What follows from another sentence cites the sources of that. `is_false`: the model that
    answered shows by plain passes that what the reader cites is no cause.
    """

    text: str
    causes: Places
    read: Places
    is_false: bool = False


@dataclass(frozen=True)
class PairedAnswer:
    """The sentences of an answer to a question of this data set."""

    data_set: str
    sentences: tuple[PairedSentence, ...]


def paired_sentences(
    cause: Attribution, reading: Attribution, rows: PromptRows
) -> Iterator[PairedSentence]:
    """The sentences that both judged; `rows` are those of the model that answered.

    A sentence that was cut at the limit of tokens has no cause to compare with.
    """
    by_place = {(verdict.start, verdict.end): verdict for verdict in reading.verdicts}
    for verdict in cause.verdicts:
        other = by_place.get((verdict.start, verdict.end))
        if other is None or not all(map(_is_judged, (verdict, other))):
            continue
        read = _places(reading, other)
        tokens = cause.tokens_in(verdict.start, verdict.end)
        yield PairedSentence(
            text=cause.response[verdict.start : verdict.end].strip(),
            causes=_places(cause, verdict),
            read=read,
            is_false=bool(read) and truth_of(rows, tokens, [*read], (), lambda: ()).is_false,
        )


def _is_judged(verdict: Verdict) -> bool:
    return verdict.kind not in ("trivial", "reasoning") and verdict.reason != "cut"


def _places(attribution: Attribution, verdict: Verdict) -> Places:
    return frozenset(
        span
        for index in verdict.traced(attribution.verdicts).source_ids
        for occurrence in attribution.sources[index].occurrences
        for span in occurrence.spans
    )


_Is = Callable[[PairedSentence], bool]


def _both(sentence: PairedSentence) -> bool:
    return bool(sentence.causes and sentence.read)


# What is counted, and of which sentences.
_SHARES: dict[str, tuple[_Is, _Is]] = {
    "a cause is cited": (lambda each: bool(each.causes), lambda _: True),
    "the reader cites": (lambda each: bool(each.read), lambda _: True),
    "the same citations, or none": (lambda each: each.causes == each.read, lambda _: True),
    "where both cite: the same": (lambda each: each.causes == each.read, _both),
    "where both cite: a source in common": (lambda each: bool(each.causes & each.read), _both),
    "a cause is cited: the reader cites none": (
        lambda each: not each.read,
        lambda each: bool(each.causes),
    ),
    "the reader cites: no cause is cited": (
        lambda each: not each.causes,
        lambda each: bool(each.read),
    ),
    "the reader cites: other sources than the causes": (
        lambda each: bool(each.causes) and each.causes != each.read,
        lambda each: bool(each.read),
    ),
    "the reader cites: false by plain passes": (
        lambda each: each.is_false,
        lambda each: bool(each.read),
    ),
}


def table(answers: Sequence[PairedAnswer]) -> str:
    """A column for all answers and for each data set."""
    columns = {"all": list(answers)}
    for answer in answers:
        columns.setdefault(answer.data_set, []).append(answer)
    sentences = [[*chain(*(answer.sentences for answer in half))] for half in columns.values()]
    rows = [
        ["answers", *(str(len(column)) for column in columns.values())],
        ["sentences", *(str(len(every)) for every in sentences)],
    ]
    for name, (count, among) in _SHARES.items():
        chosen = [[*filter(among, every)] for every in sentences]
        rows.append([name, *(share(sum(map(count, each)), len(each)) for each in chosen)])
    return markdown_table(["", *columns], rows)
