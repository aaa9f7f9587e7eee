"""What a reader finds in the references of a claim."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from attribot_rag import Attributor, Document
from attribot_rag.attribution import Verdict
from attribot_rag.attributor.transcripts import rag_prompt
from attribot_rag.context import DocumentSpan
from attribot_rag.errors import DocumentsNotLocated, NoText
from benchmarks.readers.claims import Claim


@dataclass(frozen=True)
class Reading:
    """What was measured of the claim with this id, in nats.

    `likely` [tokens] are the log-likelihoods of its tokens, `reliance` [tokens] what they lose
    without all references, `token_spans` their characters. `sources` are places in the references,
    `masked` [sources][tokens] what the tokens lose without each, if that was asked for. `verdicts`
    are those of each sentence, by the name of the limits.
    """

    id: str
    likely: tuple[float, ...]
    reliance: tuple[float, ...]
    token_spans: tuple[tuple[int, int], ...]
    sources: tuple[DocumentSpan, ...]
    masked: tuple[tuple[float, ...] | None, ...]
    verdicts: dict[str, tuple[Verdict, ...]]

    def to_json(self) -> str:
        fields = asdict(self)
        return json.dumps(fields, default=str)


def read(
    claim: Claim, judges: Mapping[str, Attributor], masked: Attributor | None
) -> Reading | None:
    """None for a claim, or references, without text."""
    documents = [Document(text) for text in claim.references]
    prompt = rag_prompt(claim.question, documents, chat=True)
    try:
        judged = {
            name: judge.attribute(prompt, claim.claim, documents, answered_by="")
            for name, judge in judges.items()
        }
    except (DocumentsNotLocated, NoText):
        return None
    first = next(iter(judged.values()))
    if first.context_reliance is None:
        return None
    every = masked and masked.attribute(prompt, claim.claim, documents, answered_by="")
    return Reading(
        id=claim.id,
        likely=_rounded(first.token_log_likelihoods),
        reliance=_rounded(first.context_reliance),
        token_spans=first.token_spans,
        sources=tuple(_place(first, index) for index in range(len(first.sources))),
        masked=tuple(row and _rounded(row) for row in every.token_scores) if every else (),
        verdicts={name: each.verdicts for name, each in judged.items()},
    )
