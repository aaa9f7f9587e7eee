"""The command `attribot-rag ask`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.status import Status
from rich.text import Text
from transformers import TextStreamer

from attribot_rag.attribution import Attribution, cite
from attribot_rag.attributor import Attributor
from attribot_rag.cli.command import Command
from attribot_rag.cli.terminal import encode_stdout, only_on_stderr, with_flags
from attribot_rag.corpus import read_chunks, retrieve
from attribot_rag.display import print_counterfactual, print_table
from attribot_rag.errors import InvalidInput
from attribot_rag.model.language_model import LanguageModel
from attribot_rag.result.escaping import visible
from attribot_rag.result.remarks import YOUR_FILES
from attribot_rag.scoring import Budget


class _Writing(TextStreamer):
    """Shows an answer in the status while the model writes it, and while it is checked."""

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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("question", help="what to ask")
    add("files", nargs="+", type=Path, metavar="FILES", help=".md, .txt and .pdf files, or folders")
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
    """Answer the question; write the answer and its causes to stdout.

    Args:
        load: gives the model, after the files are read.
        shown: whether the answer and the progress are shown on stderr until it is done.
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
        attribution = replace(attribution, notes=tuple(map(with_flags, attribution.notes)))
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
    """Indices of the documents that have this number in the answer, or are chunks of this file.

    Of several, with a comma between them, those of each.
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


ASK = Command(
    add_arguments,
    ask,
    summary="answer a question from files, and show what caused the answer",
    description="Find passages of the files that fit the question, let a local model answer from "
    "them, and measure which of their sentences caused the answer.",
)
