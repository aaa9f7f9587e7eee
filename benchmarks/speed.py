"""Attribution against generation, by every implementation and some methods, on real prompts.

    python -m benchmarks.speed HOTPOTQA.json --model NAME_OR_PATH --device cuda --dtype bfloat16

Prompts are HotpotQA's (ten titled paragraphs, a question) with the model's own greedy answer, whose
cache is taken over. `reference` and `cropped` score some sources only; their seconds are
extrapolated to all. Random weights, with nothing to download: `python -m benchmarks.gpu`.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import PreTrainedModel

from attribot_rag import load_model
from attribot_rag.errors import UnsupportedModel
from attribot_rag.methods import Auto, LeaveOneOut, Masked, Method, Patching
from attribot_rag.methods.limits import Limits
from attribot_rag.model.local_model import model_here
from attribot_rag.scoring import LocalBackend
from benchmarks.experiment.data_sets import load
from benchmarks.experiment.generation import GeneratedAnswer, answer_question, prepare
from benchmarks.experiment.setting import hardware
from benchmarks.experiment.tables import markdown_table
from benchmarks.models import add_model
from benchmarks.stopwatch import Stopwatch

# An implementation and a method; the number of sources that are scored, None for all.
WAYS: dict[str, tuple[str, Method, int | None]] = {
    "reference": ("reference", LeaveOneOut(), 4),
    "cropped": ("cropped", LeaveOneOut(), 8),
    "packed": ("packed", LeaveOneOut(), None),
    "masked": ("packed", Masked(), None),
    "patching": ("packed", Patching(), None),
    "auto": ("packed", Auto(Limits(min_sought=-math.inf)), None),  # whatever matters
}


@dataclass(frozen=True)
class Measured:
    """Seconds for all sources, also as a share of generation's; of what was done: tokens, the
    share of a large matrix product's throughput that linear layers reach, bytes."""

    seconds: float
    of_generation: float
    tokens: int
    throughput: float
    bytes: int


def measure(way: str, answer: GeneratedAnswer, backend: LocalBackend, peak: float) -> Measured:
    """Raises UnsupportedModel where this way does not take the model."""
    implementation, method, limit = WAYS[way]
    scorer = answer.scorer(backend, implementation)
    count = len(scorer.units)
    if limit is not None and limit < count:
        places = sorted({int((number + 0.5) * count / limit) for number in range(limit)})
        scorer = scorer.narrowed([scorer.units[place] for place in places])
    with Stopwatch(scorer.language_model.device) as watch:
        method.run(scorer)
    assert answer.seconds is not None
    usage = scorer.usage
    seconds = watch.seconds * (count + 1) / (len(scorer.units) + 1)
    linear = linear_parameters(model_here(scorer.language_model))
    flops = 2.0 * linear * (usage.tokens + usage.backward_tokens)
    throughput = flops / watch.seconds / peak
    return Measured(seconds, seconds / answer.seconds, usage.tokens, throughput, watch.bytes)


def measured(answers: Sequence[GeneratedAnswer]) -> dict[str, list[Measured]]:
    """The measurements of each way that takes the model, answer by answer."""
    language_model = answers[0].question.language_model
    backend = LocalBackend(language_model.model)
    peak = matrix_throughput(language_model.dtype, language_model.device)
    results: dict[str, list[Measured]] = {}
    for way in WAYS:
        try:
            measure(way, answers[0], backend, peak)  # warms up
            results[way] = []
        except UnsupportedModel as error:
            print(f"{way}: {error}")
    for answer in answers:
        for way, of_way in results.items():
            of_way.append(measure(way, answer, backend, peak))
    return results


def matrix_throughput(dtype: torch.dtype, device: torch.device) -> float:
    """FLOPs a second of a large matrix product: the best of several."""
    size = 8192 if device.type == "cuda" else 1024
    matrix = torch.randn(size, size, device=device, dtype=dtype)
    seconds = []
    for _ in range(10):
        with Stopwatch(device) as watch:
            matrix @ matrix
        seconds.append(watch.seconds)
    return 2.0 * size**3 / min(seconds)


def linear_parameters(model: PreTrainedModel) -> int:
    """Of the layers, without embeddings and head."""
    modules = model.base_model.modules()
    return sum(layer.weight.numel() for layer in modules if isinstance(layer, torch.nn.Linear))


def table(results: Mapping[str, Sequence[Measured]]) -> str:
    """Medians over the answers, and the most memory."""

    def faster(way: str, than: str) -> str:
        pairs = zip(results[than], results[way], strict=True)
        return f"{statistics.median(slow.seconds / fast.seconds for slow, fast in pairs):.2f}"

    rows = []
    for way, of_way in results.items():
        columns = ([getattr(row, name) for row in of_way] for name in Measured.__annotations__)
        seconds, shares, tokens, throughput, memory = columns
        cells = (
            f"{statistics.median(seconds):.3f}",
            f"{statistics.median(shares):.3f}",
            faster(way, "reference"),
            faster(way, "cropped"),
            f"{statistics.median(tokens):.0f}",
            f"{statistics.median(throughput):.0%}",
            f"{max(memory) / 2**20:.0f} MiB",
        )
        rows.append([way, *cells])
    header = ["", "seconds", "of generation", "times faster than reference", "than cropped"]
    header += ["tokens", "linear layers, of a large product's throughput", "peak extra memory"]
    return markdown_table(header, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="HotpotQA JSON (distractor setting)")
    add_model(parser)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"])
    parser.add_argument("--prompts", type=int, default=8)
    options = parser.parse_args()
    dtype = getattr(torch, options.dtype)
    language_model = load_model(options.model, device=options.device, dtype=dtype)
    examples = load(options.data, "hotpotqa").examples[: options.prompts]
    questions = [prepare(example, language_model, "attribot", 32) for example in examples]
    answers = [answer for question in questions if (answer := answer_question(question))]
    lengths = [len(answer.generation.prompt_ids) for answer in answers]
    print(
        f"{options.model}, {options.dtype}, {hardware(language_model.device)}, torch "
        f"{torch.__version__}; {len(answers)} prompts of {min(lengths)} to {max(lengths)} tokens\n"
    )
    print(table(measured(answers)))


if __name__ == "__main__":
    main()
