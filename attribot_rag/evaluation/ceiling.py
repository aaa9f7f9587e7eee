"""The ceiling: leave-one-out by its second definition against the first, as text and a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from attribot_rag.evaluation.comparison import changed
from attribot_rag.evaluation.grid import CEILING, EXACT
from attribot_rag.evaluation.measures import MEASURES, Measure, MeasuredCase, summary
from attribot_rag.evaluation.metrics import MIN_FOR_INTERVAL
from attribot_rag.evaluation.noise import DIFFERENCE, FACTOR, is_clear, outliers_above, second_above

_FAITHFULNESS = MEASURES[0]
_SUMMARISED = ("mAP", "Pearson", "Spearman", "LDS")

CasesByMethod = Mapping[str, Sequence[MeasuredCase]]


def ceiling(data_set: str, scored: CasesByMethod) -> Iterator[str]:
    """Paragraphs for a data set; none without scores by the second definition."""
    held = scored.get(CEILING, ())
    if not held:
        return
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
    yield from _distances(data_set, scored)
    yield _differences(scored)
    yield _above(held)


def with_second(scored: CasesByMethod) -> dict[str, list[MeasuredCase]]:
    """The cases with scores by the second definition, by method."""
    known = {
        name: [case for case in held if case.second is not None] for name, held in scored.items()
    }
    return {name: held for name, held in known.items() if held}


def _distances(data_set: str, scored: CasesByMethod) -> Iterator[str]:
    """The methods whose mAP differs from the ceiling's, and those where no difference is seen."""
    if len(scored[CEILING]) < MIN_FOR_INTERVAL:
        yield "These are too few answers to tell a method's mAP from the ceiling's."
        return
    verdicts: dict[str, list[str]] = {"better": [], "no difference seen": [], "worse": []}
    second = {case.answered.key: case for case in scored[CEILING]}
    for name, held in scored.items():
        shared = ((second[case.answered.key], case) for case in held if case.answered.key in second)
        change = changed(data_set, name, _FAITHFULNESS, shared)
        if change is not None and name not in (EXACT, CEILING):
            verdicts[change.verdict].append(f"{name} ({change.difference.mean:+.3f})")
    better, same, worse = ("; ".join(names) or "none" for names in verdicts.values())
    yield (
        f"mAP less the ceiling's, over the answers that both have. Above it: {better}. Not told "
        f"apart from it: {same}. Below it: {worse}."
    )


def _above(held: Sequence[MeasuredCase]) -> str:
    num_outliers = sum(len(case.outliers) for case in held)
    above = [len(outliers_above(case)) for case in held]
    second = [score for case in held for score in second_above(case)]
    return (
        f"In these answers {sum(above)} of {num_outliers} outliers, in {sum(map(bool, above))} "
        f"answers, are above {FACTOR:g} times the noise; so is the largest exact score of "
        f"{sum(map(is_clear, held))}. Of all {len(second)} exact scores above it, "
        f"{sum(score > 0 for score in second)} are positive by the second definition."
    )


def _differences(scored: CasesByMethod) -> str:
    """A table of quartiles for the ceiling and the methods that score all sources in nats."""
    lines = [
        f"| {DIFFERENCE.name} | answers | lower quartile | median | upper quartile |",
        "|---" * 5 + "|",
    ]
    lines += [
        f"| {name} | {len(values)} | {' | '.join(f'{value:.2f}' for value in quartiles)} |"
        for name, values in _known(scored, DIFFERENCE)
        for quartiles in [np.quantile(values, (0.25, 0.5, 0.75))]
    ]
    return "\n".join(lines)


def _known(scored: CasesByMethod, measure: Measure) -> Iterator[tuple[str, list[float]]]:
    for name, held in with_second(scored).items():
        whole = [case for case in held if None not in case.scored.scores]
        values = [value for case in whole if (value := measure.of(case)) is not None]
        if len(values) == len(held) and name != EXACT:
            yield name, values
