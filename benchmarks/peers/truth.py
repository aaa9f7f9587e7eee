"""What an evaluation knows of the answers: exact leave-one-out, by which peers are judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attribot_rag.evaluation.results import ResultStore, ScoreRecord
from benchmarks.peers.cases import Case


def evaluated(
    cases: Sequence[Case], results: ResultStore, method: str | None
) -> Mapping[str, ScoreRecord]:
    """The method's results for the same answers, by the keys of the cases."""
    known = {} if method is None else results.of_method(method)
    return {
        case.key: known[case.key]
        for case in cases
        if case.key in known and known[case.key].digest == case.answer_digest
    }


def seconds_here(known: Mapping[str, ScoreRecord], hardware: str) -> dict[str, float]:
    """Seconds of the processor that were taken on this hardware."""
    here = ("cpu", hardware)
    return {key: one.seconds for key, one in known.items() if (one.clock, one.hardware) == here}
