"""The report of an evaluation, in Markdown: its numbers, which `report.md.jinja` explains."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from attribot_rag.result.answer_text import escape_markdown
from benchmarks.experiment.comparison import Change, changed
from benchmarks.experiment.grid import BASELINES, CEILING, EXACT, NAIVE
from benchmarks.experiment.measures import (
    DIFFERENCE,
    FACTOR,
    FAITHFULNESS,
    SECONDS,
    TOKENS,
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

_MARKS = {"better": "↑", "worse": "↓"}
"""What follows a mAP that is told apart from the ceiling's."""


def report(
    results: ResultStore,
    command: str,
    figures: Sequence[Path],
    left_out: Sequence[str] = (),
) -> str:
    """Findings, a table for every data set, and text; `figures` are linked by name.

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
        machines=dict.fromkeys(setting.hardware for setting in settings),
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
    points = compared(by_method) if exact else {}
    hardware = _hardware(exact)
    return {
        "name": name,
        "finding": _finding(scored, points),
        "statistics": _statistics(answers),
        "num_answers": len(answers),
        "num_given": sum(answer.seconds is None for answer in answers),
        "num_exact": len(exact),
        "num_with_outliers": sum(bool(case.outliers) for case in exact),
        "correlation": estimate(list(map(group_correlation, exact))),
        "hardware": hardware,
        "table": _table(scored, _apart(name, scored), hardware),
        "ceiling": _ceiling(scored) if CEILING in scored else None,
        "front": pareto_front(points),
        "with_baselines": not points.keys().isdisjoint(BASELINES),
        "beaten": _beaten(points),
    }


def _finding(scored: CasesByMethod, points: Mapping[str, Point]) -> str:
    """The method that ranks most like exact leave-one-out, and the default beside it."""
    tokens = _column(TOKENS, scored)
    approximate = [name for name in points if name != EXACT]
    if not approximate:
        return ""
    best = max(approximate, key=lambda name: points[name].faithfulness)
    found = (
        f"The method `{best}` ranks the sources most like exact leave-one-out. Its mAP is "
        f"{points[best].faithfulness:.3f}, for {tokens[best]} tokens instead of {tokens[EXACT]}."
    )
    if "auto" in points and best != "auto":
        default = f"{points['auto'].faithfulness:.3f} for {tokens['auto']} tokens"
        found += f" The default, `auto`, has {default}."
    return found


def _beaten(points: Mapping[str, Point]) -> list[str]:
    """The baselines, each with the methods of ours that it beats."""
    beaten = []
    for name in BASELINES:
        worse = [
            other
            for other in points
            if name in points and other not in (EXACT, *BASELINES)
            if points[name].beats(points[other])
        ]
        if worse:
            beaten.append(f"{name} beats {', '.join(f'`{method}`' for method in worse)}")
    return beaten


def _apart(data_set: str, scored: CasesByMethod) -> dict[str, Change]:
    """How far each method's mAP is from the ceiling's, over the answers that both have."""
    second = {case.answered.key: case for case in scored.get(CEILING, ())}
    changes = {}
    for name, cases in scored.items():
        pairs = [(second[key], case) for case in cases if (key := case.answered.key) in second]
        change = changed(data_set, name, FAITHFULNESS, pairs)
        if change is not None and name not in (EXACT, CEILING):
            changes[name] = change
    return changes


def _ceiling(scored: CasesByMethod) -> dict[str, Any]:
    """Leave-one-out by its second definition against the first."""
    ceiling = scored[CEILING]
    above = [case.second[i] for case in ceiling if case.second for i in case.above_noise]
    return {
        "differences": _differences(scored),
        "num_outliers": sum(len(case.outliers) for case in ceiling),
        "num_outliers_above": sum(len(case.outliers & case.above_noise) for case in ceiling),
        "second_above": [score for score in above if score is not None],
    }


def _differences(scored: CasesByMethod) -> list[str]:
    """Quartiles for the ceiling, the default and masking, if all sources have scores."""
    found = []
    for name in (CEILING, "auto", "masked"):
        of_method = scored.get(name, ())
        cases = [case for case in of_method if case.second is not None]
        whole = [DIFFERENCE.of(case) for case in cases if None not in case.scored.scores]
        values = [value for value in whole if value is not None]
        if values and len(values) == len(cases):
            low, median, high = np.quantile(values, (0.25, 0.5, 0.75))
            found.append(f"{name} {median:.2f} ({low:.2f} to {high:.2f})")
    return found


def _statistics(answers: Sequence[AnswerRecord]) -> dict[str, str]:
    seconds = [answer.seconds for answer in answers if answer.seconds is not None]
    return {
        "sources": f"{mean(len(answer.documents) for answer in answers):.1f}",
        "groups": f"{mean(len(set(answer.documents)) for answer in answers):.1f}",
        "context": f"{mean(answer.context_tokens for answer in answers):,.0f}",
        "prompt": f"{mean(answer.prompt_tokens for answer in answers):,.0f}",
        "response": f"{mean(answer.response_tokens for answer in answers):.1f}",
        "generation": f"{mean(seconds):.2f}" if seconds else "–",
    }


def _hardware(exact: Sequence[MeasuredCase]) -> str:
    """The machine of most exact scores: the only one whose seconds are shown."""
    machines = Counter(case.scored.hardware for case in exact)
    return machines.most_common(1)[0][0] if machines else ""


def _table(scored: CasesByMethod, apart: Mapping[str, Change], hardware: str) -> str:
    """A row for each method; a column that would be empty is left out."""
    faithfulness = _column(FAITHFULNESS, scored, interval=True)
    marks = {name: _MARKS.get(change.verdict, "") for name, change in apart.items()}
    columns = {"mAP": {name: cell + marks.get(name, "") for name, cell in faithfulness.items()}}
    columns["tokens"] = _column(TOKENS, scored)
    there = {
        name: [case for case in cases if case.scored.hardware == hardware]
        for name, cases in scored.items()
    }
    columns["seconds"] = _column(SECONDS, there)
    columns = {name: cells for name, cells in columns.items() if set(cells.values()) != {"–"}}
    rows = []
    for method, cases in scored.items():
        mark = "*" if any(case.scored.extrapolated for case in cases) else ""
        mark += " (the ceiling)" * (method == CEILING)
        rows.append([method + mark, *(cells[method] for cells in columns.values())])
    return markdown_table(["method", *columns], rows)


def _column(measure: Measure, scored: CasesByMethod, *, interval: bool = False) -> dict[str, str]:
    values = {method: summary(measure, cases) for method, cases in scored.items()}
    usual = max((value.count for value in values.values() if value), default=0)
    return {method: _cell(value, measure.form, usual, interval) for method, value in values.items()}


def _cell(value: Estimate | None, form: str, usual: int, interval: bool) -> str:
    """The value, with its number of answers if these are fewer than usual."""
    if value is None:
        return "–"
    shown = f"{value:{form}}" if interval else f"{value.mean:{form}}"
    return shown + (f" ({value.count})" if value.count < usual else "")


def _clocks(results: ResultStore) -> str:
    used = {record.clock for record in results.scores.values()}
    if used == {"cpu"}:
        return "of the processor, summed over threads"
    return "of the wall clock" + " or of the processor (see the results)" * ("cpu" in used)


def _answers(count: int) -> str:
    return f"{count} answer{'s' * (count != 1)}"
