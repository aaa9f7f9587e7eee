"""Scores in bfloat16 and float16 against those in float32.

    python -m benchmarks.dtypes ANSWERS.jsonl
    python -m benchmarks.dtypes ANSWERS.jsonl --model NAME_OR_PATH --device cuda --count 100

Logged answers (docs/batch.md) are scored by leave-one-out with the same model in each dtype.
"""

from __future__ import annotations

import argparse
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import spearmanr

from attribot_rag import Attribution, Attributor, load_model
from attribot_rag.batch.records import Record, parsed, read
from attribot_rag.models import DEFAULT_MODEL

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("answers", type=Path, help="JSON lines, as docs/batch.md has them")
    add("--model", default=DEFAULT_MODEL)
    add("--device")
    add("--count", type=int, default=10)
    add("--method", default="leave_one_out")
    options = parser.parse_args()
    records = [Record.of(parsed(one)) for one in islice(read(options.answers), options.count)]
    found = {
        dtype: attributed(records, options.model, options.device, dtype, options.method)
        for dtype in DTYPES
    }
    print("| dtype | Spearman | same best source | nats rms | largest | same verdicts |")
    print("|---|---|---|---|---|---|")
    for dtype in DTYPES[1:]:
        pairs = list(zip(found[torch.float32], found[dtype], strict=True))
        scores = [(totals(one), totals(other)) for one, other in pairs]
        differences = np.concatenate([other - one for one, other in scores])
        print(
            f"| {str(dtype).removeprefix('torch.')} "
            f"| {np.mean([spearmanr(*both).statistic for both in scores]):.3f} "
            f"| {sum(one.argmax() == other.argmax() for one, other in scores)} of {len(scores)} "
            f"| {np.sqrt(np.mean(differences**2)):.3f} | {np.abs(differences).max():.3f} "
            f"| {sum(kinds(one) == kinds(other) for one, other in pairs)} of {len(pairs)} |"
        )
    num_sources = sum(len(one.sources) for one in found[torch.float32])
    print(f"\n{len(records)} answers, {num_sources} sources, {options.model}")


def attributed(
    records: list[Record], model: str, device: str | None, dtype: torch.dtype, method: str
) -> list[Attribution]:
    attributor = Attributor(
        load_model(model, device=device, dtype=dtype), method=method, progress=False
    )
    chats = bool(attributor.language_model.tokenizer.chat_template)
    return [
        attributor.attribute(one.read_prompt(chats=chats), one.response, one.read_documents())
        for one in records
    ]


def totals(attribution: Attribution) -> NDArray[np.float64]:
    return np.array([attribution.score(source.id) or 0.0 for source in attribution.sources])


def kinds(attribution: Attribution) -> list[str]:
    return [verdict.kind for verdict in attribution.verdicts]


if __name__ == "__main__":
    main()
