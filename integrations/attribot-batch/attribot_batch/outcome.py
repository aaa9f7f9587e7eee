"""Attributes one record, or gives the reason why that is impossible."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from attribot_batch.records import Given, Record
from attribot_rag import Attribution, AttributionError, Attributor
from attribot_rag.errors import Rejected, ServerFailed
from attribot_rag.result import summarize


class Outcome(NamedTuple):
    """A line of the results or the rejects, for the record with this number."""

    number: int
    rejected: bool
    content: Mapping[str, Any]

    @classmethod
    def of(cls, attributor: Attributor, number: int, given: Given) -> Outcome:
        """Attribute a record, or give the reason for its refusal.

        Raises ServerFailed if the server fails for good, because that is not the record's fault.
        """
        name: object = None
        try:
            content = given.parsed()
            name = content.get("id") if isinstance(content, Mapping) else None
            record = Record.of(content)
            chats = bool(attributor.language_model.tokenizer.chat_template)
            attribution = attributor.attribute(
                record.read_prompt(chats=chats),
                record.response,
                record.read_documents(),
                answered_by=record.answered_by,
            )
        except AttributionError as error:
            if isinstance(error, ServerFailed) and not isinstance(error, Rejected):
                raise
            reason = {"type": type(error).__name__, "message": str(error)[:1000]}
            return cls(number, True, {"id": _plain(name), "error": reason})
        return cls(number, False, {"id": _plain(name), **_result(attribution, record.asked)})


def _result(attribution: Attribution, question: str | None) -> dict[str, Any]:
    totals: dict[str, float] = {}
    for source in attribution.sources:
        score = attribution.score(source.id)
        for document in source.documents:
            totals[str(document)] = totals.get(str(document), 0.0) + (score or 0.0)
    return {
        "response": attribution.response,
        "summary": {
            **summarize(attribution),
            "question": question,
            "answer": attribution.response,
            "cited_text": attribution.to_cited_text(),
        },
        "document_scores": {document: round(total, 4) for document, total in totals.items()},
    }


def _plain(name: object) -> str | int | None:
    return name if isinstance(name, str | int) else None
