"""What the page shows of an attribution, and the numbers that its script works with."""

from __future__ import annotations

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any

from attribot_rag.attribution import Attribution, Verdict
from attribot_rag.attribution.citations import document_order
from attribot_rag.context import Document
from attribot_rag.context.html_text import without_tags
from attribot_rag.display.escaping import on_one_line, visible
from attribot_rag.display.report import (
    CitedPassage,
    Report,
    ellipsize,
    label_of,
    precision,
    report_on,
    score_text,
    source_label,
)

_STRENGTHS = 5
_LEAST_SHARE = 0.01
_METADATA_LENGTH = 200
_MAX_METADATA = 20
_UNSCORED_LENGTH = 2_000
_QUOTE_LENGTH = 200
_LABEL_LENGTH = 100


@dataclass(frozen=True)
class Look:
    """How a source is shown in its documents: its `strength` from 0 to 5, and a `title`.

    Sources that are `listed` can be reached by keyboard.
    """

    source: int
    strength: int = 0
    title: str = "not scored"
    listed: bool = False


def view_of(attribution: Attribution, *, top: int) -> dict[str, Any]:
    """Everything that the templates need, by name. `id` is the same for the same attribution.

    `scored` counts the scores of each precision.
    """
    report = report_on(attribution, top=top)
    content = repr((attribution.response, attribution.token_scores, attribution.documents))
    page = f"attribot-{hashlib.sha256(content.encode('utf-8', 'replace')).hexdigest()[:12]}"
    numbers = {document.index: document.number for document in report.documents}
    places = [
        f"{page}-{numbers.get(index, f'uncited-{index + 1}')}"
        for index in range(len(attribution.documents))
    ]
    return {
        "id": page,
        "attribution": attribution,
        "report": report,
        "scored": Counter(
            precision(attribution, source)
            for source, row in enumerate(attribution.token_scores)
            if row is not None
        ),
        "cards": list(_cards(attribution, report, places)),
        "data": _data(attribution, report, top, places),
    }


def kind_of(verdict: Verdict | None) -> str:
    """How a verdict is shown: its kind, 'together', or '' without a verdict."""
    if verdict is None:
        return ""
    return "together" if verdict.relation == "together" else verdict.kind


def _cards(attribution: Attribution, report: Report, places: list[str]) -> Iterable[dict[str, Any]]:
    """The cited documents by number, then the others by their best source.

    `number` is None for a document that is not cited. Links go to `place`.
    """
    numbers = {document.index: document.number for document in report.documents}
    spans: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for source in attribution.sources:
        for span in (span for place in source.occurrences for span in place.spans):
            spans[span.document].append((span.start, span.end, source.id))
    looks = _looks(attribution, report)
    for index in document_order(attribution, numbers):
        document = attribution.documents[index]
        yield {
            "place": places[index],
            "number": numbers.get(index),
            "label": ellipsize(on_one_line(label_of(document, index)), _LABEL_LENGTH),
            "url": document.url,
            "metadata": list(_metadata(document)),
            "located": index not in attribution.not_located,
            "runs": list(_runs(document.text, sorted(set(spans[index])), looks)),
        }


def _looks(attribution: Attribution, report: Report) -> list[Look]:
    scores = [attribution.score(source.id) for source in attribution.sources]
    largest = max((abs(score) for score in scores if score is not None), default=0.0)
    verdicts = (passage.verdict for passage in report.passages if passage.verdict)
    listed = {source_id for verdict in verdicts for source_id in verdict.source_ids}
    listed |= {source.id for source in report.sources}

    def look(source: int, score: float | None) -> Look:
        if score is None:
            return Look(source)
        share = score / largest if largest else 0.0
        strength = math.ceil(_STRENGTHS * math.sqrt(share)) if share > _LEAST_SHARE else 0
        title = f"{score_text(score, precision(attribution, source))} {attribution.unit}"
        return Look(source, strength, title, listed=source in listed)

    return [look(source, score) for source, score in enumerate(scores)]


def _runs(
    text: str, spans: list[tuple[int, int, int]], looks: Sequence[Look]
) -> Iterable[tuple[str, Look | None]]:
    """The text in runs; `spans` are (start, end, source), in order."""
    if not spans:
        yield ellipsize(text, _UNSCORED_LENGTH), None
        return
    end = 0
    for start, stop, source in spans:
        start = max(start, end)
        if start < stop:
            yield text[end:start], None
            yield text[start:stop], looks[source]
            end = stop
    yield text[end:], None


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
        "precisions": [precision(attribution, source.id) for source in attribution.sources],
        "places": [
            places[source.documents[0]] if source.documents else ""
            for source in attribution.sources
        ],
        "texts": [
            ellipsize(visible(without_tags(source.text)).strip(), _QUOTE_LENGTH)
            for source in attribution.sources
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

    text = attribution.response[passage.start : passage.end]
    places = list(accumulate(map(_width, text, f" {text}"), initial=0))

    def shown(position: int) -> int:
        return places[max(0, min(position, passage.end) - passage.start)]

    tokens = attribution.tokens_in(passage.start, passage.end)
    spans = ((token, *attribution.token_spans[token]) for token in tokens)
    return [(token, shown(start), shown(end)) for token, start, end in spans]


@lru_cache(1_024)
def _width(character: str, before: str) -> int:
    """The length in UTF-16 of what is shown of a character after another."""
    if before + character == "\r\n":  # a single line break, which the first of them shows
        return 0
    return len(visible(character).encode("utf-16-le", "surrogatepass")) // 2
