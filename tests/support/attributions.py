"""Attributions put together by hand: answers, documents and scores that no model has to give."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from attribot_rag import Attribution, Document
from attribot_rag.attribution import Provenance, Verdict
from attribot_rag.context import DocumentSpan, Occurrence, Source
from attribot_rag.context.splitting.splitter import language_of, sentences, split_spans
from attribot_rag.support import RetrievedText, with_support

PROVENANCE = Provenance(
    method="leave_one_out",
    model="/models/smollm2",
    dtype="float32",
    device="cpu",
    implementation="packed",
    retokenized=False,
    prompt_tokens=635,
    prefilled_tokens=0,
    scored_tokens=11_794,
    forward_passes=14,
    seconds=3.209,
)


def handmade(
    response: str,
    documents: Sequence[str | Document],
    scores: Mapping[str, Sequence[float] | None],
    **fields: Any,
) -> Attribution:
    """`scores` gives each source, by its text, a score for each sentence of the response.

    A source is in every document that holds its text. The tokens are words; a sentence's
    first token carries its score.
    """
    all_documents = tuple(map(Document.of, documents))
    token_spans = tuple(match.span() for match in re.finditer(r"\S+\s*|\s+", response))
    starts = [start for start, _ in split_spans(response, sentences)]
    first_tokens = [
        next((index for index, (first, _) in enumerate(token_spans) if first >= start), 0)
        for start in starts
    ]
    rows = []
    for sentence_scores in scores.values():
        row = [0.0] * len(token_spans)
        for token, score in zip(first_tokens, sentence_scores or (), strict=False):
            row[token] = score
        rows.append(None if sentence_scores is None else tuple(row))
    sources = tuple(_source(index, text, all_documents) for index, text in enumerate(scores))
    standard: dict[str, Any] = {
        **{"not_located": (), "exact": (True,) * len(sources), "notes": ()},
        **{"provenance": PROVENANCE},
    }
    return Attribution(
        response=response,
        token_spans=token_spans,
        token_log_likelihoods=(-1.0,) * len(token_spans),
        documents=all_documents,
        sources=sources,
        token_scores=tuple(rows),
        **{**standard, **fields},
    )


def _source(source_id: int, text: str, documents: Sequence[Document]) -> Source:
    spans = (
        DocumentSpan(index, start, start + len(text))
        for index, document in enumerate(documents)
        if (start := document.text.find(text)) >= 0
    )
    places = (
        Occurrence(start, start + len(text), (span,))
        for span in spans
        for start in [1_000 * span.document + span.start]
    )
    return Source(source_id, text, tuple(places))


def verdicts_of(response: str, *verdicts: Mapping[str, Any]) -> tuple[Verdict, ...]:
    """A verdict for each sentence of a response, in order."""
    spans = split_spans(response, sentences)
    return tuple(
        Verdict(start=start, end=end, **fields)
        for (start, end), fields in zip(spans, verdicts, strict=True)
    )


def supported(attribution: Attribution, question: str = "") -> Attribution:
    """The attribution with the support of its verdicts, as an answer to this question."""
    language = language_of(attribution.response, [text.text for text in attribution.documents])
    verdicts = with_support(
        attribution.verdicts,
        attribution.response,
        RetrievedText(attribution.documents, attribution.sources, language),
        question=question,
        markers=[(marker.start, marker.end) for marker in attribution.markers],
    )
    return replace(attribution, verdicts=verdicts)


def source(index: int, *documents: int, text: str = "A fact.") -> Source:
    spans = tuple(DocumentSpan(document, 0, len(text)) for document in documents)
    return Source(index, text, (Occurrence(10 * index, 10 * index + len(text), spans),))


def attribution(
    response: str,
    token_scores: list[list[float] | None],
    *,
    documents: int = 3,
    holders: list[tuple[int, ...]] | None = None,
    **changed: Any,
) -> Attribution:
    """One token per character of the response; source i is in document i."""
    holders = holders or [(index,) for index in range(len(token_scores))]
    values: dict[str, Any] = {
        "response": response,
        "token_spans": tuple((index, index + 1) for index in range(len(response))),
        "token_log_likelihoods": (-1.0,) * len(response),
        "documents": tuple(Document(f"Document {index}.") for index in range(documents)),
        "not_located": (),
        "sources": tuple(source(index, *indices) for index, indices in enumerate(holders)),
        "token_scores": tuple(None if row is None else tuple(row) for row in token_scores),
        **{"exact": (True,) * len(token_scores), "notes": (), "provenance": PROVENANCE},
    }
    return Attribution(**{**values, **changed})


FERRY = "The ferry carries 84 passengers."
ISLAND = handmade(
    "The ferry carries 84 people. A ticket costs 18 crowns. It is a fine trip.",
    [
        Document(f"{FERRY} A single ticket costs 18 crowns.", "ferry.txt#2"),
        Document(f"{FERRY} Book early.", "festival.md#3", {"title": "Lamp Night"}),
        "The museum is open on Saturdays only.",
    ],
    {
        FERRY: (12.345, 0.1, 0.2),
        "A single ticket costs 18 crowns.": (0.2, 8.0, 0.3),
        "Book early.": (-0.3, -0.25, 0.1),
        "The museum is open on Saturdays only.": (0.0, 0.0, 0.004),
    },
)
NOTHING_STANDS_OUT = handmade("Perhaps.", ["One. Two."], {"One.": (0.4,), "Two.": (-0.2,)})
NOTHING_SCORED = handmade("Perhaps.", ["One. Two."], {"One.": None, "Two.": None})
