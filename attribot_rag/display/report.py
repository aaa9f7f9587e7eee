"""The contents of every rendering of an attribution, in one order and with the same numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from attribot_rag.context import Source
from attribot_rag.context.document import label_of
from attribot_rag.context.intervals import Interval
from attribot_rag.context.splitting.markup import without_tags
from attribot_rag.display.marks import Mark, mark_of, marks_of
from attribot_rag.display.own_markers import Markers, is_wrong, own_markers, without
from attribot_rag.display.remarks import check_remark, remark_on
from attribot_rag.result import Citations, Provenance, Result, cite

NOTHING_CITED = "No source stands out: no single one has an effect that is large enough to cite it."
NOTHING_SCORED = "No source was scored, so none is cited."
_QUOTE_LENGTH = 400
_EIGHTHS = " ▏▎▍▌▋▊▉"


@dataclass(frozen=True)
class CitedPassage:
    """A passage of the answer, which ends at the character `end`, with its marks.

    `remark` names a verdict that the marks do not show, `check` values that the cited sources do
    not have, and `wrong_markers` what the model itself cites wrongly; they are '' without any. Of
    the answer's characters, those `removed` are not in the text: a mark stands for them. `space` is
    the white space between the passage and the next.
    """

    text: str
    end: int
    marks: tuple[Mark, ...]
    remark: str
    check: str
    wrong_markers: str
    removed: tuple[Interval, ...]
    space: str

    @property
    def remarks(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.remark, self.check, self.wrong_markers)))


@dataclass(frozen=True)
class CitedDocument:
    """A document under its number, with its sentences that caused the answer, best first.

    `name` stands in the number's place where the prompt calls the document so.
    """

    index: int
    number: int
    label: str
    quotes: tuple[str, ...]
    name: str = ""

    @property
    def mark(self) -> str:
        return self.name or str(self.number)


@dataclass(frozen=True)
class ListedSource:
    """A source with its score in the attribution's unit; `label` names its documents.

    `share` is the score divided by the largest listed score, from -1 to 1. `mark` is None for a
    source that is not cited; `precision` as of the function of this name.
    """

    text: str
    label: str
    mark: Mark | None
    score: float
    share: float
    precision: str

    @property
    def score_text(self) -> str:
        return score_text(self.score, self.precision)

    def bar(self, width: int) -> str:
        """The share as a bar of at most `width` characters; a negative share is hatched.

        Any share but 0 shows at least a little.
        """
        if self.share < 0:
            return "░" * max(1, round(-self.share * width))
        full, eighths = divmod(round(self.share * width * 8), 8)
        if self.share and not full:
            eighths = max(1, eighths)
        return ("█" * full + _EIGHTHS[eighths]).rstrip()


@dataclass(frozen=True)
class Report:
    """The contents of every rendering. Texts are as they were given: renderers escape them.

    `nothing_cited` says why there are no citations, and is '' if there are. `legend` explains
    negative and approximate scores in the list. `remarks` are what to know before trusting the
    scores; `provenance` is how they came about.
    """

    passages: tuple[CitedPassage, ...]
    documents: tuple[CitedDocument, ...]
    nothing_cited: str
    sources: tuple[ListedSource, ...]
    heading: str
    legend: str
    remarks: tuple[str, ...]
    provenance: str


def report_on(attribution: Result, *, top: int, markers: Markers = "audited") -> Report:
    """The citations of the whole answer and its `top` sources.

    `markers` says what becomes of the model's own, as in `own_markers`.
    """
    citations = cite(attribution)
    sources = tuple(_listed(attribution, citations, top))
    num_sources = len(attribution.sources)
    num_scored = num_sources - attribution.token_scores.count(None)
    return Report(
        passages=tuple(_passages(attribution, citations, markers)),
        documents=tuple(_cited(attribution, citations)),
        nothing_cited=_nothing_cited(citations, num_scored),
        sources=sources,
        heading=f"Top {len(sources)} of {_count(num_sources, 'source')}, in {attribution.unit}",
        legend=" ".join(_legend(sources)),
        remarks=tuple(_remarks(attribution, num_sources - num_scored)),
        provenance=_described(attribution.provenance),
    )


def _nothing_cited(citations: Citations, num_scored: int) -> str:
    if citations.numbers:
        return ""
    return NOTHING_CITED if num_scored else NOTHING_SCORED


def precision(attribution: Result, source_id: int) -> str:
    """The sign before a score: '' if it is exact, '~' if approximate, '≈' if an estimate."""
    if attribution.is_estimated(source_id):
        return "≈"
    return "" if attribution.exact[source_id] else "~"


def score_text(score: float, precision: str) -> str:
    """Two decimals, with its precision before them."""
    return f"{precision}{round(score, 2) or 0.0:.2f}"


def ellipsize(text: str, length: int) -> str:
    """The text, or its beginning with an ellipsis for the rest, of at most `length` characters."""
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def _passages(
    attribution: Result, citations: Citations, markers: Markers
) -> Iterable[CitedPassage]:
    for sentence in citations.sentences:
        own = own_markers(attribution, citations, sentence, markers)
        whole = attribution.response[sentence.start : sentence.end]
        end = sentence.start + len(whole.rstrip())
        yield CitedPassage(
            text=without(attribution.response, sentence.start, end, own.removed).rstrip(),
            end=end,
            marks=tuple(marks_of(attribution, citations, sentence, own)),
            remark=remark_on(sentence.verdict, attribution.verdicts),
            check=check_remark(sentence.verdict),
            wrong_markers=own.remark,
            removed=own.removed,
            space=attribution.response[end : sentence.end],
        )


def _cited(attribution: Result, citations: Citations) -> Iterable[CitedDocument]:
    source_ids = dict.fromkeys(
        source_id for sentence in citations.sentences for source_id in sentence.source_ids
    )
    for document, number in sorted(citations.numbers.items(), key=lambda item: item[1]):
        quotes = (
            quote_of(attribution, attribution.sources[source_id], document)
            for source_id in source_ids
            if document in attribution.sources[source_id].documents
        )
        label = label_of(attribution.documents[document], document)
        name = citations.names.get(document, "")
        yield CitedDocument(document, number, label, tuple(dict.fromkeys(quotes)), name)


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
    return ellipsize(without_tags(text, whole), _QUOTE_LENGTH)


def _listed(attribution: Result, citations: Citations, top: int) -> Iterable[ListedSource]:
    ranked = attribution.top(top)
    largest = max((abs(ranking.score) for ranking in ranked), default=0.0)
    cited = {source for sentence in citations.sentences for source in sentence.source_ids}
    for ranking in ranked:
        source, score = ranking.source, ranking.score
        yield ListedSource(
            text=attribution.plain_text(source),
            label=" or ".join(
                label_of(attribution.documents[index], index) for index in source.documents
            ),
            mark=mark_of([source], citations) if source.id in cited else None,
            score=score,
            share=max(-1.0, min(1.0, score / largest)) if largest else 0.0,
            precision=precision(attribution, source.id),
        )


def _legend(sources: Sequence[ListedSource]) -> Iterable[str]:
    if any(round(source.score, 2) < 0 for source in sources):
        yield "Negative: the answer is more likely without that source."
    precisions = {source.precision for source in sources}
    if "~" in precisions:
        yield "~ marks approximate scores."
    if "≈" in precisions:
        yield "≈ marks estimates, which are no measurements."


def _remarks(attribution: Result, num_unscored: int) -> Iterable[str]:
    yield from attribution.notes
    if num_unscored:
        were = "was" if num_unscored == 1 else "were"
        where = " in groups that matter little" if attribution.groups else ""
        yield f"{_count(num_unscored, 'source')}{where} {were} not scored."
    for marker in filter(is_wrong, attribution.markers):
        text = attribution.response[marker.start : marker.end]
        reason = "has no effect on its sentence" if marker.document is not None else "is missing"
        yield f"The model cites {text}, but document {marker.text} {reason}."


def _described(provenance: Provenance) -> str:
    return (
        f"{provenance.method.replace('_', '-')} in {provenance.seconds:.2f} s on "
        f"{provenance.model_name} "
        f"({provenance.implementation}, {provenance.dtype}, {provenance.device}), "
        f"{_count(provenance.prompt_tokens, 'prompt token')}, "
        f"{_count(provenance.scored_tokens, 'token')} scored in "
        f"{_count(provenance.forward_passes, 'pass', 'passes')}{_saved(provenance)}"
    )


def _saved(provenance: Provenance) -> str:
    """The number of times that leave-one-out without a cache would take more tokens."""
    tokens = provenance.prefilled_tokens + provenance.scored_tokens + provenance.proxy_tokens
    times = provenance.naive_tokens / tokens if tokens else 0.0
    return f", {times:.0f} times fewer tokens than naive leave-one-out" if times >= 1.5 else ""


def _count(number: int, noun: str, plural: str | None = None) -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
