"""The command `attribot-rag evaluate`."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from attribot_rag.display.escaping import on_one_line
from attribot_rag.errors import InvalidInput

if TYPE_CHECKING:
    from attribot_rag.evaluation.example import Example
    from attribot_rag.evaluation.experiment import ExperimentOutcome
    from attribot_rag.evaluation.results import ResultStore

RESULTS = "results.jsonl"
_FORMATS = {
    "hotpotqa": "HotpotQA JSON (hotpot_dev_distractor_v1.json), or 'hub' to download it",
    "squad": "SQuAD 2.0 JSON (dev-v2.0.json), or 'hub'",
    "qasper": "QASPER JSON (qasper-train-v0.3.json), or 'hub'",
    "log": "JSON lines with question, documents, and perhaps answer, evidence and id",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments; imports nothing slow."""
    add = parser.add_argument
    for name, description in _FORMATS.items():
        add(f"--{name}", type=Path, action="append", default=[], metavar="FILE", help=description)
    add("--examples", type=int, default=20, metavar="N", help="drawn from each file (default: 20)")
    add("--minutes", type=float, metavar="M", help="begin nothing new after so many minutes")
    add(
        "--methods",
        nargs="+",
        metavar="NAME",
        help="such as auto, hierarchical or ContextCite, or 'all'; a wrong name lists them "
        "(default: one or two of each kind)",
    )
    add("--proxy", help="a smaller model, a folder or a Hugging Face id, for the proxy methods")
    add(
        "--template",
        default="attribot",
        help="the prompt: attribot (that of AttriBoT's scripts), context_cite, or short (that of "
        "`ask`); default: %(default)s",
    )
    add("--max-new-tokens", type=int, default=64, metavar="N", help="(default: %(default)s)")
    add(
        "--random",
        type=int,
        default=16,
        metavar="N",
        help="random ablations for the linear datamodeling score (default: %(default)s)",
    )
    add(
        "--clock",
        choices=("wall", "cpu"),
        default="wall",
        help="what seconds are: those that you wait, or those of the processor, summed over "
        "threads, which other work on the machine does not change (default: %(default)s)",
    )
    add("--seed", type=int, default=0, help="of the sample (default: %(default)s)")
    add(
        "--output",
        type=Path,
        default=Path("evaluation"),
        metavar="FOLDER",
        help="what was computed is kept there (default: %(default)s)",
    )
    add(
        "--compare",
        type=Path,
        nargs=2,
        metavar="RESULTS",
        help="say what got better or worse from one results.jsonl to another, and run nothing",
    )


def evaluate(options: argparse.Namespace) -> str:
    """Run the experiment or the comparison; the text for stdout.

    Raises InvalidInput for options and files that cannot be used.
    """
    from attribot_rag.evaluation.comparison import comparison
    from attribot_rag.evaluation.results import ResultStore

    if options.compare:
        paths = [path / RESULTS if path.is_dir() else path for path in options.compare]
        for path in paths:
            if not path.is_file():
                raise InvalidInput(f"{path} is no file; pass two {RESULTS}, or their folders")
        return comparison(*map(ResultStore, paths))
    examples, problems = _examples(options)
    for problem in problems:  # and again at the end of the run
        sys.stderr.write(f"{on_one_line(problem)}\n")
    if options.output.exists() and not options.output.is_dir():
        raise InvalidInput(f"--output {options.output} is no folder; name one")
    results = ResultStore(options.output / RESULTS)
    try:
        outcome, methods = _run(options, examples, results)
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
    written = _write(options, results.only(outcome.keys, methods), problems)
    return "\n".join([*problems, f"Written: {', '.join(map(str, written))}"]) + "\n"


