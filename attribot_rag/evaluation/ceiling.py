"""The ceiling: leave-one-out by its second definition against the first, as text and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from attribot_rag.evaluation.comparison import changed
from attribot_rag.evaluation.grid import CEILING, EXACT
from attribot_rag.evaluation.measures import (
    DIFFERENCE,
    FACTOR,
    MEASURES,
    CasesByMethod,
    MeasuredCase,
    summary,
)
from attribot_rag.evaluation.metrics import MIN_FOR_INTERVAL
from attribot_rag.evaluation.tables import markdown_table

_FAITHFULNESS = MEASURES[0]
_SUMMARISED = ("mAP", "Pearson", "Spearman", "LDS")


def ceiling(data_set: str, scored: CasesByMethod) -> Iterator[str]:
    """Paragraphs for a data set whose answers have scores by the second definition."""
    held = scored[CEILING]
    values = ", ".join(
        f"{measure.name} {value:{measure.form}}"
        for measure in MEASURES
        if measure.name in _SUMMARISED and (value := summary(measure, held))
    )
    yield (
        f"The ceiling, leave-one-out by its second definition against the first, over {len(held)} "
        f"of {len(scored[EXACT])} answers: {values}. A method that is as close is not told from "
        "the truth."
    )
    yield _distances(data_set, scored)
    yield _differences(scored)
    yield _above(held)


def with_second(scored: CasesByMethod) -> dict[str, list[MeasuredCase]]:
    """The cases with scores by the second definition, by method."""
    known = {
        name: [case for case in held if case.second is not None] for name, held in scored.items()
    }
    return {name: held for name, held in known.items() if held}


def _distances(data_set: str, scored: CasesByMethod) -> str:
    """The methods whose mAP differs from the ceiling's, and those where no difference is seen."""
    if len(scored[CEILING]) < MIN_FOR_INTERVAL:
        return "These are too few answers to tell a method's mAP from the ceiling's."
    verdicts: dict[str, list[str]] = {"better": [], "no difference seen": [], "worse": []}
    second = {case.answered.key: case for case in scored[CEILING]}
    for name, held in scored.items():
        shared = ((second[case.answered.key], case) for case in held if case.answered.key in second)
        change = changed(data_set, name, _FAITHFULNESS, shared)
        if change is not None and name not in (EXACT, CEILING):
            verdicts[change.verdict].append(f"{name} ({change.difference.mean:+.3f})")
    better, same, worse = ("; ".join(names) or "none" for names in verdicts.values())
    return (
        f"mAP less the ceiling's, over the answers that both have. Above it: {better}. Not told "
        f"apart from it: {same}. Below it: {worse}."
    )


def _above(held: Sequence[MeasuredCase]) -> str:
    above = [len(case.outliers & case.above_noise) for case in held]
    second = [case.second[i] for case in held if case.second for i in case.above_noise]
    known = [score for score in second if score is not None]
    return (
        f"In these answers {sum(above)} of {sum(len(case.outliers) for case in held)} outliers, in "
        f"{sum(map(bool, above))} answers, are above {FACTOR:g} times the noise; so is the largest "
        f"exact score of {sum(bool(case.above_noise) for case in held)}. Of all {len(known)} exact "
        f"scores above it, {sum(score > 0 for score in known)} are positive by the second "
        "definition."
    )


def _differences(scored: CasesByMethod) -> str:
    """A table of quartiles for the ceiling and the methods that score all sources in nats."""
    rows = []
    for name, held in with_second(scored).items():
        values = [
            value
            for case in held
            if None not in case.scored.scores and (value := DIFFERENCE.of(case)) is not None
        ]
        if len(values) == len(held) and name != EXACT:
            quartiles = (f"{value:.2f}" for value in np.quantile(values, (0.25, 0.5, 0.75)))
            rows.append([name, str(len(values)), *quartiles])
    header = [DIFFERENCE.name, "answers", "lower quartile", "median", "upper quartile"]
    return markdown_table(header, rows)
