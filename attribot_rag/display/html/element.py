"""The element <attribot-answer>: its script, its data, and pages that show it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from markupsafe import Markup

from attribot_rag.context.splitting.markup import without_tags
from attribot_rag.context.splitting.splitter import language_of
from attribot_rag.display.html.script import element_script
from attribot_rag.display.html.templates import page_part, page_templates
from attribot_rag.display.markdown import render_cited
from attribot_rag.display.report import report_on
from attribot_rag.errors import InvalidInput
from attribot_rag.result import CitedSentence, Result, cite
from attribot_rag.result.summary import summarize

_NOISE = 1.0  # nats, as in receipts.js
_MOST_ROWS = 8
_MOST_PLACES = 20
_THEMES = ("auto", "light", "dark")


def answer_data(attribution: Result, *, question: str = "") -> dict[str, Any]:
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
        "language": language_of(question, [attribution.response]),
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
    template = page_templates().get_template("element.html")
    return Markup(template.render(data=data, attributes=named, inside=inside))


def render_answer(
    attribution: Result, *, question: str = "", **attributes: str | bool | None
) -> Markup:
    """The element for an attribution; without scripts, its cited text and what that cites."""
    inside = page_templates().get_template("cited.html")
    plain = inside.render(
        cited=render_cited(attribution), documents=report_on(attribution, top=0).documents
    )
    data = answer_data(attribution, question=question)
    return render_element(data, Markup(plain), **attributes)


def render_html(
    attribution: Result,
    *,
    question: str = "",
    theme: str = "auto",
    answer: bool = True,
    page: bool = True,
) -> str:
    """The answer as <attribot-answer>: each sentence shows what made the model say it.

    Nothing is loaded, and nothing in a document or an answer takes effect; a page's
    Content-Security-Policy lets only its own script and style run. Raises InvalidInput for another
    theme.

    Args:
        attribution: The result to show.
        question: The heading of the page.
        theme: 'auto' (the reader's, or that of the page around a fragment), 'light' or 'dark'.
        answer: Whether the answer is shown, too, or only the evidence.
        page: Whether it is a page of its own, or a fragment to embed.
    """
    if theme not in _THEMES:
        raise InvalidInput(f"theme={theme!r}; use {', '.join(_THEMES)}")
    element = render_answer(
        attribution,
        question=question,
        theme=theme if theme != "auto" else None,
        no_question=page,  # which has it as its heading
        no_answer=not answer,
    )
    if not page:
        return f"{element}\n<script>{element_script()}</script>"
    return _page(element, question, theme)


def render_summary(
    data: Mapping[str, Any],
    *,
    question: str = "",
    theme: str = "auto",
    **attributes: str | bool | None,
) -> str:
    """The same page for the element's `data`, such as a summary, and its attributes."""
    shown = theme if theme != "auto" else None
    element = render_element(data, theme=shown, no_question=True, **attributes)
    return _page(element, question, theme)


def _page(element: Markup, question: str, theme: str) -> str:
    return (
        page_templates()
        .get_template("page.html")
        .render(
            element=element,
            question=question,
            theme=theme,
            style=page_part("page.css"),
            script=Markup(element_script()),
        )
    )


def _rows(attribution: Result, sentence: CitedSentence) -> Iterator[dict[str, Any]]:
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


def _tokens(attribution: Result, sentence: CitedSentence) -> Iterator[tuple[int, int]]:
    """The characters of each token within the sentence."""
    for token in attribution.tokens_in(sentence.start, sentence.end):
        start, end = attribution.token_spans[token]
        yield max(0, start - sentence.start), min(end, sentence.end) - sentence.start


def _places(attribution: Result, source_id: int) -> Iterator[tuple[int | str, ...]]:
    """The places of a source: document, start, end, and its text where that has tags."""
    spans = (span for place in attribution.sources[source_id].occurrences for span in place.spans)
    for span in list(dict.fromkeys(spans))[:_MOST_PLACES]:
        whole = attribution.documents[span.document].text
        text = whole[span.start : span.end]
        start = span.start + len(text) - len(text.lstrip())
        place = (span.document, start, start + len(text.strip()))
        plain = without_tags(text, whole)
        yield (*place, plain) if plain != text.strip() else place