def _examples(options: argparse.Namespace) -> tuple[list[Example], list[str]]:
    """Examples of all files in turn, so that an interrupted run has some of each; problems."""
    from attribot_rag.evaluation.data_sets import FORMATS, load, sample

    files = [(name, path) for name in _FORMATS for path in getattr(options, name)]
    if not files:
        names = ", ".join(f"--{name}" for name in _FORMATS)
        raise InvalidInput(f"no data; name at least one file with {names}")
    if twice := [path for (_, path), count in Counter(files).items() if count > 1]:
        raise InvalidInput(f"{twice[0]} is named twice; name every file once")
    if options.examples < 1:
        raise InvalidInput(f"--examples {options.examples}; use at least 1")
    loaded = [load(path, name) for name, path in files]
    drawn = [sample(one.examples, options.examples, options.seed) for one in loaded]
    problems = list(chain.from_iterable(one.problems for one in loaded))
    if problems:
        lines = "line was" if len(problems) == 1 else "lines were"
        problems.append(f"{len(problems)} bad {lines} left out.")
    problems += [
        f"{path}: fields that are not read: {', '.join(one.ignored)}"
        for one, (_, path) in zip(loaded, files, strict=True)
        if one.ignored
    ]
    sets = Counter([*FORMATS, *(path.stem for path in options.log)])
    if twice := [name for name, count in sets.items() if count > 1]:
        taken = f" (--{twice[0]} is one)" * (twice[0] in FORMATS)
        raise InvalidInput(
            f"two data sets of the name {twice[0]!r}{taken}; give the log's file another name"
        )
    keys = Counter(one.key for held in loaded for one in held.examples)
    if repeated := [key for key, count in keys.items() if count > 1]:
        raise InvalidInput(
            f"{len(repeated)} examples have the name of another, {repeated[0]!r} for one; the ids "
            "of a data set must differ, over all its files"
        )
    in_turn = chain.from_iterable(zip_longest(*drawn))
    return [example for example in in_turn if example is not None], problems


def _run(
    options: argparse.Namespace, examples: Sequence[Example], results: ResultStore
) -> tuple[ExperimentOutcome, dict[str, str]]:
    """The outcome, and the methods with their options."""
    from attribot_rag.evaluation.experiment import Experiment, ExperimentOptions
    from attribot_rag.evaluation.generation import GenerationOptions
    from attribot_rag.evaluation.grid import (
        DEFAULT,
        EXACT,
        NAIVE,
        method_description,
        methods,
        select_methods,
    )
    from attribot_rag.models import load_model
    from attribot_rag.progress import progress_bar

    generation = GenerationOptions(template=options.template, max_new_tokens=options.max_new_tokens)
    experiment_options = ExperimentOptions(
        generation=generation,
        num_random=options.random,
        minutes=options.minutes,
        clock=options.clock,
    )
    proxy = load_model(options.proxy, device=options.device) if options.proxy else None
    known = methods(proxy)
    wanted = set(
        select_methods(options.methods, known) if options.methods else known.keys() & set(DEFAULT)
    )
    try:
        options.output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"--output {options.output}: {error.strerror}") from error
    chosen = {name: known[name] for name in known if name in {EXACT, NAIVE, *wanted}}
    language_model = load_model(options.model, device=options.device)
    bar = progress_bar(
        shown=options.progress,
        doing="evaluating",
        unit="result",
        every=0.1 if sys.stderr.isatty() else 60,  # a file is to stay readable
    )
    with bar as progress:
        experiment = Experiment(language_model, chosen, results, experiment_options, progress)
        outcome = experiment.run(examples)
    return outcome, {name: method_description(method) for name, method in chosen.items()}


def _distinct_reasons(problems: Mapping[str, str]) -> Iterator[str]:
    """Each reason with the first key that has it, and the number of other keys."""
    for reason, count in Counter(problems.values()).items():
        first = next(key for key, other in problems.items() if other == reason)
        yield f"{first}: {reason}" if count == 1 else f"{first} and {count - 1} more: {reason}"


def _write(
    options: argparse.Namespace, results: ResultStore, problems: Sequence[str]
) -> Iterator[Path]:
    from attribot_rag.evaluation.figures import draw
    from attribot_rag.evaluation.report import report
    from attribot_rag.evaluation.tables import write_parquet

    yield results.path
    figures = draw(results, options.output)
    command = shlex.join(["attribot-rag", *options.arguments])
    path = options.output / "report.md"
    path.write_text(report(results, command, figures, problems), encoding="utf-8")
    yield from (path, *figures, write_parquet(results, options.output / "results.parquet"))
