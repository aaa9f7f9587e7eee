"""Write docs/architectures.md: how each architecture is scored, and why.

python benchmarks/architectures.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import transformers

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.architectures import ARCHITECTURES, VOCABULARY_SIZE, Architecture  # noqa: E402

from attribot_rag.generation import Generation  # noqa: E402
from attribot_rag.scoring.reference import Reference  # noqa: E402
from attribot_rag.scoring.row import Row  # noqa: E402
from attribot_rag.scoring.selection import IMPLEMENTATIONS, ScoringModels  # noqa: E402

RESPONSE_LENGTH = 6
INTRODUCTION = """\
# Which implementation each architecture gets

Written by `python benchmarks/architectures.py` with transformers {version}, from tiny models with
random weights in float32 (`tests/support/architectures.py`). `auto` takes the first of packed,
cropped and reference that neither the configuration nor a probe of the model rules out. The last
column is the largest difference to the reference, per response token, over prompts of {length}
tokens with a piece removed at every seventh position. "Masked" says whether a part of the prompt
can be hidden while everything else stays encoded, which makes `auto` and `masked` fast; where it
cannot, they remove it exactly or are refused.

| architecture | gets | why not a faster one | masked | largest difference (nats) |
|---|---|---|---|---|
"""


def describe(architecture: Architecture) -> tuple[str, ...]:
    models = ScoringModels(architecture.build())
    generator = torch.Generator().manual_seed(0)
    count = architecture.prompt_length + RESPONSE_LENGTH
    ids = tuple(torch.randint(3, VOCABULARY_SIZE, (count,), generator=generator).tolist())
    generation = Generation(ids[:-RESPONSE_LENGTH], ids[-RESPONSE_LENGTH:])
    prompt = generation.prompt_ids
    rows = [
        Row.exact(prompt[:start] + prompt[start + 5 :], start, generation)
        for start in range(0, len(prompt) - 5, 7)
    ]
    implementation = models.select("auto", generation)
    with torch.inference_mode():
        truth = models.make(Reference, generation).log_likelihoods(rows)
        found = implementation.log_likelihoods(rows)
    reasons = []
    for kind in IMPLEMENTATIONS:
        if kind.name == implementation.name:
            break
        reasons.append(f"{kind.name}: {models.refusal(kind, generation)}")
    refusal = models.masked_refusal(type(implementation), generation)
    masked = "yes" if refusal is None else f"no: {refusal}"
    difference = f"{float((truth - found).abs().max()):.0e}"
    return architecture.name, implementation.name, "; ".join(reasons), masked, difference


def table() -> str:
    introduction = INTRODUCTION.format(
        version=transformers.__version__, length=ARCHITECTURES[0].prompt_length
    )
    rows = (" | ".join(describe(architecture)) for architecture in ARCHITECTURES)
    return introduction + "".join(f"| {row} |\n" for row in rows)


if __name__ == "__main__":
    (ROOT / "docs" / "architectures.md").write_text(table(), encoding="utf-8")
