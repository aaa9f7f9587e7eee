"""Scores in bfloat16 and float16 against those in float32.

    python -m benchmarks.dtypes ANSWERS.jsonl
    python -m benchmarks.dtypes ANSWERS.jsonl --dtypes float16 --count 4   # slow on most CPUs
    python -m benchmarks.dtypes ANSWERS.jsonl --model NAME_OR_PATH --device cuda --count 100

Logged answers (docs/batch.md) are scored by leave-one-out with the same model in each dtype. What
was scored is kept in `--output`, a line for each answer and dtype, and not scored again.
"""

from __future__ import annotations

import argparse
import json
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import spearmanr

from attribot_rag import Attribution, Attributor, load_model
from attribot_rag.batch.records import Record, parsed, read
from attribot_rag.model import DEFAULT_MODEL

REFERENCE = "float32"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("answers", type=Path, help="JSON lines, as docs/batch.md has them")
    add("--output", type=Path, default=Path("build/dtypes.jsonl"))
    add("--dtypes", nargs="+", default=["bfloat16", "float16"])
    add("--model", default=DEFAULT_MODEL)
    add("--device")
    add("--count", type=int, default=10)
    add("--method", default="leave_one_out")
    options = parser.parse_args()
    records = [Record.of(parsed(one)) for one in islice(read(options.answers), options.count)]
    options.output.parent.mkdir(parents=True, exist_ok=True)
    for dtype in (REFERENCE, *options.dtypes):
        score(records, dtype, options)
    print("| dtype | answers | Spearman | same best source | nats rms | largest | same verdicts |")
    print("|---|---|---|---|---|---|---|")
    known = kept(options.output)
    for dtype in options.dtypes:
        pairs = [(known[REFERENCE, i], known[dtype, i]) for i in range(len(records))]
        print(f"| {dtype} | {compared(pairs)} |")


def score(records: list[Record], dtype: str, options: argparse.Namespace) -> None:
    """Score in this dtype what is not kept yet, and keep it."""
    known = kept(options.output)
    lacking = [index for index in range(len(records)) if (dtype, index) not in known]
    if not lacking:
        return
    model = load_model(options.model, device=options.device, dtype=getattr(torch, dtype))
    attributor = Attributor(model, method=options.method, progress=False)
    chats = bool(model.tokenizer.chat_template)
    for index in lacking:
        one = records[index]
        found = attributor.attribute(
            one.read_prompt(chats=chats), one.response, one.read_documents()
        )
        line = {"dtype": dtype, "record": index, **told(found)}
        with options.output.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(f"{dtype}, answer {index}: {found.provenance.seconds:.0f} s", file=sys.stderr)


def told(attribution: Attribution) -> dict[str, Any]:
    return {
        "scores": [attribution.score(source.id) or 0.0 for source in attribution.sources],
        "verdicts": [verdict.kind for verdict in attribution.verdicts],
    }


def kept(path: Path) -> dict[tuple[str, int], dict[str, Any]]:
    lines = path.read_text().splitlines() if path.exists() else []
    return {(one["dtype"], one["record"]): one for one in map(json.loads, lines)}


def compared(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> str:
    """The cells of a row, of pairs in float32 and in another dtype."""
    scores: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = [
        (np.array(one["scores"]), np.array(other["scores"])) for one, other in pairs
    ]
    differences = np.concatenate([other - one for one, other in scores])
    cells = (
        f"{len(pairs)}, {len(differences)} sources",
        f"{np.mean([spearmanr(*both).statistic for both in scores]):.3f}",
        f"{sum(one.argmax() == other.argmax() for one, other in scores)}",
        f"{np.sqrt(np.mean(differences**2)):.3f}",
        f"{np.abs(differences).max():.3f}",
        f"{sum(one['verdicts'] == other['verdicts'] for one, other in pairs)}",
    )
    return " | ".join(cells)


if __name__ == "__main__":
    main()
