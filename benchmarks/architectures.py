"""Write docs/evaluation/architectures.md: how each architecture is scored, and why.

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
from support.families import FAMILIES  # noqa: E402
from support.implementations import RESPONSE_LENGTH, plain_log_likelihoods  # noqa: E402

from attribot_rag.model.generation import Generation  # noqa: E402
from attribot_rag.scoring.base import TwinImplementation  # noqa: E402
from attribot_rag.scoring.implementations.reference import Reference  # noqa: E402
from attribot_rag.scoring.implementations.selection import IMPLEMENTATIONS, ScoringModels  # noqa: E402
from attribot_rag.scoring.row import Row  # noqa: E402

NUM_SOURCE_TOKENS = 20
NUM_PROMPT_TOKENS = 10 * NUM_SOURCE_TOKENS + 20
INTRODUCTION = """\
# Which implementation each architecture gets

Written by `python benchmarks/architectures.py` with transformers {version}, from tiny models with
random weights in float32 (`tests/support/architectures.py`, `families.py`). `auto` takes the first
of packed, cropped and reference that neither the configuration nor a probe of the model rules out.
The difference is the largest to a plain forward pass of the model over each row, per response
token, over prompts of {length} tokens, longer than every window, with five tokens removed at every
seventh position. Tokens read are those of the prompt, and of the prompt without each of ten
documents of {source} tokens, as a share of what the reference reads; longer documents and a
recorded cache make it less. "Masked" says whether a part of the prompt can be hidden while
everything else stays encoded, which makes `auto` and `masked` fast; where it cannot, they remove
it exactly or are refused.

| architecture | gets | why not a faster one | masked | tokens read | largest difference (nats) |
|---|---|---|---|---|---|
"""
QUANTIZED = """
## Quantized weights

A tiny llama in float32, quantized while it is loaded, on a CPU (`make test-quantized`). Scores are
within 1e-3 nats of plain forward passes of the quantized model itself; twins share the quantized
weights and what their layers keep beside them.

| scheme | tried | gets | masked |
|---|---|---|---|
| torchao, int8 weights | 0.18.0 | packed | yes |
| torchao, int8 weights and activations | 0.18.0 | reference | no |
| optimum-quanto, int8 and int4 weights | 0.2.7 | packed | yes |
| bitsandbytes, nf4, double quantization | 0.50.2 | packed | yes |
| bitsandbytes, int8, `llm_int8_threshold=0.0` | 0.50.2 | packed | yes |
| bitsandbytes, int8, the default threshold | 0.50.2 | refused | no |
| GGUF, `gguf_file=` | gguf 0.19.0 | as any model | as any model |

Where activations are rounded, noise in the last bit grows: probes differ by 0.04 to 0.07 nats.
bitsandbytes' 8 bits round by the outliers of all tokens, so that later tokens change the numbers of
earlier ones, here by 0.1 to 0.2 nats: in float32 that is refused with a message that names
`llm_int8_threshold`; in half precision, whose tolerance is 0.25 nats, it is packed. Of a GGUF file
transformers restores the weights in float while it loads them: the embedded model is one.
"""


def rows_without(generation: Generation, width: int, step: int) -> list[Row]:
    """Rows of the prompt without `width` tokens at every `step`."""
    prompt = generation.prompt_ids
    return [
        Row.exact(prompt[:start] + prompt[start + width :], start, generation)
        for start in range(0, len(prompt) - width, step)
    ]


def random_generation(num_prompt_tokens: int) -> Generation:
    generator = torch.Generator().manual_seed(0)
    count = num_prompt_tokens + RESPONSE_LENGTH
    ids = tuple(torch.randint(3, VOCABULARY_SIZE, (count,), generator=generator).tolist())
    return Generation(ids[:-RESPONSE_LENGTH], ids[-RESPONSE_LENGTH:])


def tokens_read(models: ScoringModels, kind: type[TwinImplementation]) -> int:
    """Of the full prompt, and of the prompt without each of ten documents."""
    generation = random_generation(NUM_PROMPT_TOKENS)
    rows = rows_without(generation, NUM_SOURCE_TOKENS, NUM_SOURCE_TOKENS)
    full = Row.exact(generation.prompt_ids, NUM_PROMPT_TOKENS, generation)
    implementation = models.make(kind, generation)
    with torch.inference_mode():
        implementation.log_likelihoods([full, *rows])
    return implementation.prefilled_tokens + implementation.scored_tokens


def describe(architecture: Architecture) -> tuple[str, ...]:
    models = ScoringModels(architecture.build())
    generation = random_generation(architecture.prompt_length)
    rows = rows_without(generation, 5, 7)
    implementation = models.select("auto", generation)
    with torch.inference_mode():
        found = implementation.log_likelihoods(rows)
    model = architecture.build()
    truth = torch.stack([plain_log_likelihoods(model, generation, row) for row in rows])
    reasons = []
    for kind in IMPLEMENTATIONS:
        if kind.name == implementation.name:
            break
        reasons.append(f"{kind.name}: {models.refusal(kind, generation)}")
    refusal = models.masked_refusal(type(implementation), generation)
    read = tokens_read(models, type(implementation)) / tokens_read(models, Reference)
    return (
        architecture.name,
        implementation.name,
        "; ".join(reasons),
        "yes" if refusal is None else f"no: {refusal}",
        f"{read:.2f}",
        f"{float((truth - found).abs().max()):.0e}",
    )


def table() -> str:
    introduction = INTRODUCTION.format(
        version=transformers.__version__,
        length=ARCHITECTURES[0].prompt_length,
        source=NUM_SOURCE_TOKENS,
    )
    rows = (" | ".join(describe(architecture)) for architecture in (*ARCHITECTURES, *FAMILIES))
    return introduction + "".join(f"| {row} |\n" for row in rows) + QUANTIZED


if __name__ == "__main__":
    (ROOT / "docs" / "evaluation" / "architectures.md").write_text(table(), encoding="utf-8")
