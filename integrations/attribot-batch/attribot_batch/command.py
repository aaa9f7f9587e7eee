"""The command `attribot-rag batch`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from attribot_batch.records import MAX_BYTES
from attribot_batch.run import run_batch
from attribot_rag import Attributor, Budget, LanguageModel
from attribot_rag.cli import Command, encode_stdout, only_on_stderr

REJECTED = 3
"""The exit status if a record was rejected."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("input", type=Path, metavar="INPUT", help="a .jsonl or .parquet file of logged answers")
    add(
        "--output",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="the folder for results, rejects and statistics; the same command goes on from there",
    )
    add("--seconds", type=float, metavar="S", help="how long each attribution may take")
    add(
        "--workers",
        type=int,
        default=1,
        metavar="N",
        help="processes that attribute, each with the model and a share of the cores (default: 1)",
    )
    add(
        "--reader",
        action="store_true",
        help="the model only reads: others gave the answers (`answered_by` in a record names one)",
    )
    add(
        "--max-bytes",
        type=int,
        default=MAX_BYTES,
        metavar="N",
        help="a record with more bytes is rejected unread (default: %(default)s)",
    )
    add(
        "--fields",
        type=_fields,
        default={},
        metavar="NAME=PLACE,...",
        help="where the fields of a record are, if the file has other names: "
        "documents=retrieved_contexts,response=outputs.answer",
    )
    add(
        "--anyway",
        action="store_true",
        help="go on even if the folder has results of other settings or other records",
    )
    add("--report", action="store_true", help="also write the statistics as a page, report.html")
    add(
        "--parquet",
        action="store_true",
        help="also write all records as outcomes.parquet; needs pyarrow",
    )


def batch(options: argparse.Namespace, load: Callable[..., LanguageModel], *, shown: bool) -> int:
    """Run or continue a batch, and write its statistics. Returns 3 if records were rejected.

    Raises InvalidInput for bad files. `load` returns the model; several workers call it in their
    own processes.
    """
    load = partial(load, shown=shown and options.workers == 1)
    budget = Budget(seconds=options.seconds)
    chosen = {
        "method": options.method,
        "annotator": options.annotator,
        "is_reader": options.reader,
    }
    make = partial(_attributor, load, **chosen, budget=budget, progress=False)
    with only_on_stderr():
        statistics = run_batch(
            make,
            options.input,
            options.output,
            workers=options.workers,
            max_bytes=options.max_bytes,
            fields=options.fields,
            anyway=options.anyway,
            report=options.report,
            parquet=options.parquet,
            shown=shown,
        )
    encode_stdout(errors="replace")
    sys.stdout.write(statistics.to_text())
    return REJECTED if statistics.rejected else 0


def _fields(text: str) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in text.split(",")]
    for name, _, place in pairs:
        if not name or not place:
            raise argparse.ArgumentTypeError(f"{text!r} is not NAME=PLACE, with commas between")
    return {name: place for name, _, place in pairs}


def _attributor(load: Callable[[], LanguageModel], **options: Any) -> Attributor:
    return Attributor(load(), **options)


BATCH = Command(
    add_arguments,
    batch,
    summary="attribute the logged answers of a file",
    description="Attribute each answer of a log. Writes a summary for each answer, a reason for "
    "each record that cannot be attributed, and statistics. After a stop, the same command "
    "continues.",
)
