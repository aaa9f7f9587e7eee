"""The command `attribot-rag evaluate`."""

from __future__ import annotations

import argparse
from pathlib import Path

from attribot_rag.errors import MissingExtra

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

    Raises InvalidInput for options and files that cannot be used, MissingExtra before anything is
    computed.
    """
    needed = ("matplotlib", "pyarrow", "sklearn", "sentence_transformers")
    MissingExtra.check("attribot-rag evaluate", "evaluation", *needed)
    from benchmarks.experiment.run import compare, run  # they import what is slow

    return compare(options.compare) if options.compare else run(options)
