"""A run of the command: from files of examples to a report, or from two results to a comparison."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from attribot_rag.errors import InvalidInput
from attribot_rag.methods import Method
from attribot_rag.model.local_model import LocalModel
from attribot_rag.result.answer_text import on_one_line
from attribot_rag.scoring.session import progress_bar
from benchmarks.experiment.comparison import comparison
from benchmarks.experiment.data_sets import FORMATS, load, sample
from benchmarks.experiment.example import Example
from benchmarks.experiment.experiment import Experiment, ExperimentOptions
from benchmarks.experiment.figures import draw
from benchmarks.experiment.grid import (
    DEFAULT,
    EXACT,
    NAIVE,
    method_description,
    methods,
    select_methods,
)
from benchmarks.experiment.report import report
from benchmarks.experiment.results import ResultStore
from benchmarks.experiment.tables import write_measures, write_parquet
from benchmarks.experiment.turned import Turned
from benchmarks.models import load_chat_model

RESULTS = "results.jsonl"


def compare(results: Sequence[Path]) -> str:
    """The comparison of two results, given as files or as their folders."""
    paths = [path / RESULTS if path.is_dir() else path for path in results]
    for path in paths:
        if not path.is_file():
            raise InvalidInput(f"{path} is not a file; pass two {RESULTS}, or their folders")
    return comparison(*map(ResultStore, paths))


def rewrite(options: argparse.Namespace) -> str:
    """Write the report of the results that are there, and all measures; the text for stdout."""
    path = options.output / RESULTS
    if not path.is_file():
        raise InvalidInput(f"{path} is not a file; name the folder of a run with --output")
    results = ResultStore(path)
    known = {record.method: record.options for record in results.scores.values()}
    ordered = {name: known[name] for name in (*methods(), *known) if name in known}
    every = results.only(results.answers, ordered)
    wanted = {EXACT, NAIVE, *select_methods(options.methods or ["all"], methods())}
    shown = every.only(every.answers, {name: ordered[name] for name in ordered if name in wanted})
    return f"Written: {', '.join(map(str, _write(options, shown, [], every)))}\n"


def run(options: argparse.Namespace) -> str:
    """Compute what is missing and write the report; the text for stdout."""
    experiment_options = ExperimentOptions(
        template=options.template,
        max_new_tokens=options.max_new_tokens,
        num_random=options.random,
        ablations=options.ablations,
        minutes=options.minutes,
        clock=options.clock,
    )
    examples, problems = _examples(options)
    for problem in problems:  # and again at the end of the run
        sys.stderr.write(f"{on_one_line(problem)}\n")
    if options.output.exists() and not options.output.is_dir():
        raise InvalidInput(f"--output {options.output} is not a folder; name one")
    results = ResultStore(options.output / RESULTS)
    proxy = load_chat_model(options.proxy, options.device) if options.proxy else None
    chosen = _methods(options, proxy)
    turned = _turned(options, proxy)
    try:
        options.output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"--output {options.output}: {error.strerror}") from error
    bar = progress_bar(
        shown=options.progress,
        doing="evaluating",
        unit="result",
        every=0.1 if sys.stderr.isatty() else 60,  # a file is to stay readable
    )
    try:
        language_model = load_chat_model(options.model, options.device)
        with bar as progress:
            experiment = Experiment(
                language_model, chosen, results, experiment_options, progress, turned
            )
            outcome = experiment.run(examples)
    except KeyboardInterrupt:
        if results.settings:
            kept = f"{results.path} keeps what was computed; the same command goes on."
            sys.stderr.write(f"Stopped. {kept}\n")
        raise
    problems += _distinct_reasons(outcome.problems)
    problems += [f"{name}: {reason}" for name, reason in outcome.unsupported.items()]
    if outcome.out_of_time:
        share = f"{len(outcome.keys)} of {len(examples)} examples"
        problems.append(f"The time was up with results of {share}; the same command goes on.")
    problems = [on_one_line(problem) for problem in problems]
    described = {name: method_description(method) for name, method in chosen.items()}
    shown = results.only(outcome.keys, described)
    written = _write(options, shown, problems, shown)
    return "\n".join([*problems, f"Written: {', '.join(map(str, written))}"]) + "\n"


def _examples(options: argparse.Namespace) -> tuple[list[Example], list[str]]:
    """Examples of all files in turn, so that an interrupted run has some of each; problems."""
    files = [(name, path) for name in (*FORMATS, "log") for path in getattr(options, name)]
    if not files:
        names = ", ".join(f"--{name}" for name in (*FORMATS, "log"))
        raise InvalidInput(f"no data; name at least one file with {names}")
    if repeated := _repeated(files):
        raise InvalidInput(f"{repeated[0][1]} is named twice; name every file once")
    if options.examples < 1:
        raise InvalidInput(f"--examples {options.examples}; use at least 1")
    loaded = [load(path, name) for name, path in files]
    drawn = [sample(file.examples, options.examples, options.seed) for file in loaded]
    problems = list(chain.from_iterable(file.problems for file in loaded))
    if problems:
        lines = "line was" if len(problems) == 1 else "lines were"
        problems.append(f"{len(problems)} bad {lines} left out.")
    problems += [
        f"{path}: fields that are not read: {', '.join(file.ignored)}"
        for file, (_, path) in zip(loaded, files, strict=True)
        if file.ignored
    ]
    if same := _repeated([*FORMATS, *(path.stem for path in options.log)]):
        is_format = f" (--{same[0]} is one)" if same[0] in FORMATS else ""
        raise InvalidInput(
            f"two data sets of the name {same[0]!r}{is_format}; give the log's file another name"
        )
    if keys := _repeated(example.key for file in loaded for example in file.examples):
        raise InvalidInput(
            f"{len(keys)} examples have the name of another, for example {keys[0]!r}; the "
            "ids of a data set must be unique over all its files"
        )
    in_turn = chain.from_iterable(zip_longest(*drawn))
    return [example for example in in_turn if example is not None], problems


def _repeated(values: Iterable[Any]) -> list[Any]:
    """The values that are there more than once."""
    return [value for value, count in Counter(values).items() if count > 1]


def _turned(options: argparse.Namespace, proxy: LocalModel | None) -> Turned | None:
    if options.turned is None:
        return None
    if proxy is None:
        raise InvalidInput(f"--turned {options.turned} needs --proxy, the model of its results")
    results = ResultStore(options.turned / RESULTS)
    return Turned(results, proxy, options.template, options.max_new_tokens)


def _methods(options: argparse.Namespace, proxy: LocalModel | None) -> dict[str, Method]:
    """The wanted methods by name, and leave-one-out, with which they are compared."""
    available = methods(proxy)
    wanted = select_methods(options.methods, available) if options.methods else DEFAULT
    return {name: available[name] for name in available if name in {EXACT, NAIVE, *wanted}}


def _distinct_reasons(problems: Mapping[str, str]) -> Iterator[str]:
    """Each reason with the first key that has it, and the number of other keys."""
    for reason, count in Counter(problems.values()).items():
        first = next(key for key, other in problems.items() if other == reason)
        yield f"{first}: {reason}" if count == 1 else f"{first} and {count - 1} more: {reason}"


def _write(
    options: argparse.Namespace,
    results: ResultStore,
    problems: Sequence[str],
    measured: ResultStore,
) -> Iterator[Path]:
    yield results.path
    figures = draw(results, options.output)
    command = shlex.join(["python", "-m", "benchmarks.experiment", *options.arguments])
    path = options.output / "report.md"
    path.write_text(report(results, command, figures, problems), encoding="utf-8")
    yield from (path, *figures, write_measures(measured, options.output / "measures.csv"))
    yield write_parquet(results, options.output / "results.parquet")
