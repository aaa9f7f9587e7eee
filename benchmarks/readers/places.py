"""Whether what is cited for an answer is where people found it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from benchmarks.readers.claims import ANSWER
from benchmarks.readers.measures import FITTING
from benchmarks.readers.reading import Reading, SourcePlaces

Outcome = Literal["right", "false", "other", "none"]
MOST_FALSE = 0.02


def outcome(reading: Reading, cited: Sequence[int]) -> Outcome:
    """Whether a source with evidence is cited, or one without that does not hold the answer.

    'false' is worse than 'right': one wrong source makes a citation false. 'other' sources hold the
    answer's words, too.
    """
    if not cited:
        return "none"
    said = reading.claim.claim.removeprefix(ANSWER).rstrip(".").casefold()
    sources = [reading.sources[index] for index in cited]
    has_evidence = [_has_evidence(reading, source) for source in sources]
    if any(
        not known and (said not in source.text.casefold() or not reading.claim.attributable)
        for known, source in zip(has_evidence, sources, strict=True)
    ):
        return "false"
    return "right" if any(has_evidence) else "other"


def _has_evidence(reading: Reading, source: SourcePlaces) -> bool:
    return any(
        place.document == known.document and place.start < known.end and known.start < place.end
        for place in source.places
        for known in reading.claim.evidence
    )


def fitting(name: str, reading: Reading, limit: float) -> list[int]:
    """The source that fits best, if it fits so well."""
    values = FITTING[name](reading)
    best = max(range(len(values)), key=values.__getitem__)
    return [best] if values[best] >= limit else []


def best_fitting_limit(name: str, readings: Sequence[Reading]) -> float:
    """The limit with most right citations, of those with at most 2 % of false ones, if any."""

    def worth(limit: float) -> tuple[bool, float]:
        outcomes = [outcome(reading, fitting(name, reading, limit)) for reading in readings]
        false = outcomes.count("false") / len(outcomes)
        return false <= MOST_FALSE, outcomes.count("right") if false <= MOST_FALSE else -false

    limits = sorted({max(FITTING[name](reading)) for reading in readings})
    return max([*limits, float("inf")], key=worth)
