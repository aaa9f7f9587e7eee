"""What the page shows of an attribution, and the numbers that its script works with."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from attribot_rag.attribution import Attribution, Verdict
from attribot_rag.context import Document
from attribot_rag.display.escaping import on_one_line, visible
from attribot_rag.display.report import (
    CitedPassage,
    Mark,
    Report,
    ellipsize,
    label_of,
    report_on,
    source_label,
)

_STRENGTHS = 5
_LEAST_SHARE = 0.01
_METADATA_LENGTH = 200
_MAX_METADATA = 20
_UNSCORED_LENGTH = 2_000
_QUOTE_LENGTH = 200
_LABEL_LENGTH = 100

# How a verdict is marked, named and explained to readers.
_VERDICTS: Mapping[str, tuple[str, str, str]] = {
    "grounded": ("✓", "from its sources", "Without a cited source the model would hardly say it."),
    "redundant": ("✓", "from either source", "Several sources say it; any one of them is enough."),
    "together": ("✓", "from its sources together", "Only together do its sources carry it."),
    "follows": ("↳", "follows from the answer", "It rests on an earlier sentence of the answer."),
    "conversation": ("↺", "from the conversation", "It rests on what was said before."),
    "unsupported": ("✕", "not from the context", "The model says it without the sources, too."),
    "open": ("?", "not decided", "The sources may matter, but which of them is not known."),
}
_PLAIN = ("grounded", "redundant", "together")


@dataclass(frozen=True)
class SentenceView:
    """A sentence of the answer; `verdict` is '' if it was not judged or is trivial.

    A verdict is shown in words if it is `remarkable`, and by its symbol and marks if not.
    """

    text: str
    marks: tuple[Mark, ...]
    kind: str
    symbol: str
    verdict: str
    remarkable: bool
    breaks: int


@dataclass(frozen=True)
class TextRun:
    """A part of a document's text; `source` is None between sources.

    `strength` is from 0 to 5. Runs of sources that are `listed` can be reached by keyboard.
    """

    text: str
    source: int | None = None
    strength: int = 0
    title: str = ""
    listed: bool = False


@dataclass(frozen=True)
class Card:
    """A document with its text; `number` is None if it is not cited. Links go to `place`."""

    place: str
    number: int | None
    label: str
    url: str
    metadata: tuple[tuple[str, str], ...]
    located: bool
    runs: tuple[TextRun, ...]


@dataclass(frozen=True)
class View:
    """Everything that the templates need. `id` is the same for the same attribution."""

    id: str
    report: Report
    sentences: tuple[SentenceView, ...]
    cards: tuple[Card, ...]
    verdicts: tuple[tuple[str, str, str], ...]
    certainty: str
    data: Mapping[str, Any]


def view_of(attribution: Attribution, *, top: int) -> View:
    report = report_on(attribution, top=top)
    sentences = tuple(_sentence(passage) for passage in report.passages)
    kinds = {sentence.kind for sentence in sentences}
    places = _places(attribution, report)
    return View(
        id=_id(attribution),
        report=report,
        sentences=sentences,
        cards=tuple(_cards(attribution, report, places)),
        verdicts=tuple(about for kind, about in _VERDICTS.items() if kind in kinds),
        certainty=_certainty(attribution),
        data=_data(attribution, report, top, places),
    )


def _id(attribution: Attribution) -> str:
    text = repr((attribution.response, attribution.token_scores, attribution.documents))
    return f"attribot-{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:12]}"


def _places(attribution: Attribution, report: Report) -> list[str]:
    """The id of each document's card: by its number if it is cited."""
    numbers = {document.index: str(document.number) for document in report.documents}
    page = _id(attribution)
    return [
        f"{page}-{numbers.get(index, f'uncited-{index + 1}')}"
        for index in range(len(attribution.documents))
    ]


def _kind(verdict: Verdict | None) -> str:
    if verdict is None:
        return ""
    return "together" if verdict.relation == "together" else verdict.kind


def _sentence(passage: CitedPassage) -> SentenceView:
    kind = _kind(passage.verdict)
    symbol, name, _ = _VERDICTS.get(kind, ("", "", ""))
    return SentenceView(
        text=passage.text,
        marks=passage.marks,
        kind=kind,
        symbol=symbol,
        verdict=passage.remark or name,
        remarkable=bool(symbol) and kind not in _PLAIN,
        breaks=passage.space.count("\n"),
    )


