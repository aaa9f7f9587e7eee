"""What the second definition of leave-one-out says of the first, in words and a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from attribot_rag.evaluation.comparing import changed
from attribot_rag.evaluation.grid import CEILING, EXACT
from attribot_rag.evaluation.measures import MEASURES, Case, Measure, summary
from attribot_rag.evaluation.metrics import MIN_FOR_INTERVAL
from attribot_rag.evaluation.noise import DIFFERENCE, FACTOR, is_clear, outliers_above, second_above

_FAITHFULNESS = MEASURES[0]
_TOLD = ("mAP", "Pearson", "Spearman", "LDS")

Scored = Mapping[str, Sequence[Case]]


def ceiling(data_set: str, scored: Scored) -> Iterator[str]:
    """Of one data set's methods; nothing where the second definition was not computed."""
    held = scored.get(CEILING, ())
    if not held:
        return
    found = [(one, summary(one, held)) for one in MEASURES if one.name in _TOLD]
    told = ", ".join(f"{one.name} {value:{one.form}}" for one, value in found if value)
    yield (
        f"The ceiling, leave-one-out by its second definition against the first, over {len(held)} "
        f"of {len(scored[EXACT])} answers: {told}. A method that is as close is not told from the "
        "truth."
    )
    yield from _distances(data_set, scored)
    yield _differences(scored)
    yield _above(held)


def with_second(scored: Scored) -> dict[str, list[Case]]:
    """Only the answers of which the second definition is known, and methods that have any."""
    known = {name: [one for one in held if one.second is not None] for name, held in scored.items()}
    return {name: held for name, held in known.items() if held}


def _distances(data_set: str, scored: Scored) -> Iterator[str]:
    """Which methods are told apart from the ceiling by their mAP."""
    if len(scored[CEILING]) < MIN_FOR_INTERVAL:
        yield "These are too few answers to tell a method's mAP from the ceiling's."
        return
    verdicts: dict[str, list[str]] = {"better": [], "no difference seen": [], "worse": []}
    second = {case.answered.key: case for case in scored[CEILING]}
    for name, held in scored.items():
        shared = ((second[one.answered.key], one) for one in held if one.answered.key in second)
        change = changed(data_set, name, _FAITHFULNESS, shared)
        if change is not None and name not in (EXACT, CEILING):
            verdicts[change.verdict].append(f"{name} ({change.difference.mean:+.3f})")
    better, same, worse = ("; ".join(names) or "none" for names in verdicts.values())
    yield (
        f"mAP less the ceiling's, over the answers that both have. Above it: {better}. Not told "
        f"apart from it: {same}. Below it: {worse}."
    )


def _above(held: Sequence[Case]) -> str:
    num_outliers = sum(len(case.outliers) for case in held)
    above = [len(outliers_above(case)) for case in held]
    second = [score for case in held for score in second_above(case)]
    return (
        f"In these answers {sum(above)} of {num_outliers} outliers, in {sum(map(bool, above))} "
        f"answers, are above {FACTOR:g} times the noise; so is the largest exact score of "
        f"{sum(map(is_clear, held))}. Of all {len(second)} exact scores above it, "
        f"{sum(score > 0 for score in second)} are positive by the second definition."
    )


def _differences(scored: Scored) -> str:
    """Quartiles for the ceiling and for the methods that score all sources in nats."""
    lines = [
        f"| {DIFFERENCE.name} | answers | lower quartile | median | upper quartile |",
        "|---" * 5 + "|",
    ]
    lines += [
        f"| {name} | {len(values)} | {' | '.join(f'{one:.2f}' for one in quartiles)} |"
        for name, values in _known(scored, DIFFERENCE)
        for quartiles in [np.quantile(values, (0.25, 0.5, 0.75))]
    ]
    return "\n".join(lines)


def _known(scored: Scored, measure: Measure) -> Iterator[tuple[str, list[float]]]:
    for name, held in with_second(scored).items():
        whole = [case for case in held if None not in case.found.scores]
        values = [value for case in whole if (value := measure.of(case)) is not None]
        if len(values) == len(held) and name != EXACT:
            yield name, values
