"""Attribution methods compared on a data file, with a report and figures.

    python -m benchmarks.experiment --log mine.jsonl --methods auto masked

A local model answers the questions, every method scores each answer, and all are compared with
exact leave-one-out. What was computed is kept: the same command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from attribot_rag.cli import encode_stdout, only_on_stderr
from attribot_rag.errors import AttributionError, InvalidInput
from attribot_rag.model import DEFAULT_MODEL
from attribot_rag.result.answer_text import on_one_line

PROGRAM = "python -m benchmarks.experiment"
FAILED = 2
INTERRUPTED = 130

_FORMATS = {
    "hotpotqa": "HotpotQA JSON (hotpot_dev_distractor_v1.json), or 'hub' to download it",
    "squad": "SQuAD 2.0 JSON (dev-v2.0.json), or 'hub'",
    "qasper": "QASPER JSON (qasper-train-v0.3.json), or 'hub'",
    "log": "JSON lines with question, documents, and perhaps answer, evidence and id",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status is 0, 2 after an error, 130 after Ctrl-C.

    Only the result goes to stdout. Progress, and an error's single line, go to stderr.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    options = _parser().parse_args(words)
    options.arguments = words
    try:
        with only_on_stderr():
            text = _result(options)
    except AttributionError as error:
        sys.stderr.write(f"{PROGRAM}: {on_one_line(str(error))}\n")
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    encode_stdout(errors="replace")
    sys.stdout.write(text)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
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
        "--turned",
        type=Path,
        metavar="FOLDER",
        help="results of a run with --model and --proxy the other way round: its answers are "
        "scored, and what it has of leave-one-out by both models is not computed again",
    )
    add(
        "--template",
        default="attribot",
        help="the prompt: attribot (that of AttriBoT's scripts), context_cite, or short (that of "
        "`attribot-rag ask`); default: %(default)s",
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
        "--no-ablations",
        dest="ablations",
        action="store_false",
        help="scores only: nothing is removed together to judge them, such as their best sources",
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
        "--report",
        action="store_true",
        help="write the report of the results in --output anew, and run nothing",
    )
    add(
        "--compare",
        type=Path,
        nargs=2,
        metavar="RESULTS",
        help="say what got better or worse from one results.jsonl to another, and run nothing",
    )
    add(
        "--model",
        default=DEFAULT_MODEL,
        help="a folder with a model, a GGUF file, a Hugging Face id, or the embedded default: "
        "%(default)s",
    )
    add("--device", help="cpu, cuda, cuda:1, ... (default: CUDA if there is one)")
    add("--no-progress", dest="progress", action="store_false", help="no progress on stderr")
    return parser


def _result(options: argparse.Namespace) -> str:
    """Run the experiment or the comparison; the text for stdout.

    Raises InvalidInput for options and files that cannot be used, and for missing packages before
    anything is computed.
    """
    needed = ("matplotlib", "pyarrow", "sklearn", "sentence_transformers")
    if missing := [name for name in needed if find_spec(name) is None]:
        raise InvalidInput(
            f"the experiment needs {', '.join(missing)}: pip install --group experiment in a "
            "clone of attribot-rag (pip 25.1 or newer), or make install"
        )
    from benchmarks.experiment.run import compare, rewrite, run  # which import these packages

    if options.compare:
        return compare(options.compare)
    return rewrite(options) if options.report else run(options)


if __name__ == "__main__":
    sys.exit(main())
