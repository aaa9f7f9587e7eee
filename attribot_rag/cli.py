"""The command `attribot-rag`: ask, batch, evaluate, serve."""

from __future__ import annotations

import argparse
import errno
import io
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

from transformers import TextStreamer
from transformers.utils import logging as transformers_logging

from attribot_rag._version import __version__
from attribot_rag.attribution import Attribution, Counterfactual, cite
from attribot_rag.attributor import Attributor
from attribot_rag.batch import command as batches
from attribot_rag.corpus.chunks import read_chunks, retrieve
from attribot_rag.display import print_counterfactual, print_table
from attribot_rag.display.escaping import on_one_line, visible
from attribot_rag.errors import AttributionError, InvalidInput
from attribot_rag.evaluation import command
from attribot_rag.methods import BASELINES, METHODS
from attribot_rag.model import DEFAULT_MODEL, load_model
from attribot_rag.model.language_model import LanguageModel
from attribot_rag.model.served_model import ServedModel
from attribot_rag.scoring import Budget
from attribot_rag.serving import command as serving

FAILED = 2
INTERRUPTED = 130
_FULL = (errno.ENOSPC, errno.EFBIG)


class _ShownAnswer(TextStreamer):
    """Shows an answer on stderr while the model writes it."""

    def __init__(self, language_model: LanguageModel) -> None:
        # What decodes has no type in common with a tokenizer there.
        tokenizer: Any = language_model.tokenizer
        super().__init__(tokenizer, skip_prompt=True, skip_special_tokens=True)

    def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
        sys.stderr.write(visible(text) + "\n" * stream_end)
        sys.stderr.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status is 0, 2 after an error, 130 after Ctrl-C.

    Only the result goes to stdout. Progress, and an error's single line, go to stderr.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    options = _parser().parse_args(given)
    options.arguments = given
    try:
        options.run(options)
        sys.stdout.flush()
    except AttributionError as error:
        return _failed(str(error))
    except ImportError as error:
        missing = str(error).rstrip(".")
        return _failed(f"{missing}: pip install 'attribot-rag[cli,embedded,evaluation,serve]'")
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader (head, less) has gone
        _discard_stdout()
    except OSError as error:
        if error.errno not in _FULL:
            raise
        _discard_stdout()
        return _failed(f"{error.filename or 'the output'} cannot be written: {error.strerror}")
    return 0


