"""What all renderings of an attribution show: its passages, documents and markers."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from textwrap import shorten
from typing import Literal, get_args

from attribot_rag.context import Document, Source
from attribot_rag.context.document import label_of
from attribot_rag.context.splitting.blocks import TAG, without_tags
from attribot_rag.context.text import Interval, merge, subtract, words
from attribot_rag.errors import InvalidInput
from attribot_rag.result import Basis, Citations, CitedSentence, Marker, Provenance, Result, cite
from attribot_rag.result.answer_text import adjacent_groups, on_one_line
from attribot_rag.result.citations import Mark, is_in_json, mark_of, named_mark
from attribot_rag.result.remarks import (
    CAUSE_REMARKS,
    THE_DOCUMENTS,
    marked_by,
    remark_on,
    support_remarks,
    trust_in,
    trust_line,
    who_read,
    words_for,
)

_QUOTE_LENGTH = 400
_ROW = re.compile(r"^[ \t]*\|.*\|[ \t]*$", re.MULTILINE)
_PIPE = re.compile(r"(?<!\\)\|")
_TITLE_LENGTH = 40
Markers = Literal["audited", "written", "removed"]
_BETWEEN_MARKERS = re.compile(r"[ \t]*(?:[,;、，；&]|and\b)?[ \t]*")
_CLAUSE_END = re.compile(r"[,;:.!?()\n–—\]]")
_MAX_PHRASE = 4  # words
_FEW = 2
_MIN_WORD = 4  # letters


@dataclass(frozen=True)
class CitedPassage:
    """A passage of the answer, which ends at the character `end`, with its marks.

    `remarks` say what the marks do not: the verdict, values that the cited sources lack, and what
    the model cites wrongly. The answer's characters `removed` are not shown, because a mark
    replaces them. `space` is the white space before the next passage.
    """

    text: str
    end: int
    marks: tuple[Mark, ...]
    remarks: tuple[str, ...]
    removed: tuple[Interval, ...]
    space: str
    names_cited: bool = False

    @property
    def shown_marks(self) -> tuple[Mark, ...]:
        """The marks that stand next to the remarks."""
        return () if self.names_cited else self.marks


@dataclass(frozen=True)
class CitedDocument:
    """A document under its number, with its sentences that caused the answer, best first.

    `name` replaces the number if the prompt names the document so. `title` is its title, or its id,
    or ''.
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

    The score is marked with '~' if it is approximate, and with '≈' if it is an estimate. `mark` is
    None for a source that is not cited.
    """

    text: str
    label: str
    mark: Mark | None
    score: str


@dataclass(frozen=True)
class Report:
    """The contents of every rendering. Texts are unescaped; the renderers escape them.

    `trust` is a line on the whole answer. `nothing_cited` says that there are no citations, if no
    verdict does. `warnings` are what to know before trusting the citations; the first says who read
    the answer of another model. Only on request, there are `sources`, a `legend` of their scores,
    and `provenance`, how they were made.
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

    `markers` says what happens to the model's own markers, see `own_markers`. `texts` is what
    people call the documents.
    """
    citations = cite(attribution)
    sources = tuple(_listed(attribution, citations, top))
    num_sources = _count(len(attribution.sources), "source")
    return Report(
        trust=_trust(attribution, citations, texts),
        passages=tuple(_passages(attribution, citations, markers, texts)),
        documents=tuple(_cited(attribution, citations)),
        nothing_cited="" if citations.numbers or attribution.verdicts else CAUSE_REMARKS["nothing"],
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
    """The text, or its beginning with an ellipsis, with at most `length` characters."""
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
            names_cited=any(remark.names_cited for remark in support),
        )


def _marks_of(
    attribution: Result, citations: Citations, sentence: CitedSentence, own: OwnMarkers
) -> Iterable[Mark]:
    """The marks of a sentence, without those that its own markers replace."""
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
    """A document's title, or its id, in a few words on one line; empty without both."""
    return _in_brief(document.title or str(document.id or ""))


def name_of(document: Document) -> str:
    """Its title or id, or else its first words in quotation marks."""
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


@dataclass(frozen=True)
class OwnMarkers:
    """The markers of one sentence.

    `removed` are the characters of markers that are not shown. `cited` are the documents that the
    other markers cite, and `covered` those that only hidden markers cite rightly. `remark` names
    the wrong labels in words.
    """

    removed: tuple[Interval, ...] = ()
    cited: frozenset[int] = frozenset()
    covered: frozenset[int] = frozenset()
    remark: str = ""


