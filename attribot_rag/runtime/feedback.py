"""An attribution as feedback on an answer, for tools that collect such feedback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from attribot_rag.attribution import Attribution, Verdict
from attribot_rag.display.remarks import who_read
from attribot_rag.result.citations import cite
from attribot_rag.runtime.attributed_run import AttributedRun

Label = Literal["grounded", "partly_grounded", "ungrounded", "not_judged", "not_attributed"]

NAME = "attribution"
_GROUNDED = ("grounded", "redundant")
_NOT_COUNTED = ("reasoning", "trivial", "follows")
_DECIMALS = 4


class DocumentScore(TypedDict):
    """A retrieved document in the feedback on an answer, without its text."""

    index: int
    """Its index among the documents that the answer was attributed to."""
    id: str | None
    number: int | None
    """Its number in citations, None if nothing cites it."""
    score: float | None
    """The sum of its sources' scores, in the attribution's unit; None if none was scored."""


@dataclass(frozen=True)
class Feedback:
    """The verdict of an attribution on the whole answer.

    `score` is the share of its sentences, from 0 to 1, that retrieved text caused, or of another
    model's answer supports (the `basis` of the metadata says which). A sentence with a value that
    no document has, or of which its source has another, does not count as caused. Sentences that
    follow from others, and those that are not judged, do not count at all. It is None where no
    sentence was judged. `explanation` and `metadata` hold numbers and the documents' ids, no texts:
    whose attribution it is and how it came about, a `DocumentScore` for each of the `documents`,
    and `sentences_to_check`, the number of those with values that their cited sources do not have.
    """

    name: str
    score: float | None
    label: Label
    explanation: str
    metadata: Mapping[str, Any]


def feedback_of(run: AttributedRun) -> Feedback:
    """The feedback of a finished run; of one without attribution it names the kind of error."""
    attribution = run.attribution
    provenance = None if attribution is None else attribution.provenance
    documents = [] if attribution is None else document_scores(attribution)
    verdicts = () if attribution is None else attribution.verdicts
    metadata = {
        "run_id": run.run_id,
        "root_id": run.root_id,
        "status": run.summary["status"],
        "method": provenance and provenance.method,
        "model": provenance and provenance.model_name,
        "basis": provenance and provenance.basis,
        "answered_by": provenance and provenance.answered_by,
        "unit": attribution and attribution.unit,
        "documents": documents,
        "sentences_to_check": sum(bool(verdict.checks) for verdict in verdicts),
    }
    if attribution is None:
        why = "pending" if run.error is None else type(run.error).__name__
        return Feedback(NAME, None, "not_attributed", why, metadata)
    judged = [verdict for verdict in verdicts if verdict.kind not in _NOT_COUNTED]
    num_judged, num_grounded = len(judged), sum(map(_is_grounded, judged))
    return Feedback(
        NAME,
        num_grounded / num_judged if num_judged else None,
        _label(num_grounded, num_judged),
        _explanation(num_grounded, num_judged, documents, attribution),
        metadata,
    )


def document_scores(attribution: Attribution) -> list[DocumentScore]:
    """Per document the sum of its sources' scores."""
    numbers = cite(attribution).numbers
    scores = {ranked.index: ranked.score for ranked in attribution.documents_by_effect()}
    return [
        {
            "index": index,
            "id": document.id,
            "number": numbers.get(index),
            "score": round(scores[index], _DECIMALS) if index in scores else None,
        }
        for index, document in enumerate(attribution.documents)
    ]


def _is_grounded(verdict: Verdict) -> bool:
    """Whether a sentence comes from retrieved text, and no value of it differs or is missing."""
    return verdict.kind in _GROUNDED and not any(
        check.in_no_document or check.source_value is not None for check in verdict.checks
    )


def _label(num_grounded: int, num_judged: int) -> Label:
    if not num_judged:
        return "not_judged"
    if num_grounded == num_judged:
        return "grounded"
    return "partly_grounded" if num_grounded else "ungrounded"


def _explanation(
    num_grounded: int,
    num_judged: int,
    documents: Sequence[DocumentScore],
    attribution: Attribution,
) -> str:
    unit, read = attribution.unit, who_read(attribution.provenance)
    come = "have support in" if read else "come from"
    share = f"{num_grounded} of {num_judged} sentences {come} retrieved text."
    parts = [read, share] if read else [share]
    cited = [document for document in documents if document["number"]]
    for document in sorted(cited, key=lambda document: document["number"] or 0):
        name = f" ({document['id']})" if document["id"] else ""
        score = "." if document["score"] is None else f": {document['score']:.1f} {unit}."
        parts.append(f"[{document['number']}] is document {document['index']}{name}{score}")
    return " ".join(parts)
