"""The contents of every rendering of an attribution, in one order and with the same numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import shorten

from attribot_rag.context import Document, Source
from attribot_rag.context.document import label_of
from attribot_rag.context.splitting.blocks import without_tags
from attribot_rag.context.text import Interval
from attribot_rag.display.own_markers import Markers, OwnMarkers, own_markers, without
from attribot_rag.result import Citations, CitedSentence, Provenance, Result, cite
from attribot_rag.result.answer_text import on_one_line
from attribot_rag.result.citations import Mark, mark_of, named_mark
from attribot_rag.result.remarks import (
    THE_DOCUMENTS,
    WORDS,
    marked_by,
    remark_on,
    support_remarks,
    trust_in,
    trust_line,
    who_read,
)

_QUOTE_LENGTH = 400
_ROW = re.compile(r"^[ \t]*\|.*\|[ \t]*$", re.MULTILINE)
_PIPE = re.compile(r"(?<!\\)\|")
_TITLE_LENGTH = 40


@dataclass(frozen=True)
class CitedPassage:
    """A passage of the answer, which ends at the character `end`, with its marks.

    `remarks` say what the marks do not show: the verdict, values that the cited sources do not
    have, and what the model itself cites wrongly. Of the answer's characters, those `removed` are
    not in the text: a mark stands for them. `space` is the white space between the passage and the
    next. If it `is_prompted`, its remarks name what it cites, which does not say it: the marks are
    for readers without remarks.
    """

    text: str
    end: int
    marks: tuple[Mark, ...]
    remarks: tuple[str, ...]
    removed: tuple[Interval, ...]
    space: str
    is_prompted: bool = False

    @property
    def shown_marks(self) -> tuple[Mark, ...]:
        """The marks that stand beside the remarks."""
        return () if self.is_prompted else self.marks


@dataclass(frozen=True)
class CitedDocument:
    """A document under its number, with its sentences that caused the answer, best first.

    `name` stands in the number's place where the prompt calls the document so. `title` is its
    title, else its id, else empty.
    """

    index: int
    number: int
    label: str
    quotes: tuple[str, ...]
    name: str = ""
    title: str = ""

    @property
    def mark(self) -> str:
        return self.name or str(self.number)


@dataclass(frozen=True)
class ListedSource:
    """A source with its score in the attribution's unit; `label` names its documents.

    The score is '~' approximate or an '≈' estimate. `mark` is None for a source that is not cited.
    """

    text: str
    label: str
    mark: Mark | None
    score: str


@dataclass(frozen=True)
class Report:
    """The contents of every rendering. Texts are as they were given: renderers escape them.

    `trust` is a line on the whole answer. `nothing_cited` says that there are no citations where no
    verdict does, else ''. `warnings` are what to know before trusting the citations, first who read
    the answer of another model. The `sources`, a `legend` of their scores and of what has none, and
    how these came about (`provenance`) are empty unless asked for.
    """

    trust: str
    passages: tuple[CitedPassage, ...]
    documents: tuple[CitedDocument, ...]
    nothing_cited: str
    warnings: tuple[str, ...]
    sources: tuple[ListedSource, ...]
    heading: str
    legend: str
    provenance: str


def report_on(
    attribution: Result, *, top: int, markers: Markers = "audited", texts: str = THE_DOCUMENTS
) -> Report:
    """The citations of the whole answer and its `top` sources.

    `markers` says what becomes of the model's own, as in `own_markers`; `texts` is what readers
    call the documents, as in `remark_on`.
    """
    citations = cite(attribution)
    sources = tuple(_listed(attribution, citations, top))
    num_sources = _count(len(attribution.sources), "source")
    return Report(
        trust=_trust(attribution, citations, texts),
        passages=tuple(_passages(attribution, citations, markers, texts)),
        documents=tuple(_cited(attribution, citations)),
        nothing_cited="" if citations.numbers or attribution.verdicts else WORDS["nothing"],
        warnings=tuple(filter(None, (who_read(attribution.provenance), *attribution.notes))),
        sources=sources,
        heading=f"Top {len(sources)} of {num_sources}, in {attribution.unit}",
        legend=" ".join(_legend(attribution, sources)) if top else "",
        provenance=_described(attribution.provenance) if top else "",
    )


def _trust(attribution: Result, citations: Citations, texts: str) -> str:
    line = trust_line(trust_in(attribution, citations), texts)
    return line[:1].upper() + line[1:]


def ellipsize(text: str, length: int) -> str:
    """The text, or its beginning with an ellipsis for the rest, of at most `length` characters."""
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def _passages(
    attribution: Result, citations: Citations, markers: Markers, texts: str
) -> Iterable[CitedPassage]:
    basis, marked = attribution.provenance.basis, marked_by(citations)
    for sentence in citations.sentences:
        own = own_markers(attribution, citations, sentence, markers)
        whole = attribution.response[sentence.start : sentence.end]
        end = sentence.start + len(whole.rstrip())
        num_cited = len({attribution.sources[index].documents for index in sentence.source_ids})
        verdict = sentence.verdict
        cause = remark_on(verdict, attribution.verdicts, num_cited, texts, basis)
        support = support_remarks(attribution, verdict, marked, texts)
        remarks = (cause, "; ".join(remark.words for remark in support), own.remark)
        yield CitedPassage(
            text=without(attribution.response, sentence.start, end, own.removed).rstrip(),
            end=end,
            marks=tuple(_marks_of(attribution, citations, sentence, own)),
            remarks=tuple(filter(None, remarks)),
            removed=own.removed,
            space=attribution.response[end : sentence.end],
            is_prompted=any(remark.is_prompted for remark in support),
        )


def _marks_of(
    attribution: Result, citations: Citations, sentence: CitedSentence, own: OwnMarkers
) -> Iterable[Mark]:
    """The marks of a sentence, without those that its own markers stand for."""
    in_prompt = attribution.prompt_numbers if citations.by_marker else {}
    numbers = {**in_prompt, **citations.numbers}
    written = {numbers[document] for document in own.cited if document in numbers}
    cited = [attribution.sources[source_id] for source_id in sentence.source_ids]
    joined = [cited] if sentence.relation == "either" else [[source] for source in cited]
    documents = ({i for source in sources for i in source.documents} for sources in joined)
    marks = dict.fromkeys(filter(None, (mark_of(indices, citations) for indices in documents)))
    shown = [mark for mark in marks if written.isdisjoint(mark.numbers)]
    seen = written.union(*(mark.numbers for mark in marks))
    further = {
        numbers[i]: citations.names.get(i, "")
        for i in own.covered
        if i in numbers and numbers[i] not in seen
    }
    return (*shown, *(named_mark({number: further[number]}) for number in sorted(further)))


def _cited(attribution: Result, citations: Citations) -> Iterable[CitedDocument]:
    source_ids = dict.fromkeys(
        source_id for sentence in citations.sentences for source_id in sentence.named
    )
    for document, number in sorted(citations.numbers.items(), key=lambda item: item[1]):
        quotes = (
            quote_of(attribution, attribution.sources[source_id], document)
            for source_id in source_ids
            if document in attribution.sources[source_id].documents
        )
        retrieved = attribution.documents[document]
        yield CitedDocument(
            index=document,
            number=number,
            label=label_of(retrieved, document),
            quotes=tuple(dict.fromkeys(quotes)),
            name=citations.names.get(document, ""),
            title=title_of(retrieved),
        )


def title_of(document: Document) -> str:
    """A document's title, else its id, in a few words on one line; empty without either."""
    return _in_brief(document.title or str(document.id or ""))


