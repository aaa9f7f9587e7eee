"""What a reader finds in the references of a claim."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from attribot_rag import Attribution, Attributor, Document
from attribot_rag.attribution import Verdict
from attribot_rag.attributor.prompts import rag_prompt
from attribot_rag.context import DocumentSpan
from attribot_rag.errors import DocumentsNotLocated, NoText
from attribot_rag.methods.base import Part, parts_of
from benchmarks.readers.claims import Claim

Spans = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class SourcePlaces:
    """A sentence of the references, and its places there."""

    text: str
    places: tuple[DocumentSpan, ...]


@dataclass(frozen=True)
class Reading:
    """What was measured of a claim, in nats.

    `likely` [tokens] are the log-likelihoods of its tokens, `reliance` [tokens] what they lose
    without all references, `token_spans` [tokens] their characters; `effects` [sources][tokens] are
    those that the verdicts took, None for other sources.
    """

    claim: Claim
    likely: tuple[float, ...]
    reliance: tuple[float, ...]
    token_spans: Spans
    sources: tuple[SourcePlaces, ...]
    effects: tuple[tuple[float | None, ...] | None, ...]
    verdicts: tuple[Verdict, ...]

    @property
    def cited(self) -> list[int]:
        """The sources that are cited for any sentence, by index."""
        return sorted({source for verdict in self.verdicts for source in verdict.source_ids})

    @cached_property
    def words(self) -> Part:
        """The claim's content words, those of the question aside."""
        everything = range(len(self.token_spans))

        def tokens_in(start: int, end: int) -> list[int]:
            return [i for i in everything if _overlap(self.token_spans[i], (start, end))]

        (part,) = parts_of(
            [everything], self.claim.claim, tokens_in, self.claim.question, self.reliance
        )
        return part


def _overlap(first: tuple[int, int], second: tuple[int, int]) -> bool:
    return first[0] < second[1] and second[0] < first[1]


def read(reader: Attributor, claim: Claim, answered_by: str | None = "") -> Reading | None:
    """None for a claim, or references, without text. Without `answered_by`, its own answer."""
    documents = [Document(text) for text in claim.references]
    prompt = rag_prompt(claim.question, documents, chat=True)
    try:
        attribution = reader.attribute(prompt, claim.claim, documents, answered_by=answered_by)
    except (DocumentsNotLocated, NoText):
        return None
    return None if attribution.context_reliance is None else reading_of(claim, attribution)


def reading_of(claim: Claim, attribution: Attribution) -> Reading:
    """What an attribution of the claim has measured."""
    return Reading(
        claim=claim,
        likely=attribution.token_log_likelihoods,
        reliance=attribution.context_reliance or (),
        token_spans=attribution.token_spans,
        sources=tuple(
            SourcePlaces(
                source.text,
                tuple(span for place in source.occurrences for span in place.spans),
            )
            for source in attribution.sources
        ),
        effects=tuple(
            None if attribution.estimated and attribution.estimated[index] else row
            for index, row in enumerate(attribution.token_scores)
        ),
        verdicts=attribution.verdicts,
    )


def write(readings: Sequence[Reading], path: Path) -> None:
    """As JSON lines, so that limits can be chosen without the model."""
    lines = (json.dumps(asdict(reading)) for reading in readings)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
