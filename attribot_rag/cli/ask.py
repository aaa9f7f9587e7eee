"""The command `attribot-rag ask`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text
from transformers import TextStreamer

from attribot_rag.attribution import Attribution, cite
from attribot_rag.attributor import Attributor
from attribot_rag.cli.terminal import encode_stdout, only_on_stderr
from attribot_rag.corpus.chunks import read_chunks, retrieve
from attribot_rag.display import print_counterfactual, print_table
from attribot_rag.display.escaping import on_one_line, visible
from attribot_rag.display.remarks import YOUR_FILES
from attribot_rag.errors import InvalidInput
from attribot_rag.model.language_model import LanguageModel
from attribot_rag.scoring import Budget


class _Writing(TextStreamer):
    """Tells how far the answer is written, and when it is."""

    def __init__(self, language_model: LanguageModel, tell: Callable[[str, str], None]) -> None:
        # `decode` has no type in common with a tokenizer there.
        tokenizer: Any = language_model.tokenizer
        super().__init__(tokenizer, skip_prompt=True, skip_special_tokens=True)
        self._tell = tell
        self._answer = ""

    def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
        self._answer += text
        self._tell("Checking where it comes from" if stream_end else "Writing", self._answer)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("question", help="what to ask")
    add("files", nargs="+", type=Path, metavar="FILES", help=".md, .txt and .pdf files, or folders")
    add("--verbose", action="store_true", help="show scores, and how they came about, too")
    add(
        "--top",
        type=_positive,
        default=5,
        metavar="N",
        help="sources to show with --verbose (default: 5)",
    )
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
        "a file (notes.md); without several of them: 1,2; may be given several times",
    )
    add("--html", type=Path, metavar="FILE", help="write a page that shows it, too")


def ask(options: argparse.Namespace, load: Callable[[], LanguageModel], *, shown: bool) -> None:
    """Answer the question and write the answer, and what caused it, to stdout.

    Args:
        load: gives the model, after the files are read.
        shown: whether the answer and the progress are shown on stderr.
    """
    if options.json and options.without:
        raise InvalidInput("--json prints only an attribution; leave out --json or --without")
    seconds: dict[str, float] = {}
    with only_on_stderr():
        attributor, attribution = _attributed(options, load, shown, seconds)
    if options.json:
        encode_stdout(encoding="utf-8")
        sys.stdout.write(attribution.to_json(indent=2) + "\n")
    else:
        encode_stdout(errors="replace")
        print_table(attribution, top=options.top * options.verbose, texts=YOUR_FILES)
    if options.html:
        page = attribution.to_html(question=options.question)
        try:
            options.html.write_text(page, encoding="utf-8")
        except OSError as error:
            raise InvalidInput(f"{options.html} cannot be written: {error.strerror}") from error
    if options.without:
        # The answer stands there already, whatever becomes of the answers without documents.
        with only_on_stderr():
            chosen = [_documents_called(name, attribution) for name in options.without]
            with _timed(seconds, "answers without documents"), _progress(shown) as tell:
                tell(f"Answering without {', '.join(options.without)}", "")
                answers = [attributor.answer_without(attribution, *indices) for indices in chosen]
        for counterfactual in answers:
            print_counterfactual(attribution, counterfactual)
    if not options.json:
        times = ", ".join(f"{name} {value:.2f} s" for name, value in seconds.items())
        total = f"{sum(seconds.values()):.1f} s"
        sys.stdout.write(f"{total}: {times}\n" if options.verbose else f"{total}\n")


def _attributed(
    options: argparse.Namespace,
    load: Callable[[], LanguageModel],
    shown: bool,
    seconds: dict[str, float],
) -> tuple[Attributor, Attribution]:
    budget = Budget(seconds=options.seconds)
    with _timed(seconds, "retrieval"):
        documents = retrieve(options.question, read_chunks(options.files), options.chunks)
    with _timed(seconds, "loading the model"):
        language_model = load()
    with _timed(seconds, "answer and attribution"), _progress(shown) as tell:
        tell(f"Reading {len(documents)} passages", "")
        attributor = Attributor(
            language_model,
            method=options.method,
            annotator=options.annotator,
            budget=budget,
            progress=False,
        )
        streamer: dict[str, Any] = {}
        if shown and not options.server:
            streamer["streamer"] = _Writing(language_model, tell)
        attribution = attributor.ask(
            options.question, documents, max_new_tokens=options.max_new_tokens, **streamer
        )
    return attributor, attribution


@contextmanager
def _progress(shown: bool) -> Iterator[Callable[[str, str], None]]:
    """Tells on stderr what is being done, and the answer so far, until it is done."""
    if not shown:
        yield lambda doing, answer: None
        return
    with Live(console=Console(stderr=True), transient=True) as live:

        def tell(doing: str, answer: str) -> None:
            spinner = Spinner("dots", Text(f"{on_one_line(doing)} ...", style="dim"))
            live.update(Group(Text(visible(answer)), spinner) if answer else spinner, refresh=True)

        yield tell


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


@contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    started = time.perf_counter()
    yield
    seconds[name] = time.perf_counter() - started


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)