def name_of(document: Document) -> str:
    """Its title or id, else its first words in quotation marks."""
    return title_of(document) or f"“{_in_brief(without_tags(document.text))}”"


def _in_brief(text: str) -> str:
    name = on_one_line(text)
    brief = shorten(name, _TITLE_LENGTH, placeholder="…")
    return brief if len(brief) > 1 else ellipsize(name, _TITLE_LENGTH)  # no space


def quote_of(attribution: Result, source: Source, document: int) -> str:
    """The source's text in this document, which may differ a little from its other places."""
    span = next(
        span
        for occurrence in source.occurrences
        for span in occurrence.spans
        if span.document == document
    )
    whole = attribution.documents[document].text
    text = whole[span.start : span.end].strip() or source.text
    return ellipsize(_ROW.sub(_cells, without_tags(text, whole)), _QUOTE_LENGTH)


def _cells(row: re.Match[str]) -> str:
    """A row of a table as its cells."""
    cells = _PIPE.split(row[0].strip().strip("|"))
    return " · ".join(cell.strip() for cell in cells if cell.strip(" :-"))


def _listed(attribution: Result, citations: Citations, top: int) -> Iterable[ListedSource]:
    ranked = attribution.top(top)
    cited = {source for sentence in citations.sentences for source in sentence.source_ids}
    for ranking in ranked:
        source = ranking.source
        exact = "" if attribution.exact[source.id] else "~"
        sign = "≈" if attribution.is_estimated(source.id) else exact
        yield ListedSource(
            text=attribution.plain_text(source),
            label=" or ".join(
                label_of(attribution.documents[index], index) for index in source.documents
            ),
            mark=mark_of(source.documents, citations) if source.id in cited else None,
            score=f"{sign}{round(ranking.score, 2) or 0.0:.2f}",
        )


def _legend(attribution: Result, sources: Sequence[ListedSource]) -> Iterable[str]:
    scores = "".join(source.score for source in sources)
    explained = {
        "-": "Negative: the answer is more likely without that source.",
        "~": "~ marks approximate scores.",
        "≈": "≈ marks estimates, which are no measurements.",
    }
    yield from (explained[sign] for sign in explained if sign in scores)
    if num_unscored := attribution.token_scores.count(None):
        were = "was" if num_unscored == 1 else "were"
        where = " in groups that matter little" if attribution.groups else ""
        yield f"{_count(num_unscored, 'source')}{where} {were} not scored."


def _described(provenance: Provenance) -> str:
    method = provenance.method.replace("_", "-")
    return f"{method} in {provenance.seconds:.2f} s on {provenance.model_name}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun if number == 1 else noun + 's'}"