def own_markers(
    attribution: Result, citations: Citations, sentence: CitedSentence, markers: Markers
) -> OwnMarkers:
    """What happens to the markers in a sentence.

    With 'written', all stay. With 'removed', none stays. With 'audited', a marker is removed if the
    audit does not support it, or if citations have other numbers. A marker that begins a line, or
    is in a list of sources, stays too. Markers that are part of JSON, XML, a link or an element
    always stay. Raises InvalidInput for another option.
    """
    if markers not in get_args(Markers):
        raise InvalidInput(f"markers={markers!r}; use one of {get_args(Markers)}")
    text = attribution.response
    by_place: dict[Interval, list[Marker]] = defaultdict(list)
    for marker in attribution.markers:
        if sentence.start <= marker.start < sentence.end:
            by_place[marker.start, marker.end].append(marker)
    if markers == "written":
        return OwnMarkers()
    parts = {place for place in by_place if is_part(text, *place)}
    for run in adjacent_groups(text, merge(by_place), _BETWEEN_MARKERS):
        if _is_in_phrase(attribution, sentence, *run[0]):
            parts.update(place for place in run if place in by_place)
    if markers == "removed":
        return OwnMarkers(removed=tuple(spaces_and(text, by_place.keys() - parts)))
    states_nothing = sentence.verdict is not None and sentence.verdict.kind == "trivial"
    kept = parts | {
        place
        for place, group in by_place.items()
        if begins_line(text, *place)
        or (citations.by_marker and (states_nothing or not any(map(is_wrong, group))))
    }
    taken = by_place.keys() - kept
    right = {
        place: {m.document for m in group if m.document is not None and not is_wrong(m)}
        for place, group in by_place.items()
    }
    cited = frozenset(chain.from_iterable(right[place] for place in kept))
    return OwnMarkers(
        removed=tuple(spaces_and(text, taken)),
        cited=cited,
        covered=frozenset(chain.from_iterable(right[place] for place in taken)) - cited,
        remark="; ".join(
            _remarks(
                [m for m in chain(*by_place.values()) if is_wrong(m)], attribution.provenance.basis
            )
        ),
    )


def is_wrong(marker: Marker) -> bool:
    """Whether a marker has no document, or one without an effect on its sentence."""
    return marker.document is None or marker.supported is False


def without(text: str, start: int, end: int, removed: Sequence[Interval]) -> str:
    """The characters [start, end) of a text, without the removed ones."""
    return "".join(text[first:last] for first, last in subtract((start, end), removed))


def is_part(text: str, start: int, end: int) -> bool:
    """Whether a marker is a link's address, an element's end, or part of JSON or XML."""
    if not text.startswith("<", start):
        return text.startswith("](", start) or is_in_json(text, start)
    before, answer = text[:start].rpartition("\n")[2].rstrip(), text.lstrip()
    is_xml = answer.startswith("<") and not TAG.match(answer)  # of HTML's own
    return text.startswith("</", start) or is_xml or not before or before.endswith(">")


def _is_in_phrase(attribution: Result, sentence: CitedSentence, start: int, end: int) -> bool:
    """Whether a sentence needs a marker: as its subject, or after words that only introduce it.

    These words are few, and no document has any long one of them. If the sentence ends there, they
    form a clause whose last word is short, as in ", as stated in [2]".
    """
    before = attribution.response[sentence.start : start]
    after = attribution.response[end : sentence.end]
    if not before.strip():
        return after.lstrip(" \t")[:1].islower()
    clause = _CLAUSE_END.split(before)[-1]
    phrase = words(clause.casefold())
    told = [word for word in phrase if len(word) >= _MIN_WORD]
    if not 0 < len(phrase) <= _MAX_PHRASE or any(map(partial(_is_told, attribution), told)):
        return False
    ends_short = len(phrase[-1]) < _MIN_WORD
    if not words(after):
        return bool(told) and ends_short and clause != before
    return len(phrase) == 1 or bool(told and (ends_short or len(phrase) == _FEW))


def _is_told(attribution: Result, word: str) -> bool:
    pattern = re.compile(rf"\b{re.escape(word)}\b", re.IGNORECASE)
    return any(pattern.search(document.text) for document in attribution.documents)


def begins_line(text: str, start: int, end: int) -> bool:
    """Whether a marker begins a line that goes on after it, as list entries do."""
    is_first = not text[:start].rpartition("\n")[2].strip()
    return is_first and bool(text[end:].partition("\n")[0].strip())


def _remarks(wrong: Sequence[Marker], basis: Basis) -> Iterator[str]:
    no_effect = [words_for(key, basis=basis) for key in ("no_effect", "no_effects")]
    for is_missing in (False, True):
        of = [marker.text for marker in wrong if (marker.document is None) == is_missing]
        labels = [f"[{on_one_line(label)}]" for label in dict.fromkeys(of)]
        if labels:
            one, many = ("is missing", "are missing") if is_missing else no_effect
            yield f"the model cites {', '.join(labels)}, which {one if len(labels) == 1 else many}"


def spaces_and(text: str, markers: Iterable[Interval]) -> list[Interval]:
    """The characters of markers, of separators between them, and of the space before them."""
    removed = []
    for run in adjacent_groups(text, merge(markers), _BETWEEN_MARKERS):
        start, end = run[0][0], run[-1][1]
        begins_line = not text[:start].rpartition("\n")[2].strip()
        ends_line = not text[end:].partition("\n")[0].strip()
        if begins_line and not ends_line:
            end += len(text[end:]) - len(text[end:].lstrip(" \t"))
        else:
            start = len(text[:start].rstrip() if begins_line else text[:start].rstrip(" \t"))
        removed.append((start, end))
    return merge(removed)
