"""The halves of a labelled set, one of which rules may be set by, and shares with intervals."""

from __future__ import annotations

import argparse
from typing import Literal

from scipy.stats import binomtest

Split = Literal["calibration", "held_out"]
SPLITS: tuple[Split, ...] = ("calibration", "held_out")


def add_halves(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--split", choices=SPLITS, default="calibration")
    parser.add_argument("--held-out-cases", action="store_true", help="print its wrong cases, too")


def shows_cases(options: argparse.Namespace) -> bool:
    """Whether wrong cases may be printed; those of the held-out half are not to set rules."""
    return options.split == "calibration" or bool(options.held_out_cases)


def share(count: int, total: int) -> str:
    """A share with Wilson's interval of 95 %."""
    if not total:
        return "–"
    low, high = binomtest(count, total).proportion_ci(method="wilson")
    return f"{count} of {total} ({count / total:.1%}; {low:.1%} to {high:.1%})"