def _cards(attribution: Attribution, report: Report, places: list[str]) -> Iterable[Card]:
    """The cited documents by number, then the others by their best source."""
    scores = [attribution.score(source.id) for source in attribution.sources]
    numbers = {document.index: document.number for document in report.documents}
    best: dict[int, float] = {}
    spans: dict[int, list[tuple[int, int, int]]] = {}
    for source, score in zip(attribution.sources, scores, strict=True):
        for span in (span for place in source.occurrences for span in place.spans):
            spans.setdefault(span.document, []).append((span.start, span.end, source.id))
            known = -math.inf if score is None else score
            best[span.document] = max(best.get(span.document, -math.inf), known)

    def order(index: int) -> tuple[float, float, int]:
        return numbers.get(index, math.inf), -best.get(index, -math.inf), index

    highlighter = _Highlighter(attribution, report, scores)
    for index in sorted(range(len(attribution.documents)), key=order):
        document = attribution.documents[index]
        yield Card(
            place=places[index],
            number=numbers.get(index),
            label=ellipsize(on_one_line(label_of(document, index)), _LABEL_LENGTH),
            url=document.url,
            metadata=tuple(_metadata(document)),
            located=index not in attribution.not_located,
            runs=tuple(highlighter.runs(document.text, sorted(set(spans.get(index, ()))))),
        )


class _Highlighter:
    """How the sources of an attribution look in their documents."""

    def __init__(
        self, attribution: Attribution, report: Report, scores: list[float | None]
    ) -> None:
        self._scores = scores
        self._exact = attribution.exact
        self._unit = attribution.unit
        self._largest = max((abs(score) for score in scores if score is not None), default=0.0)
        verdicts = (passage.verdict for passage in report.passages if passage.verdict)
        cited = {source_id for verdict in verdicts for source_id in verdict.source_ids}
        self._listed = cited | {source.id for source in report.sources}

    def runs(self, text: str, spans: list[tuple[int, int, int]]) -> Iterable[TextRun]:
        if not spans:
            yield TextRun(ellipsize(text, _UNSCORED_LENGTH))
            return
        end = 0
        for start, stop, source in spans:
            start = max(start, end)
            if start >= stop:
                continue
            if start > end:
                yield TextRun(text[end:start])
            yield self._run(text[start:stop], source)
            end = stop
        if end < len(text):
            yield TextRun(text[end:])

    def _run(self, text: str, source: int) -> TextRun:
        score = self._scores[source]
        if score is None:
            return TextRun(text, source, title="not scored")
        share = score / self._largest if self._largest else 0.0
        strength = math.ceil(_STRENGTHS * math.sqrt(share)) if share > _LEAST_SHARE else 0
        title = f"{'' if self._exact[source] else '~'}{round(score, 2) or 0.0:.2f} {self._unit}"
        return TextRun(text, source, strength, title, listed=source in self._listed)


def _metadata(document: Document) -> Iterable[tuple[str, str]]:
    """Short texts and numbers of the metadata, without what the title and the link show."""
    for key, value in list(document.metadata.items())[:_MAX_METADATA]:
        if isinstance(value, (str, int, float, bool)) and value not in (
            document.title,
            document.url,
        ):
            yield (
                ellipsize(on_one_line(str(key)), _LABEL_LENGTH),
                ellipsize(on_one_line(str(value)), _METADATA_LENGTH),
            )


def _certainty(attribution: Attribution) -> str:
    """How far the scores can be trusted, in words."""
    scored = [
        exact
        for exact, row in zip(attribution.exact, attribution.token_scores, strict=True)
        if row is not None
    ]
    words = []
    if attribution.unit == "nats" and scored:
        most = f"{sum(scored)} of {len(scored)} scores are exact, the others approximate."
        words.append("All scores are exact." if all(scored) else most)
    if attribution.partial:
        words.append("Partial: the budget ended before everything was scored.")
    if attribution.provenance.retokenized:
        words.append("Re-tokenized: made from text, so the tokens need not be the model's own.")
    return " ".join(words)


def _data(attribution: Attribution, report: Report, top: int, places: list[str]) -> dict[str, Any]:
    """What the script needs: scores by token, and the tokens' characters in each sentence.

    `places` are the ids of the cards that show the first document of each source.
    """
    return {
        "unit": attribution.unit,
        "top": top,
        "sentences": [_tokens(attribution, passage) for passage in report.passages],
        "scores": [
            None if row is None else [round(score, 4) for score in row]
            for row in attribution.token_scores
        ],
        "whole": [_rounded(attribution.score(source.id)) for source in attribution.sources],
        "exact": list(attribution.exact),
        "places": [
            places[source.documents[0]] if source.documents else ""
            for source in attribution.sources
        ],
        "texts": [
            ellipsize(visible(source.text).strip(), _QUOTE_LENGTH) for source in attribution.sources
        ],
        "labels": [
            ellipsize(on_one_line(source_label(attribution, source)), _LABEL_LENGTH)
            for source in attribution.sources
        ],
    }


def _rounded(score: float | None) -> float | None:
    return None if score is None else round(score, 4)


def _tokens(attribution: Attribution, passage: CitedPassage) -> list[tuple[int, int, int]]:
    """Each token of a sentence with its characters there, counted as browsers count."""

    def shown(position: int) -> int:
        end = max(passage.start, min(position, passage.end))
        text = visible(attribution.response[passage.start : end])
        return len(text.encode("utf-16-le", "surrogatepass")) // 2

    tokens = attribution.tokens_in(passage.start, passage.end)
    spans = ((token, *attribution.token_spans[token]) for token in tokens)
    return [(token, shown(start), shown(end)) for token, start, end in spans]
