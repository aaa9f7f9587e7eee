"""The command `attribot-rag batch`."""

from __future__ import annotations

import argparse
from pathlib import Path

from attribot_rag.attributor import Attributor
from attribot_rag.language_model import LanguageModel
from attribot_rag.scoring import Budget


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments; imports nothing slow."""
    add = parser.add_argument
    add("input", type=Path, metavar="INPUT", help="a .jsonl or .parquet file of logged answers")
    add(
        "--output",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="where results, rejects and statistics go; the same command goes on from there",
    )
    add("--seconds", type=float, metavar="S", help="how long each attribution may take")


def batch(options: argparse.Namespace, language_model: LanguageModel, *, shown: bool) -> str:
    """Run or go on with a batch; the text for stdout. Raises InvalidInput for bad files."""
    from attribot_rag.batch.run import run_batch

    budget = None if options.seconds is None else Budget(seconds=options.seconds)
    attributor = Attributor(language_model, method=options.method, budget=budget, progress=False)
    return run_batch(attributor, options.input, options.output, shown=shown).to_text()
