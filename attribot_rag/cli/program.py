"""Runs the commands; they share the loading of the model and the form of errors."""

from __future__ import annotations

import argparse
import errno
import io
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, redirect_stderr
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from pkgutil import resolve_name
from typing import NoReturn

from attribot_rag._version import __version__
from attribot_rag.annotation import Annotator, NumbersInDocuments
from attribot_rag.cli.ask import ASK
from attribot_rag.cli.command import Command
from attribot_rag.cli.terminal import discard_stdout, with_flags
from attribot_rag.errors import AttributionError, InvalidInput, installing
from attribot_rag.methods import METHODS
from attribot_rag.model import DEFAULT_MODEL, load_model
from attribot_rag.model.language_model import LanguageModel
from attribot_rag.model.served_model import ServedModel
from attribot_rag.result.escaping import on_one_line

FAILED = 2
INTERRUPTED = 130
_UNWRITABLE = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS)
# The entry points of other packages' commands, and the packages of those that are known.
_GROUP = "attribot_rag.commands"
_PACKAGES = {"batch": "attribot-batch", "serve": "attribot-server"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status is 0 or its own, 2 after an error, 130 after Ctrl-C.

    Only the result goes to stdout. Progress, and an error's single line, go to stderr.
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
        discard_stdout()
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            raise
        discard_stdout()
        return _failed(f"{error.filename or 'the output'} cannot be written: {error.strerror}")
    return status or 0


class _Parser(argparse.ArgumentParser):
    """Tells of an error in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(FAILED, f"{self.prog}: {message}; {self.prog} --help tells how to use it\n")


def _failed(message: str) -> int:
    sys.stderr.write(f"attribot-rag: {with_flags(on_one_line(message))}\n")
    return FAILED


def _language_model(options: argparse.Namespace, *, shown: bool) -> LanguageModel:
    """The model of --server, or --model on this machine."""
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
    """The command of this name; if there is none, all that are installed.

    Raises InvalidInput for a command whose package is not installed, or cannot be imported; of all,
    such a one is left out.
    """
    if name == "ask":
        return {"ask": ASK}
    installed = {entry.name: entry for entry in entry_points(group=_GROUP)}
    if name in installed:
        return {name: _loaded(installed[name])}
    if name in _PACKAGES:
        package = _PACKAGES[name]
        raise InvalidInput(
            f"attribot-rag {name} needs another package: pip install {package}, or pip install "
            f"integrations/{package} in a clone of attribot-rag"
        )
    commands = {"ask": ASK}
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
            "that stand in no document)",
        )
        add("--device", help="cpu, cuda, cuda:1, ... (default: CUDA if there is one)")
        add("--no-progress", dest="progress", action="store_false", help="no progress on stderr")
    return parser


def _annotator(place: str) -> Annotator:
    """The annotator of this name in a module; a class is called without arguments."""
    sys.path.append(str(Path.cwd()))  # where an installed command does not look for modules
    try:
        annotator = resolve_name(place)
        annotator = annotator() if isinstance(annotator, type) else annotator
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{place!r} cannot be loaded: {error}") from error
    if not isinstance(annotator, Annotator):
        raise argparse.ArgumentTypeError(f"{place!r} has no method annotate(sentences)")
    return annotator
