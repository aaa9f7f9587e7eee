"""The element <attribot-answer>: its script, and the data that it shows of an attribution."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from markupsafe import Markup

from attribot_rag.attribution import Attribution, CitedSentence, cite
from attribot_rag.attribution.summary import summarize
from attribot_rag.context.splitting.markup import without_tags
from attribot_rag.display.html.templates import environment
from attribot_rag.display.markdown import render_cited
from attribot_rag.display.report import report_on

_PARTS = ("words", "receipts", "prose", "documents", "card", "answer")
_NOISE = 1.0  # nats, as in receipts.js
_MOST_ROWS = 8
_MOST_PLACES = 20


@cache
def element_script() -> str:
    """The element as one script without dependencies; it defines <attribot-answer>."""
    folder = files("attribot_rag.display.html")
    style = json.dumps(folder.joinpath("answer.css").read_text("utf-8"))
    parts = "\n".join(folder.joinpath(f"{name}.js").read_text("utf-8") for name in _PARTS)
    return f'(() => {{\n"use strict";\nconst STYLE = {style};\n{parts}}})();\n'


def answer_data(attribution: Attribution, *, question: str = "") -> dict[str, Any]:
    """The element's `data`: plain values for JSON.

    A summary of all sentences and documents, the answer and the documents' texts, the places of
    sources that matter to a sentence, and their scores for each of its tokens, in nats.
    """
    sentences = list(cite(attribution))
    evidence = [list(_rows(attribution, sentence)) for sentence in sentences]
    shown = {row["source"] for rows in evidence for row in rows}
    shown.update(source_id for sentence in sentences for source_id in sentence.source_ids)
    return {
        "summary": summarize(attribution, max_bytes=None),
        "question": question,
        "answer": attribution.response,
        "documents": {
            str(index): document.text for index, document in enumerate(attribution.documents)
        },
        "quotes": {str(source_id): list(_places(attribution, source_id)) for source_id in shown},
        "tokens": [list(_tokens(attribution, sentence)) for sentence in sentences],
        "evidence": evidence,
    }


def render_element(
    data: Mapping[str, Any], inside: str = "", /, **attributes: str | bool | None
) -> Markup:
    """The element as HTML for a page that has its script.

    `inside` is what a reader without scripts sees. Attributes are the element's, with `_` for `-`;
    those that are False, None or '' are left out.
    """
    named = {name.replace("_", "-"): value for name, value in attributes.items() if value}
    template = environment().get_template("element.html")
    return Markup(template.render(data=data, attributes=named, inside=inside))


def render_answer(
    attribution: Attribution, *, question: str = "", **attributes: str | bool | None
) -> Markup:
    """The element for an attribution; without scripts, its cited text and what that cites."""
    inside = environment().get_template("cited.html")
    plain = inside.render(
        cited=render_cited(attribution), documents=report_on(attribution, top=0).documents
    )
    data = answer_data(attribution, question=question)
    return render_element(data, Markup(plain), **attributes)


def _rows(attribution: Attribution, sentence: CitedSentence) -> Iterator[dict[str, Any]]:
    """The sources that a sentence cites, those above the noise, or else the best."""
    span = (sentence.start, sentence.end)
    ranked = attribution.top(len(attribution.sources), *span)
    tokens = attribution.tokens_in(*span)
    count = 0
    for place, ranking in enumerate(ranked):
        source_id, matters = ranking.source.id, abs(ranking.score) >= _NOISE
        listed = (matters and count < _MOST_ROWS) or not place
        if listed or source_id in sentence.source_ids:
            count += 1
            row = attribution.token_scores[source_id] or ()
            yield {
                "source": source_id,
                "score": round(ranking.score, 2),
                "exact": attribution.exact[source_id],
                "tokens": [round(row[token], 2) for token in tokens],
            }


def _tokens(attribution: Attribution, sentence: CitedSentence) -> Iterator[tuple[int, int]]:
    """The characters of each token within the sentence."""
    for token in attribution.tokens_in(sentence.start, sentence.end):
        start, end = attribution.token_spans[token]
        yield max(0, start - sentence.start), min(end, sentence.end) - sentence.start


def _places(attribution: Attribution, source_id: int) -> Iterator[tuple[int | str, ...]]:
    """Where a source stands: document, start, end, and its text where that has tags."""
    spans = (span for place in attribution.sources[source_id].occurrences for span in place.spans)
    for span in list(dict.fromkeys(spans))[:_MOST_PLACES]:
        whole = attribution.documents[span.document].text
        text = whole[span.start : span.end]
        start = span.start + len(text) - len(text.lstrip())
        place = (span.document, start, start + len(text.strip()))
        plain = without_tags(text, whole)
        yield (*place, plain) if plain != text.strip() else place
