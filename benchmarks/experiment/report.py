"""The report of an evaluation, in Markdown: its numbers, which `report.md.jinja` explains."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from attribot_rag.result.escaping import escape_markdown
from benchmarks.experiment.comparison import changed
from benchmarks.experiment.grid import BASELINES, CEILING, EXACT, NAIVE
from benchmarks.experiment.measures import (
    ABOVE_NOISE,
    COSTS,
    DIFFERENCE,
    FACTOR,
    FAITHFULNESS,
    MEASURES,
    CasesByMethod,
    Measure,
    MeasuredCase,
    cases_by_method,
    group_correlation,
    summary,
)
from benchmarks.experiment.metrics import MIN_FOR_INTERVAL, Estimate, estimate
from benchmarks.experiment.pareto import Point, compared, pareto_front
from benchmarks.experiment.results import AnswerRecord, ResultStore
from benchmarks.experiment.tables import markdown_table

_SUMMARISED = ("mAP", "Pearson", "Spearman", "LDS")


def report(
    results: ResultStore,
    command: str,
    figures: Sequence[Path],
    left_out: Sequence[str] = (),
) -> str:
    """Statistics, tables and text for every data set; `figures` are linked by name.

    `left_out` are the reasons for missing measurements.
    """
    environment = Environment(
        loader=PackageLoader("benchmarks", "experiment"),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters.update(answers=_answers, markdown=escape_markdown)
    environment.globals.update(EXACT=EXACT, NAIVE=NAIVE, CEILING=CEILING)
    settings = results.settings
    text = environment.get_template("report.md.jinja").render(
        model=settings[-1].model if settings else "",
        machines=dict.fromkeys(f"{setting.hardware}, {setting.versions}" for setting in settings),
        command=command,
        methods=results.methods(),
        clock=_clocks(results),
        factor=f"{FACTOR:g}",
        few=MIN_FOR_INTERVAL,
        data_sets=[_data_set(results, name) for name in results.data_sets()],
        left_out=left_out,
        figures=figures,
    )
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def _data_set(results: ResultStore, name: str) -> dict[str, Any]:
    answers = [answer for answer in results.answers.values() if answer.data_set == name]
    by_method = cases_by_method(results, name)
    exact = by_method.get(EXACT, ())
    order = sorted(by_method, key=lambda method: method not in (EXACT, NAIVE, CEILING))
    scored = {method: by_method[method] for method in order if by_method[method]}
    faithful = {method: cases for method, cases in scored.items() if method != NAIVE}
    methods = compared(by_method)
    return {
        "name": name,
        "statistics": _statistics(answers),
        "num_answers": len(answers),
        "num_given": sum(answer.seconds is None for answer in answers),
        "num_exact": len(exact),
        "num_with_outliers": sum(bool(case.outliers) for case in exact),
        "correlation": estimate(list(map(group_correlation, exact))),
        "faithfulness": _table(faithful, MEASURES),
        "ceiling": _ceiling(name, faithful) if CEILING in scored else None,
        "costs": _costs(scored),
        "compared": methods,
        "front": pareto_front(methods.points),
        "not_compared": [
            method for method in scored if method not in (*methods.points, NAIVE, CEILING)
        ],
        "with_baselines": not methods.points.keys().isdisjoint(BASELINES),
        "beaten": _beaten(methods.points),
    }


def _costs(scored: CasesByMethod) -> dict[str, str]:
    """A table for each machine, so that no median is over seconds of several."""
    by_machine: dict[str, dict[str, list[MeasuredCase]]] = {}
    for name, cases in scored.items():
        for case in cases:
            by_machine.setdefault(case.scored.hardware, {}).setdefault(name, []).append(case)
    return {hardware: _table(there, COSTS) for hardware, there in by_machine.items()}


def _beaten(points: Mapping[str, Point]) -> list[str]:
    """The baselines that beat methods of ours."""
    return [
        f"{baseline} beats {ours} (mAP {points[baseline].faithfulness:.3f} to "
        f"{points[ours].faithfulness:.3f}, {points[baseline].seconds:.2f} s to "
        f"{points[ours].seconds:.2f} s)"
        for baseline in BASELINES
        for ours in points
        if baseline in points and ours not in (EXACT, *BASELINES)
        if points[baseline].beats(points[ours])
    ]


def _ceiling(data_set: str, scored: CasesByMethod) -> dict[str, Any]:
    """Leave-one-out by its second definition against the first."""
    ceiling = scored[CEILING]
    second = {case.answered.key: case for case in ceiling}
    apart: dict[str, list[str]] = {"better": [], "no difference seen": [], "worse": []}
    for name, cases in _only(scored, lambda case: case.answered.key in second).items():
        pairs = [(second[case.answered.key], case) for case in cases]
        change = changed(data_set, name, FAITHFULNESS, pairs)
        if change is not None and name not in (EXACT, CEILING):
            apart[change.verdict].append(f"{name} ({change.difference.mean:+.3f})")
    both = _only(scored, lambda case: case.second is not None)
    above = [case.second[i] for case in ceiling if case.second for i in case.above_noise]
    return {
        "num_answers": len(ceiling),
        "summary": ", ".join(
            f"{measure.name} {value:{measure.form}}"
            for measure in MEASURES
            if measure.name in _SUMMARISED and (value := summary(measure, ceiling))
        ),
        "apart": apart if len(ceiling) >= MIN_FOR_INTERVAL else None,
        "differences": _differences(both),
        "num_outliers": sum(len(case.outliers) for case in ceiling),
        "outliers_above": [len(case.outliers & case.above_noise) for case in ceiling],
        "num_clear": sum(bool(case.above_noise) for case in ceiling),
        "second_above": [score for score in above if score is not None],
        "above_noise": _table(both, ABOVE_NOISE),
    }


def _differences(scored: CasesByMethod) -> str:
    """A table of quartiles for the ceiling and the methods that score all sources in nats."""
    rows = []
    for name, cases in scored.items():
        whole = [DIFFERENCE.of(case) for case in cases if None not in case.scored.scores]
        values = [value for value in whole if value is not None]
        if len(values) == len(cases) and name != EXACT:
            quartiles = (f"{value:.2f}" for value in np.quantile(values, (0.25, 0.5, 0.75)))
            rows.append([name, str(len(values)), *quartiles])
    header = [DIFFERENCE.name, "answers", "lower quartile", "median", "upper quartile"]
    return markdown_table(header, rows)


def _only(scored: CasesByMethod, wanted: Callable[[MeasuredCase], bool]) -> CasesByMethod:
    """The wanted cases by method, without methods that have none."""
    chosen = {name: list(filter(wanted, cases)) for name, cases in scored.items()}
    return {name: cases for name, cases in chosen.items() if cases}


def _statistics(answers: Sequence[AnswerRecord]) -> str:
    seconds = [answer.seconds for answer in answers if answer.seconds is not None]
    columns = {
        "examples": str(len(answers)),
        "sources per example": f"{mean(len(answer.documents) for answer in answers):.1f}",
        "groups": f"{mean(len(set(answer.documents)) for answer in answers):.1f}",
        "context tokens": f"{mean(answer.context_tokens for answer in answers):,.0f}",
        "prompt tokens": f"{mean(answer.prompt_tokens for answer in answers):,.0f}",
        "response tokens": f"{mean(answer.response_tokens for answer in answers):.1f}",
        "generation, seconds": f"{mean(seconds):.2f}" if seconds else "–",
    }
    return markdown_table(list(columns), [list(columns.values())])


def _table(scored: CasesByMethod, measures: Sequence[Measure]) -> str:
    rows = []
    columns = [
        {method: summary(measure, cases) for method, cases in scored.items()}
        for measure in measures
    ]
    most = [
        max((value.count for value in column.values() if value), default=0) for column in columns
    ]
    for method, cases in scored.items():
        cells = [
            _cell(column[method], measure.form, len(cases) if measure.cost else count)
            for measure, column, count in zip(measures, columns, most, strict=True)
        ]
        mark = "*" if any(case.scored.extrapolated for case in cases) else ""
        mark += " (the ceiling)" * (method == CEILING)
        rows.append([method + mark, str(len(cases)), *cells])
    return markdown_table(["method", "answers", *(measure.name for measure in measures)], rows)


def _cell(value: Estimate | None, form: str, usual: int) -> str:
    """The value, with its number of answers if these are fewer than usual."""
    if value is None:
        return "–"
    return format(value, form) + (f" ({value.count})" if value.count < usual else "")


def _clocks(results: ResultStore) -> str:
    used = {record.clock for record in results.scores.values()}
    if used == {"cpu"}:
        return "of the processor, summed over threads,"
    return "of the wall clock" + " or of the processor (see the results)" * ("cpu" in used)


def _answers(count: int) -> str:
    return f"{count} answer{'s' * (count != 1)}"