def _discard_stdout() -> None:
    """Python would write what is left to it once more when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _evaluate(options: argparse.Namespace) -> None:
    with redirect_stdout(sys.stderr), _quiet_transformers():
        said = command.evaluate(options)
    _encode_stdout(errors="replace")
    sys.stdout.write(said)


def _ask(options: argparse.Namespace) -> None:
    if options.json and options.without:
        raise InvalidInput("--json prints only an attribution; leave out --json or --without")
    seconds: dict[str, float] = {}
    with redirect_stdout(sys.stderr), _quiet_transformers():
        attributor, attribution = _attributed(options, seconds)
    if options.json:
        _encode_stdout(encoding="utf-8")
        sys.stdout.write(attribution.to_json(indent=2) + "\n")
    else:
        _encode_stdout(errors="replace")
        sys.stdout.write("\n")
        print_table(attribution, top=options.top)
    if options.html:
        try:
            options.html.write_text(
                attribution.to_html(question=options.question), encoding="utf-8"
            )
        except OSError as error:
            raise InvalidInput(f"{options.html} cannot be written: {error.strerror}") from error
    if options.without:
        # The answer stands there already, whatever becomes of others.
        with redirect_stdout(sys.stderr), _quiet_transformers():
            without = _answers_without(attributor, attribution, options.without, seconds)
        for counterfactual in without:
            sys.stdout.write("\n")
            print_counterfactual(attribution, counterfactual)
        sys.stdout.write("\n")
    if not options.json:
        took = ", ".join(f"{name} {value:.2f} s" for name, value in seconds.items())
        sys.stdout.write(f" {took}\n\n")


def _serve(options: argparse.Namespace) -> None:
    with redirect_stdout(sys.stderr), _quiet_transformers():
        serving.serve(options)


def _batch(options: argparse.Namespace) -> None:
    with redirect_stdout(sys.stderr), _quiet_transformers():
        shown = options.progress and sys.stderr.isatty()
        load = partial(_language_model, options, shown=shown and options.workers == 1)
        said = batches.batch(options, load, shown=shown)
    _encode_stdout(errors="replace")
    sys.stdout.write(said)


def _language_model(options: argparse.Namespace, *, shown: bool) -> LanguageModel:
    """The model of --server, or --model on this machine."""
    if options.server:
        if not options.tokenizer:
            raise InvalidInput("--server needs --tokenizer: the model's folder or Hugging Face id")
        name = None if options.model == DEFAULT_MODEL else options.model
        return ServedModel.connect(options.server, options.tokenizer, model=name)
    if options.tokenizer:
        raise InvalidInput("--tokenizer is for --server; a local model has its own")
    if shown:
        sys.stderr.write(f"Loading {on_one_line(options.model)} ...\n")
    # The bar of the first conversion is written by tqdm, whatever transformers was told.
    loading = nullcontext() if shown else redirect_stderr(io.StringIO())
    with loading:
        return load_model(options.model, device=options.device)


def _attributed(
    options: argparse.Namespace, seconds: dict[str, float]
) -> tuple[Attributor, Attribution]:
    progress = options.progress and sys.stderr.isatty()
    budget = None if options.seconds is None else Budget(seconds=options.seconds)
    with _timed(seconds, "retrieval"):
        documents = retrieve(options.question, read_chunks(options.files), options.chunks)
    with _timed(seconds, "loading the model"):
        language_model = _language_model(options, shown=progress)
    with _timed(seconds, "answer and attribution"):
        attributor = Attributor(
            language_model, method=options.method, budget=budget, progress=progress
        )
        watched: dict[str, Any] = {}
        if progress and not options.server:
            watched["streamer"] = _ShownAnswer(language_model)
        attribution = attributor.ask(
            options.question,
            documents,
            max_new_tokens=options.max_new_tokens,
            **watched,
        )
    return attributor, attribution


def _answers_without(
    attributor: Attributor,
    attribution: Attribution,
    names: Sequence[str],
    seconds: dict[str, float],
) -> list[Counterfactual]:
    chosen = [_documents_called(name, attribution) for name in names]
    with _timed(seconds, "answers without documents"):
        return [attributor.answer_without(attribution, *one) for one in chosen]


def _documents_called(name: str, attribution: Attribution) -> list[int]:
    """Indices of the documents that have this number in the answer, or are chunks of this file."""
    numbers = cite(attribution).numbers
    found = [
        index
        for index, document in enumerate(attribution.documents)
        if name in (str(numbers.get(index, "")), document.id, str(document.id).rpartition("#")[0])
    ]
    if not found:
        cited = (f"{number} ({attribution.documents[i].id})" for i, number in numbers.items())
        others = (str(d.id) for i, d in enumerate(attribution.documents) if i not in numbers)
        raise InvalidInput(
            f"--without {name}: no document in the prompt has this number or name; choose one of "
            f"{', '.join([*cited, *others])}"
        )
    return found


@contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    started = time.perf_counter()
    yield
    seconds[name] = time.perf_counter() - started


@contextmanager
def _quiet_transformers() -> Iterator[None]:
    verbosity = transformers_logging.get_verbosity()
    had_bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        if had_bars:
            transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def _encode_stdout(*, encoding: str | None = None, errors: str | None = None) -> None:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding=encoding, errors=errors)


def _failed(message: str) -> int:
    sys.stderr.write(f"attribot-rag: {on_one_line(message)}\n")
    return FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="attribot-rag",
        description="Which sentences of your files made a local model give its answer.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    ask = commands.add_parser(
        "ask",
        help="answer a question from files, and show what caused the answer",
        description="Retrieve chunks of the files that fit the question, let a local model answer "
        "from them, and measure which of their sentences caused the answer.",
    )
    add = ask.add_argument
    ask.set_defaults(run=_ask)
    add("question", help="what to ask")
    add("files", nargs="+", type=Path, metavar="FILES", help=".md, .txt and .pdf files, or folders")
    add("--top", type=_positive, default=5, metavar="N", help="sources to show (default: 5)")
    add("--chunks", type=_positive, default=4, metavar="K", help="chunks to retrieve (default: 4)")
    add(
        "--max-new-tokens",
        type=_positive,
        default=128,
        metavar="N",
        help="tokens of the answer at most (default: 128)",
    )
    add("--seconds", type=float, metavar="S", help="how long the attribution may take")
    add("--json", action="store_true", help="print the attribution as JSON and nothing else")
    add(
        "--without",
        action="append",
        default=[],
        metavar="DOCUMENT",
        help="answer again without a document: its number in the answer, its name (notes.md#2), or "
        "a file (notes.md); may be given several times",
    )
    add("--html", type=Path, metavar="FILE", help="write a page that shows it, too")
    logged = commands.add_parser(
        "batch",
        help="attribute the logged answers of a file, however many they are",
        description="Attribute each answer of a log and write a summary for each, the records that "
        "cannot be attributed with the reason, and statistics. What was done is kept: the same "
        "command goes on where it was stopped.",
    )
    batches.add_arguments(logged)
    logged.set_defaults(run=_batch)
    for one in (ask, logged):
        one.add_argument(
            "--server",
            metavar="URL",
            help="a vLLM or SGLang server that has the model; --model is then its name there",
        )
        one.add_argument(
            "--tokenizer", metavar="NAME", help="with --server: the model's folder, or hub id"
        )
    evaluation = commands.add_parser(
        "evaluate",
        help="compare attribution methods on a data file",
        description="Let a local model answer questions, score every answer by every method, "
        "compare with exact leave-one-out, and write a report with figures. What was computed is "
        "kept: the same command goes on where it was stopped.",
    )
    command.add_arguments(evaluation)
    evaluation.set_defaults(run=_evaluate)
    service = commands.add_parser(
        "serve",
        help="attribute answers for programs in any language, over HTTP",
        description="POST /attribute takes a prompt, a response and documents, POST /ask a "
        "question; both give JSON. The page at / asks and shows what caused the answer.",
    )
    serving.add_arguments(service)
    service.set_defaults(run=_serve)
    for one in (ask, logged, service):
        one.add_argument(
            "--method",
            default="auto",
            choices=METHODS | BASELINES,
            help="how sources are scored: %(choices)s (default: %(default)s)",
        )
    for one in (ask, logged, evaluation, service):
        add = one.add_argument
        add(
            "--model",
            default=DEFAULT_MODEL,
            help="a folder with a model, a Hugging Face id, or the embedded default: %(default)s",
        )
        add("--device", help="cpu, cuda, cuda:1, ... (default: CUDA if there is one)")
        add("--no-progress", dest="progress", action="store_false", help="no progress on stderr")
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)
