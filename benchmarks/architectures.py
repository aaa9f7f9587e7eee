"""Write the table of docs/evaluation/architectures.md: how each architecture is scored, and why.

python -m benchmarks.architectures
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

import torch
import transformers
from support.architectures import ARCHITECTURES, Architecture
from support.families import FAMILIES
from support.implementations import generation_for, plain_log_likelihoods

from attribot_rag.model.generation import Generation
from attribot_rag.scoring.local_backend import IMPLEMENTATIONS, LocalBackend
from attribot_rag.scoring.local_prefix import LocalPrefix, Reference
from attribot_rag.scoring.row import Row
from benchmarks import ROOT

PAGE = ROOT / "docs" / "evaluation" / "architectures.md"
NUM_SOURCE_TOKENS = 20
NUM_PROMPT_TOKENS = 10 * NUM_SOURCE_TOKENS + 20


def rows_without(generation: Generation, width: int, step: int) -> list[Row]:
    """Rows of the prompt without `width` tokens at every `step`."""
    prompt = generation.prompt_ids
    return [
        Row.for_prompt(prompt[:start] + prompt[start + width :], start, generation)
        for start in range(0, len(prompt) - width, step)
    ]


def tokens_read(backend: LocalBackend, kind: type[LocalPrefix], architecture: Architecture) -> int:
    """Of the full prompt, and of the prompt without each of ten documents."""
    generation = generation_for(replace(architecture, prompt_length=NUM_PROMPT_TOKENS))
    rows = rows_without(generation, NUM_SOURCE_TOKENS, NUM_SOURCE_TOKENS)
    full = Row.for_prompt(generation.prompt_ids, NUM_PROMPT_TOKENS, generation)
    implementation = backend.make(kind, generation)
    with torch.inference_mode():
        implementation.log_likelihoods([full, *rows])
    return implementation.prefilled_tokens + implementation.scored_tokens


def describe(architecture: Architecture) -> tuple[str, ...]:
    backend = LocalBackend(architecture.build())
    generation = generation_for(architecture)
    rows = rows_without(generation, 5, 7)
    implementation = backend.prefix_for(generation)
    with torch.inference_mode():
        scores = implementation.log_likelihoods(rows)
    model = architecture.build()
    truth = torch.stack([plain_log_likelihoods(model, generation, row) for row in rows])
    reasons = []
    for kind in IMPLEMENTATIONS:
        if kind.name == implementation.name:
            break
        reasons.append(f"{kind.name}: {backend.why_not(kind, generation)}")
    refusal = backend.why_no_masks(type(implementation), generation)
    read, most = (
        tokens_read(backend, kind, architecture) for kind in (type(implementation), Reference)
    )
    return (
        architecture.name,
        implementation.name,
        "; ".join(reasons),
        "yes" if refusal is None else f"no: {refusal}",
        f"{read / most:.2f}",
        f"{float((truth - scores).abs().max()):.0e}",
    )


def grouped(described: Iterable[tuple[str, ...]]) -> list[list[str]]:
    """One row for all architectures of a kind, with the largest of their differences."""
    kinds: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for name, *kind, difference in described:
        kinds.setdefault(tuple(kind), []).append((name, difference))
    return [
        [", ".join(name for name, _ in there), *kind, max((last for _, last in there), key=float)]
        for kind, there in kinds.items()
    ]


def main() -> None:
    rows = grouped(map(describe, (*ARCHITECTURES, *FAMILIES)))
    table = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    page = PAGE.read_text("utf-8")
    page = re.sub(r"(?<=transformers )[\d.]+(?=,)", transformers.__version__, page, count=1)
    page = re.sub(r"(?<=---\|\n)(\|.*\n)+", lambda _: table, page, count=1)
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
