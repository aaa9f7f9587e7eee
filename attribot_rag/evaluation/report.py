"""The report of an evaluation, in Markdown."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from statistics import mean

from attribot_rag.display.escaping import escape_markdown
from attribot_rag.evaluation.ceiling import ceiling, with_second
from attribot_rag.evaluation.grid import BASELINES, CEILING, EXACT, NAIVE
from attribot_rag.evaluation.measures import (
    ABOVE_NOISE,
    COSTS,
    FACTOR,
    MEASURES,
    CasesByMethod,
    Measure,
    cases_by_method,
    group_correlation,
    summary,
)
from attribot_rag.evaluation.metrics import MIN_FOR_INTERVAL, Estimate, estimate
from attribot_rag.evaluation.pareto import Compared, compared, pareto_front
from attribot_rag.evaluation.results import AnswerRecord, ResultStore
from attribot_rag.evaluation.tables import markdown_table

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
    results: ResultStore,
    command: str,
    figures: Sequence[Path],
    left_out: Sequence[str] = (),
) -> str:
    """Statistics, tables and text for every data set; `figures` are linked by name.

    `left_out` are the reasons for missing measurements.
    """
    lines = [
        "# Evaluation",
        *_settings(results),
        f"    {command}",
        *_explanation(results),
    ]
    for data_set in results.data_sets():
        lines += [f"## {data_set}", *_of_data_set(results, data_set)]
    if left_out:
        lines += ["## Left out", "\n".join(f"- {escape_markdown(one)}" for one in left_out)]
    for path in figures:
        lines += [f"![{path.stem.replace('_', ' ')}]({path.name})", CAPTIONS.get(path.stem, "")]
    return "\n\n".join(lines) + "\n"


def _settings(results: ResultStore) -> list[str]:
    """The model, the distinct machines and the versions."""
    settings = results.settings
    if not settings:
        return []
    machines = dict.fromkeys(f"{setting.hardware}, {setting.versions}" for setting in settings)
    return [f"Model {settings[-1].model}. {'; '.join(machines)}"]


def _of_data_set(results: ResultStore, data_set: str) -> Iterator[str]:
    answers = [one for one in results.answers.values() if one.data_set == data_set]
    by_method = cases_by_method(results, data_set)
    exact = by_method.get(EXACT)
    yield _statistics(answers)
    if given := sum(one.seconds is None for one in answers):
        yield f"{given} of {_answers(len(answers))} given, not generated here."
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
    names = sorted(by_method, key=lambda name: name not in (EXACT, NAIVE, CEILING))
    scored = {name: by_method[name] for name in names if by_method[name]}
    faithful = {name: held for name, held in scored.items() if name != NAIVE}
    yield _table(faithful, MEASURES)
    if CEILING in scored:
        yield from ceiling(data_set, faithful)
        yield _table(with_second(faithful), ABOVE_NOISE)
    yield from _costs(scored)
    yield from _plainly(compared(by_method), scored)


def _costs(scored: CasesByMethod) -> Iterator[str]:
    """A table for each machine, so that no median is over seconds of several."""
    machines = dict.fromkeys(case.scored.hardware for held in scored.values() for case in held)
    for hardware in machines:
        if len(machines) > 1:
            yield f"Measured on {hardware or 'hardware that was not noted'}:"
        there = {
            name: [case for case in held if case.scored.hardware == hardware]
            for name, held in scored.items()
        }
        yield _table({name: held for name, held in there.items() if held}, COSTS)


def _plainly(methods: Compared, scored: Collection[str]) -> Iterator[str]:
    """The Pareto front, and the baselines that beat methods of ours."""
    points = methods.points
    if not points:
        return
    over = f"over {_answers(methods.num_scored)} that all have"
    if methods.num_timed < methods.num_scored:
        over += f" (seconds over the {methods.num_timed} on {methods.hardware})"
    yield f"On the Pareto front of mAP and seconds, {over}: {'; '.join(pareto_front(points))}."
    if left_out := [name for name in scored if name not in (*points, NAIVE, CEILING)]:
        yield (
            f"Not compared, being measured on other hardware or on few of the answers: "
            f"{'; '.join(left_out)}."
        )
    if not any(baseline in points for baseline in BASELINES):
        return
    beaten = [
        f"{baseline} beats {ours} (mAP {points[baseline].faithfulness:.3f} to "
        f"{points[ours].faithfulness:.3f}, {points[baseline].seconds:.2f} s to "
        f"{points[ours].seconds:.2f} s)"
        for baseline in BASELINES
        for ours in points
        if baseline in points and ours not in (EXACT, *BASELINES)
        if points[baseline].beats(points[ours])
    ]
    yield (
        "Where a baseline is at least as good as a method of ours in both, and better in one: "
        f"{'; '.join(beaten) or 'nowhere'}."
    )
    if methods.num_scored < MIN_FOR_INTERVAL:
        yield "These are few answers: others may say otherwise."


def _statistics(answers: Sequence[AnswerRecord]) -> str:
    seconds = [one.seconds for one in answers if one.seconds is not None]
    columns = {
        "examples": str(len(answers)),
        "sources per example": f"{mean(len(one.documents) for one in answers):.1f}",
        "groups": f"{mean(len(set(one.documents)) for one in answers):.1f}",
        "context tokens": f"{mean(one.context_tokens for one in answers):,.0f}",
        "prompt tokens": f"{mean(one.prompt_tokens for one in answers):,.0f}",
        "response tokens": f"{mean(one.response_tokens for one in answers):.1f}",
        "generation, seconds": f"{mean(seconds):.2f}" if seconds else "–",
    }
    return markdown_table(list(columns), [list(columns.values())])


def _table(scored: CasesByMethod, measures: Sequence[Measure]) -> str:
    rows = []
    columns = [
        {method: summary(measure, held) for method, held in scored.items()} for measure in measures
    ]
    most = [max((one.count for one in column.values() if one), default=0) for column in columns]
    for method, held in scored.items():
        cells = [
            _cell(column[method], measure.form, len(held) if measure.cost else count)
            for measure, column, count in zip(measures, columns, most, strict=True)
        ]
        mark = "*" if any(one.scored.extrapolated for one in held) else ""
        mark += " (the ceiling)" * (method == CEILING)
        rows.append([method + mark, str(len(held)), *cells])
    return markdown_table(["method", "answers", *(one.name for one in measures)], rows)


def _cell(value: Estimate | None, form: str, usual: int) -> str:
    """The value, with its number of answers if these are fewer than usual."""
    if value is None:
        return "–"
    return format(value, form) + (f" ({value.count})" if value.count < usual else "")


def _explanation(results: ResultStore) -> Iterator[str]:
    yield (
        "mAP and recall are against the outliers of exact leave-one-out (the paper's form of the "
        "ESD test, one-sided), over the answers that have any. Pearson and Spearman are against "
        "all its scores, a source without a score counting as 0. Evidence mAP is against what "
        "people marked. LDS is the linear datamodeling score over random ablations, top-k drop "
        "what the answer loses without a method's k best sources, where it scored as many. Means "
        "over answers with 95 % bootstrap intervals; costs are medians. In parentheses: over how "
        "many answers, where these are fewer than another method's or the row's, and so not to be "
        "compared with the rest of the column."
    )
    if CEILING in results.methods():
        yield _noise_explained()
    yield (
        f"Seconds {clocks(results)} are those of a method from its scorer to its scores; "
        "generation's cache is taken over, unless the answer was given: then every method reads "
        "the prompt first. ContextCite's with few ablations are a part of those with more. Ratios "
        f"are medians of each answer's. '{NAIVE}'* is reckoned from three rows per answer, and "
        f"its scores are those of '{EXACT}'."
    )


def _noise_explained() -> str:
    return (
        f"'{CEILING}' is leave-one-out by a second definition: the source is hidden and all that "
        "follows it is encoded again at its old positions, where removing it moves all that "
        "follows to others. An answer's noise is the root mean square difference of the two over "
        f"its sources, in nats. mAP above noise is over the outliers with an exact score of more "
        f"than {FACTOR:g} times the noise. Captured nats are the exact scores of a method's k best "
        "sources over the largest sum that k can have, over the answers whose largest exact score "
        "is above the noise by as much."
    )


def clocks(results: ResultStore) -> str:
    """The clock of the seconds, in words."""
    used = {one.clock for one in results.scores.values()}
    if used == {"cpu"}:
        return "of the processor, summed over threads,"
    return "of the wall clock" + " or of the processor (see the results)" * ("cpu" in used)


def _answers(count: int) -> str:
    return f"{count} answer{'s' * (count != 1)}"
