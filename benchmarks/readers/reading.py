"""What a reader finds in the references of a claim."""

from __future__ import annotations

from dataclasses import dataclass

from attribot_rag import Attribution, Attributor, Document
from attribot_rag.attributor.transcripts import rag_prompt
from attribot_rag.errors import DocumentsNotLocated, NoText
from benchmarks.readers.claims import Claim


@dataclass(frozen=True)
class Reading:
    """What was measured of a claim, in nats where nothing else is said.

    `reliance` is what it loses without all references, `per_token` the mean of that over the
    tokens; `effect` is what it loses without the sources that are cited, `kept` the least share of
    a sentence's reliance that they keep alone (0 without any), `cited` the share of its sentences
    that cite something.
    """

    reliance: float
    per_token: float
    effect: float
    kept: float
    cited: float


def read(reader: Attributor, claim: Claim) -> Reading | None:
    """None for a claim, or references, without text."""
    documents = [Document(text) for text in claim.references]
    prompt = rag_prompt(claim.question, documents, chat=True)
    try:
        return _reading(reader.attribute(prompt, claim.claim, documents))
    except (DocumentsNotLocated, NoText):
        return None


def _reading(attribution: Attribution) -> Reading | None:
    judged = [each for each in attribution.verdicts if each.reliance is not None]
    rely = attribution.context_reliance
    if not judged or rely is None:
        return None
    cited = [each for each in judged if each.source_ids]
    return Reading(
        reliance=sum(rely),
        per_token=sum(rely) / len(rely),
        effect=sum(each.effect or 0.0 for each in cited),
        kept=min((each.kept or 0.0 for each in cited), default=0.0),
        cited=len(cited) / len(judged),
    )
