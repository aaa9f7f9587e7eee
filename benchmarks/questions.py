"""The files of questions that a benchmark reads: HotpotQA's and SQuAD's public JSON."""

from __future__ import annotations

import argparse
from pathlib import Path

DATA_SETS = ("hotpotqa", "squad")


def add_files(parser: argparse.ArgumentParser) -> None:
    for name in DATA_SETS:
        parser.add_argument(f"--{name}", type=Path, metavar="FILE")


def files(parser: argparse.ArgumentParser, options: argparse.Namespace) -> dict[str, Path]:
    """The files by data set; ends the program if there is none."""
    paths = {name: getattr(options, name) for name in DATA_SETS if getattr(options, name)}
    if not paths:
        parser.error("name a file with --hotpotqa or --squad")
    return paths
