"""The report of an evaluation, in Markdown."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from attribot_rag.evaluation.grid import BASELINES, EXACT, NAIVE
from attribot_rag.evaluation.measures import (
    COSTS,
    MEASURES,
    Case,
    Measure,
    cases,
    group_correlation,
)
from attribot_rag.evaluation.metrics import Estimate, estimate
from attribot_rag.evaluation.pareto import Point, pareto_front
from attribot_rag.evaluation.results import Answered, Results

CAPTIONS = {
    "faithfulness_and_time": (
        "mAP against the outliers of exact leave-one-out, and median seconds. Filled: our methods; "
        "hollow: baselines."
    ),
    "scatter": (
        "Scores against exact ones, a point for each source that the method scored. On the line: "
        "equal, as those that `auto` scores exactly are."
    ),
    "outlier_recall": (
        "Which share of the outliers is among the best part of the sources; the rest of a curve "
        "that ends below 1 was not scored. Where there are many methods, one or two of each kind."
    ),
    "cost_and_context": (
        "Tokens that went through the model, an answer each. Similarity, which needs none, is not "
        "here."
    ),
}


def report(
    results: Results,
    command: str,
    figures: Sequence[Path],
    left_out: Sequence[str] = (),
) -> str:
    """Statistics, tables and plain words for every data set; `figures` are linked by name.

    `left_out` says what could not be measured, and why.
    """
    lines = [
        "# Evaluation",
        *_settings(results),
        f"    {command}",
        *_explanation(results),
    ]
    for data_set in data_sets(results):
        lines += [f"## {data_set}", *_of_data_set(results, data_set)]
    if left_out:
        lines += ["## Left out", "\n".join(f"- {one}" for one in left_out)]
    for path in figures:
        lines += [f"![{path.stem.replace('_', ' ')}]({path.name})", CAPTIONS.get(path.stem, "")]
    return "\n\n".join(lines) + "\n"


def _settings(results: Results) -> list[str]:
    """The model, the machines and the versions, each once."""
    held = results.settings
    if not held:
        return []
    machines = "; ".join(dict.fromkeys(f"{one.hardware}, {one.versions}" for one in held))
    return [f"Model {held[-1].model}. {machines}"]


def data_sets(results: Results) -> list[str]:
    return list(dict.fromkeys(_data_set(key) for key in results.answers))


def cases_of(results: Results, data_set: str, method: str) -> list[Case]:
    return [one for one in cases(results, method) if _data_set(one.answered.key) == data_set]


def comparable(results: Results, data_set: str) -> dict[str, list[Case]]:
    """What every method made of the same answers, timed on the same hardware.

    The hardware is that of most exact scores; methods with less than half as many answers as these
    are left out.
    """
    exact = cases_of(results, data_set, EXACT)
    if not exact:
        return {}
    hardware, count = Counter(case.found.hardware for case in exact).most_common(1)[0]
    by_method = {
        name: {
            case.answered.key: case
            for case in cases_of(results, data_set, name)
            if case.found.hardware == hardware
        }
        for name in results.methods()
        if name != NAIVE
    }
    held = {name: found for name, found in by_method.items() if 2 * len(found) >= count}
    shared = set.intersection(*map(set, held.values()))
    return {
        name: [case for key, case in found.items() if key in shared] for name, found in held.items()
    }


def points(compared: Mapping[str, Sequence[Case]]) -> dict[str, Point]:
    """Median seconds and mAP of every method."""
    found = {}
    for name, held in compared.items():
        faithfulness = summary(MEASURES[0], held)
        if faithfulness is not None:
            seconds = statistics.median(case.found.seconds for case in held)
            found[name] = Point(seconds, faithfulness.mean)
    return found


def summary(measure: Measure, held: Sequence[Case]) -> Estimate | None:
    """The mean with its interval, or the median without one."""
    known = [value for case in held if (value := measure.of(case)) is not None]
    if measure.cost and known:
        return Estimate(statistics.median(known), None, None, len(known))
    return estimate(known)


def _of_data_set(results: Results, data_set: str) -> Iterator[str]:
    answers = [one for key, one in results.answers.items() if _data_set(key) == data_set]
    exact = cases_of(results, data_set, EXACT)
    yield _statistics(answers)
    if not exact:
        yield f"Without '{EXACT}' there is nothing to compare with."
        return
    with_outliers = sum(bool(one.outliers) for one in exact)
    yield f"{_answers(len(exact))} with exact scores, {with_outliers} of them with outliers."
    correlation = estimate([group_correlation(one) for one in exact])
    if correlation is not None:
        yield (
            "Pearson correlation of the summed scores of a document's sources with the exact score "
            f"of the whole document: {correlation:.3f}."
        )
    by_method = {name: cases_of(results, data_set, name) for name in results.methods()}
    scored = {name: held for name, held in by_method.items() if held}
    yield _table({name: held for name, held in scored.items() if name != NAIVE}, MEASURES)
    yield from _costs(scored)
    yield from _plainly(comparable(results, data_set), scored)


def _costs(scored: Mapping[str, Sequence[Case]]) -> Iterator[str]:
    """A table for each machine, so that no median is over seconds of several."""
    machines = dict.fromkeys(case.found.hardware for held in scored.values() for case in held)
    for hardware in machines:
        if len(machines) > 1:
            yield f"Measured on {hardware or 'hardware that was not noted'}:"
        there = {
            name: [case for case in held if case.found.hardware == hardware]
            for name, held in scored.items()
        }
        yield _table({name: held for name, held in there.items() if held}, COSTS)


def _plainly(compared: Mapping[str, Sequence[Case]], scored: Collection[str]) -> Iterator[str]:
    """Which methods are worth their time, and which baselines beat ours."""
    found = points(compared)
    if not found:
        return
    count = len(compared[EXACT])
    names = "; ".join(pareto_front(found))
    yield f"On the Pareto front of mAP and seconds, over {_answers(count)} that all have: {names}."
    if left_out := [name for name in scored if name not in (*compared, NAIVE)]:
        yield (
            f"Not compared, being measured on other hardware or on few of the answers: "
            f"{'; '.join(left_out)}."
        )
    if not any(baseline in found for baseline in BASELINES):
        return
    beaten = [
        f"{baseline} beats {ours} (mAP {found[baseline].faithfulness:.3f} to "
        f"{found[ours].faithfulness:.3f}, {found[baseline].seconds:.2f} s to "
        f"{found[ours].seconds:.2f} s)"
        for baseline in BASELINES
        for ours in found
        if baseline in found and ours not in (EXACT, *BASELINES)
        if found[baseline].beats(found[ours])
    ]
    yield (
        "Where a baseline is at least as good as a method of ours in both, and better in one: "
        f"{'; '.join(beaten) or 'nowhere'}."
    )


def _statistics(answers: Sequence[Answered]) -> str:
    seconds = [one.seconds for one in answers if one.seconds is not None]
    cells = [
        str(len(answers)),
        f"{statistics.mean(len(one.documents) for one in answers):.1f}",
        f"{statistics.mean(len(set(one.documents)) for one in answers):.1f}",
        f"{statistics.mean(one.context_tokens for one in answers):,.0f}",
        f"{statistics.mean(one.prompt_tokens for one in answers):,.0f}",
        f"{statistics.mean(one.response_tokens for one in answers):.1f}",
        f"{statistics.mean(seconds):.2f}" if seconds else "–",
    ]
    return (
        "| examples | sources per example | groups | context tokens | prompt tokens "
        "| response tokens | generation, seconds |\n|---|---|---|---|---|---|---|\n"
        f"| {' | '.join(cells)} |"
    )


def _table(scored: Mapping[str, Sequence[Case]], measures: Sequence[Measure]) -> str:
    names = ["method", "answers", *(one.name for one in measures)]
    lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    columns = [
        {method: summary(measure, held) for method, held in scored.items()} for measure in measures
    ]
    most = [max((one.count for one in column.values() if one), default=0) for column in columns]
    for method, held in scored.items():
        cells = [
            _cell(column[method], measure.form, min(len(held), count))
            for measure, column, count in zip(measures, columns, most, strict=True)
        ]
        mark = "*" if any(one.found.extrapolated for one in held) else ""
        lines.append(f"| {' | '.join([method + mark, str(len(held)), *cells])} |")
    return "\n".join(lines)


def _cell(found: Estimate | None, form: str, usual: int) -> str:
    """With the number of answers if that is not the usual one."""
    if found is None:
        return "–"
    return format(found, form) + (f" ({found.count})" if found.count < usual else "")


def _explanation(results: Results) -> list[str]:
    return [
        "mAP and recall are against the outliers of exact leave-one-out (the paper's form of the "
        "ESD test, one-sided), over the answers that have any. Pearson and Spearman are against "
        "all its scores, a source without a score counting as 0. Evidence mAP is against what "
        "people marked. LDS is the linear datamodeling score over random ablations, top-k drop "
        "what the answer loses without a method's k best sources, where it scored as many. Means "
        "over answers with 95 % bootstrap intervals; costs are medians. In parentheses: over how "
        "many answers, where these are fewer than other methods have.",
        f"Seconds {clocks(results)} are those of a method from its scorer to its scores; "
        "generation's cache is taken over, unless the answer was given: then every method reads "
        "the prompt first. ContextCite's with few ablations are a part of those with more. Ratios "
        f"are medians of each answer's. '{NAIVE}'* is reckoned from three rows per answer, and "
        f"its scores are those of '{EXACT}'.",
    ]


def clocks(results: Results) -> str:
    """What the seconds are."""
    used = {one.clock for one in results.scores.values()}
    if used == {"cpu"}:
        return "of the processor, summed over threads,"
    return "of the wall clock" + " or of the processor (see the results)" * ("cpu" in used)


def _answers(count: int) -> str:
    return f"{count} answer{'s' * (count != 1)}"


def _data_set(key: str) -> str:
    return key.split("/", 1)[0]
