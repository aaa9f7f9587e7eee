"""The command `attribot-rag`: `ask`, and the commands of other installed packages."""

from __future__ import annotations

import argparse
import errno
import io
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NoReturn

from rich.console import Console
from rich.status import Status
from rich.text import Text
from transformers import TextStreamer
from transformers.utils import logging as transformers_logging

from attribot_rag._version import __version__
from attribot_rag.annotation import Annotator, NumbersInDocuments
from attribot_rag.attribution import Attribution, cite
from attribot_rag.attributor import Attributor
from attribot_rag.corpus import SUFFIXES, read_chunks, retrieve
from attribot_rag.display import print_counterfactual, print_table
from attribot_rag.errors import AttributionError, InvalidInput, installing
from attribot_rag.methods import METHODS
from attribot_rag.model import DEFAULT_MODEL, load_model
from attribot_rag.model.language_model import LanguageModel
from attribot_rag.model.served_model import ServedModel
from attribot_rag.result.answer_text import on_one_line, visible
from attribot_rag.result.remarks import YOUR_FILES
from attribot_rag.scoring import Budget

FAILED = 2
INTERRUPTED = 130
_UNWRITABLE = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS)
# The entry points of other packages' commands, and the packages of those that are known.
_GROUP = "attribot_rag.commands"
_PACKAGES = {"batch": "attribot-batch", "serve": "attribot-server"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns 0 or the command's own status, 2 after an error, 130 after Ctrl-C.

    Only the result goes to stdout. Progress and the one line of an error go to stderr.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    status = None
    try:
        options = _parser(_commands(*arguments[:1])).parse_args(arguments)
        shown = bool(options.progress) and sys.stderr.isatty()
        status = options.run(options, partial(_language_model, options, shown=shown), shown=shown)
        sys.stdout.flush()
    except AttributionError as error:
        return _failed(str(error))
    except ImportError as error:
        missing = str(error).rstrip(".")
        return _failed(f"{missing}: {installing('cli', 'embedded')}")
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader (head, less) has gone
        _discard_stdout()
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            raise
        _discard_stdout()
        return _failed(f"{error.filename or 'the output'} cannot be written: {error.strerror}")
    return status or 0


class _Parser(argparse.ArgumentParser):
    """Reports an error in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(FAILED, f"{self.prog}: {message}; {self.prog} --help tells how to use it\n")


def _failed(message: str) -> int:
    sys.stderr.write(f"attribot-rag: {_with_flags(on_one_line(message))}\n")
    return FAILED


def _language_model(options: argparse.Namespace, *, shown: bool) -> LanguageModel:
    """The model of --server, or the local one of --model."""
    if options.server:
        if not options.tokenizer:
            raise InvalidInput("--server needs --tokenizer: the model's folder or Hugging Face id")
        name = None if options.model == DEFAULT_MODEL else options.model
        return ServedModel.connect(options.server, options.tokenizer, model=name)
    if options.tokenizer:
        raise InvalidInput("--tokenizer is for --server; a local model has its own")
    sys.stderr.write(f"Loading {on_one_line(options.model)} ..." * shown)
    sys.stderr.flush()
    # The bar of the first conversion is written by tqdm, whatever transformers was told.
    with nullcontext() if shown else redirect_stderr(io.StringIO()):
        language_model = load_model(options.model, device=options.device)
    sys.stderr.write("\r\x1b[K" * shown)
    return language_model


def _commands(name: str = "") -> dict[str, Command]:
    """The command of this name; without a name, all installed commands.

    Raises InvalidInput if its package is not installed or cannot be imported. In the list of all
    commands, such a command is left out.
    """
    if name == "ask":
        return {"ask": _ASK}
    installed = {entry.name: entry for entry in entry_points(group=_GROUP)}
    if name in installed:
        return {name: _loaded(installed[name])}
    if name in _PACKAGES:
        package = _PACKAGES[name]
        raise InvalidInput(
            f"attribot-rag {name} needs another package: pip install {package}, or pip install "
            f"integrations/{package} in a clone of attribot-rag"
        )
    commands = {"ask": _ASK}
    for name in sorted(installed):
        try:
            commands[name] = _loaded(installed[name])
        except InvalidInput as error:
            _failed(str(error))
    return commands


def _loaded(entry: EntryPoint) -> Command:
    try:
        command: Command = entry.load()
    except (ImportError, AttributeError) as error:
        raise InvalidInput(
            f"the command {entry.name!r} cannot be imported from {entry.value}: {error}; install "
            "its package again, or remove it"
        ) from error
    return command


def _parser(commands: Mapping[str, Command]) -> argparse.ArgumentParser:
    parser = _Parser(
        prog="attribot-rag",
        description="Which sentences of your files made a local model give its answer.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    parsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, command in commands.items():
        command_parser = parsers.add_parser(
            name, help=command.summary, description=command.description
        )
        command.add_arguments(command_parser)
        command_parser.set_defaults(run=command.run)
        add = command_parser.add_argument
        add(
            "--server",
            metavar="URL",
            help="a vLLM or SGLang server that has the model; --model is then its name there",
        )
        add("--tokenizer", metavar="NAME", help="with --server: the model's folder, or hub id")
        add(
            "--method",
            default="auto",
            choices=METHODS,
            help="how sources are scored: %(choices)s (default: %(default)s)",
        )
        add(
            "--model",
            default=DEFAULT_MODEL,
            help="a folder with a model, a GGUF file, ollama:NAME for a model that Ollama has "
            "here, a Hugging Face id, or the embedded default: %(default)s",
        )
        add(
            "--annotator",
            type=_annotator,
            default=NumbersInDocuments(),
            metavar="MODULE:NAME",
            help="what checks the sentences, such as attribot_checks:ValueChecks (default: numbers "
            "that are in no document)",
        )
        add("--device", help="cpu, cuda, cuda:1, ... (default: CUDA if there is one)")
        add("--no-progress", dest="progress", action="store_false", help="no progress on stderr")
    return parser


def _annotator(place: str) -> Annotator:
    """The annotator of this name in a module. A class is called without arguments."""
    sys.path.append(str(Path.cwd()))  # where an installed command does not look for modules
    try:
        annotator = resolve_name(place)
        annotator = annotator() if isinstance(annotator, type) else annotator
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{place!r} cannot be loaded: {error}") from error
    if not isinstance(annotator, Annotator):
        raise argparse.ArgumentTypeError(f"{place!r} has no method annotate(sentences)")
    return annotator


@dataclass(frozen=True)
class Command:
    """A command of `attribot-rag`. A package has one as an entry point in `attribot_rag.commands`.

    Args:
        add_arguments: Adds the command's own arguments to its parser. All commands have the
            arguments that choose the model, the method and the annotator.
        run: Gets the options, a function that loads the model, and `shown`, whether to show
            progress. It writes its result to stdout and everything else to stderr. It may return
            the exit status.
        summary: The command in a line, for the list of commands.
        description: What it does, for its own help.
    """

    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[..., int | None]
    summary: str
    description: str


class _Writing(TextStreamer):
    """Shows the answer in the status line while the model writes it, and while it is checked."""

    def __init__(self, language_model: LanguageModel, status: Status) -> None:
        # `decode` has no type in common with a tokenizer there.
        tokenizer: Any = language_model.tokenizer
        super().__init__(tokenizer, skip_prompt=True, skip_special_tokens=True)
        self._status = status
        self._answer = ""

    def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
        self._answer += visible(text)
        doing = "Checking where it comes from" if stream_end else "Writing"
        self._status.update(Text(f"{self._answer}\n{doing} ..."))


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("question", help="what to ask")
    suffixes = ", ".join(SUFFIXES)
    add("files", nargs="+", type=Path, metavar="FILES", help=f"{suffixes} files, or folders")
    add("--verbose", action="store_true", help="show scores, and how they came about, too")
    add("--top", type=_positive, default=5, metavar="N", help="scores to show (default: 5)")
    add("--passages", type=_positive, default=4, metavar="N", help="how many to read (default: 4)")
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
        "a file (notes.md); without several together: 1,2; may be given several times",
    )
    add("--html", type=Path, metavar="FILE", help="write a page that shows it, too")


def ask(options: argparse.Namespace, load: Callable[[], LanguageModel], *, shown: bool) -> None:
    """Answer the question, and write the answer with its causes to stdout.

    Args:
        load: Returns the model. It is called after the files are read.
        shown: Whether to show the answer and the progress on stderr meanwhile.
    """
    if options.json and options.without:
        raise InvalidInput("--json prints only an attribution; leave out --json or --without")
    started = time.perf_counter()
    status = Console(stderr=True, force_terminal=shown, quiet=not shown).status
    with only_on_stderr():
        documents = retrieve(options.question, read_chunks(options.files), options.passages)
        language_model = load()
        attributor = Attributor(
            language_model,
            method=options.method,
            annotator=options.annotator,
            budget=Budget(seconds=options.seconds),
            progress=False,
        )
        with status(f"Reading {len(documents)} passages ...") as reading:
            # A server gives its answer at once.
            generate: dict[str, Any] = {"max_new_tokens": options.max_new_tokens}
            if not options.server:
                generate["streamer"] = _Writing(language_model, reading)
            attribution = attributor.ask(options.question, documents, **generate)
    if options.json:
        encode_stdout(encoding="utf-8")
        sys.stdout.write(attribution.to_json(indent=2) + "\n")
    else:
        encode_stdout(errors="replace")
        attribution = replace(attribution, notes=tuple(map(_with_flags, attribution.notes)))
        print_table(attribution, top=options.top * options.verbose, texts=YOUR_FILES)
    if options.html:
        page = attribution.to_html(question=options.question)
        try:
            options.html.write_text(page, encoding="utf-8")
        except OSError as error:
            raise InvalidInput(f"{options.html} cannot be written: {error.strerror}") from error
    # The answer stands there already, whatever becomes of the answers without documents.
    for indices in [_documents_called(name, attribution) for name in options.without]:
        with only_on_stderr(), status("Answering without a document ..."):
            counterfactual = attributor.answer_without(attribution, *indices)
        print_counterfactual(attribution, counterfactual)
    if not options.json:
        sys.stdout.write(f"{time.perf_counter() - started:.1f} s\n")


def _documents_called(name: str, attribution: Attribution) -> list[int]:
    """Indices of the documents with this number in the answer, or of the chunks of this file.

    `name` may list several, with commas between them.
    """
    numbers = cite(attribution).numbers
    indices = [
        index
        for index, document in enumerate(attribution.documents)
        if name in (str(numbers.get(index, "")), document.id, str(document.id).rpartition("#")[0])
    ]
    if not indices and "," in name:
        return [index for part in name.split(",") for index in _documents_called(part, attribution)]
    if not indices:
        cited = (f"{number} ({attribution.documents[i].id})" for i, number in numbers.items())
        not_cited = (str(d.id) for i, d in enumerate(attribution.documents) if i not in numbers)
        raise InvalidInput(
            f"--without {name}: no document in the prompt has this number or name; choose one of "
            f"{', '.join([*cited, *not_cited])}"
        )
    return indices


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


_ASK = Command(
    _add_arguments,
    ask,
    summary="answer a question from files, and show what caused the answer",
    description="Find passages of the files that fit the question, let a local model answer from "
    "them, and measure which of their sentences caused the answer.",
)


def _with_flags(message: str) -> str:
    """The message with the names of the library's options replaced by the command's flags."""
    return message.replace("max_new_tokens", "--max-new-tokens")


class _VisibleFormatter(logging.Formatter):
    """A formatter that shows control characters: a log line may contain a file name or a text."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))


@contextmanager
def only_on_stderr() -> Iterator[None]:
    """Redirect output to stderr, silence Transformers, and show warnings of the logs."""
    handler = logging.lastResort or logging.NullHandler()
    formatter = handler.formatter
    handler.setFormatter(_VisibleFormatter())
    verbosity = transformers_logging.get_verbosity()
    had_bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        handler.setFormatter(formatter)
        transformers_logging.set_verbosity(verbosity)
        if had_bars:
            transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def encode_stdout(*, encoding: str | None = None, errors: str | None = None) -> None:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding=encoding, errors=errors)


def _discard_stdout() -> None:
    """Redirect stdout, because Python would write the rest to it again when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
