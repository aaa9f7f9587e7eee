"""Seconds, tokens and memory of the scoring implementations on the same ablations.

    python benchmarks/speed.py HOTPOTQA.json                        # the embedded model
    python benchmarks/speed.py HOTPOTQA.json --model NAME_OR_PATH --device cuda
    python benchmarks/speed.py --architecture llama_8b --dtype bfloat16    # random weights and text
    python benchmarks/speed.py --architecture qwen3_5 --prompt-tokens 2000 # recurrent layers

Prompts are HotpotQA's (ten titled paragraphs, a question) with the model's own greedy answer, or
random ids where the weights are random. Every implementation scores the full prompt and the same
ablations of it, prompt by prompt and in turn, with the head on the response's positions only. The
loop at the end takes the logits of every token, as the AttriBoT paper's code does.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import psutil
import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    PreTrainedConfig,
    PreTrainedModel,
    Qwen3_5TextConfig,
)

from attribot_rag import ContextOptions, LanguageModel, load_model
from attribot_rag.context import Ablation, TokenizedText, locate_context
from attribot_rag.recording import Generation, generate_answer
from attribot_rag.scoring.base import Reading, TwinImplementation
from attribot_rag.scoring.implementations.cropped import Cropped
from attribot_rag.scoring.implementations.memory import Batching
from attribot_rag.scoring.implementations.packed import Packed
from attribot_rag.scoring.implementations.reference import Reference
from attribot_rag.scoring.implementations.selection import ScoringModels
from attribot_rag.scoring.row import Row

ARCHITECTURES: dict[str, Callable[[], PreTrainedConfig]] = {
    "llama_1b": lambda: LlamaConfig(
        vocab_size=128_256,
        hidden_size=2048,
        intermediate_size=8192,
        num_hidden_layers=16,
        num_attention_heads=32,
        num_key_value_heads=8,
        tie_word_embeddings=True,
    ),
    "llama_8b": lambda: LlamaConfig(
        vocab_size=128_256,
        hidden_size=4096,
        intermediate_size=14336,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=8,
    ),
    # 110M parameters, five of six layers with a window
    "gemma3": lambda: Gemma3TextConfig(
        vocab_size=32_000,
        hidden_size=640,
        intermediate_size=2048,
        num_hidden_layers=18,
        num_attention_heads=8,
        num_key_value_heads=2,
        head_dim=80,
        sliding_window=512,
    ),
    # 134M parameters, three of four layers recurrent
    "qwen3_5": lambda: Qwen3_5TextConfig(
        vocab_size=32_000,
        hidden_size=640,
        intermediate_size=2048,
        num_hidden_layers=16,
        num_attention_heads=8,
        num_key_value_heads=2,
        head_dim=80,
        linear_num_key_heads=8,
        linear_num_value_heads=8,
        linear_key_head_dim=80,
        linear_value_head_dim=80,
    ),
}


class ReferenceAllLogits(Reference):
    """Reference with the logits of every token."""

    name = "loop, all logits"

    def _logits(self, positions: torch.Tensor, **inputs: Any) -> torch.Tensor:
        return cast(torch.Tensor, self.twin(**inputs).logits[0, positions])


KINDS: tuple[type[TwinImplementation], ...] = (Reference, Cropped, Packed, ReferenceAllLogits)


@dataclass(frozen=True)
class Task:
    """One recorded generation and the rows to score."""

    generation: Generation
    rows: Sequence[Row]


@dataclass
class Measured:
    seconds: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    extra_bytes: list[int] = field(default_factory=list)


class PeakMemory:
    """Bytes beyond what was in use at the start, at the worst moment; sampled on a CPU."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._process = psutil.Process()
        self._done = threading.Event()
        self.extra = 0

    def __enter__(self) -> PeakMemory:
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)
            self._before = torch.cuda.memory_allocated(self._device)
        else:
            self._before = self._process.memory_info().rss
            self._thread = threading.Thread(target=self._sample)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._device.type == "cuda":
            self.extra = torch.cuda.max_memory_allocated(self._device) - self._before
        else:
            self._done.set()
            self._thread.join()

    def _sample(self) -> None:
        while not self._done.wait(0.01):
            self.extra = max(self.extra, self._process.memory_info().rss - self._before)


def hotpotqa_tasks(
    language_model: LanguageModel, path: Path, prompts: int, sources: int
) -> list[Task]:
    tasks = []
    for example in json.loads(path.read_text())[:prompts]:
        documents = [
            f"{title}: {''.join(sentences).strip()}" for title, sentences in example["context"]
        ]
        question = "\n\n".join([*documents, f"Answer the question: {example['question']}"])
        prompt_ids = language_model.encode_prompt([{"role": "user", "content": question}])
        generation = generate_answer(language_model, prompt_ids, max_new_tokens=32)
        assert generation is not None
        context = locate_context(
            TokenizedText.of(prompt_ids, language_model), documents, ContextOptions()
        )
        count = len(context.sources)
        chosen = {int((number + 0.5) * count / sources) for number in range(sources)}
        ablated = [context.ablate(Ablation.of(index), language_model) for index in sorted(chosen)]
        rows = [Row.exact(prompt_ids, len(prompt_ids), generation)]
        rows += [Row.exact(one.ids, one.num_shared, generation) for one in ablated]
        tasks.append(Task(generation, rows))
    return tasks


def random_tasks(
    vocabulary: int, prompts: int, sources: int, prompt_tokens: int, response_tokens: int = 32
) -> list[Task]:
    """Prompts of random ids, of equal sources; the generation's cache is not there."""
    generator = random.Random(0)
    tasks = []
    for _ in range(prompts):
        ids = [generator.randrange(vocabulary) for _ in range(prompt_tokens + response_tokens)]
        generation = Generation(tuple(ids[:prompt_tokens]), tuple(ids[prompt_tokens:]))
        width = (prompt_tokens - 64) // sources
        rows = [Row.exact(generation.prompt_ids, prompt_tokens, generation)]
        rows += [
            Row.exact((*ids[:start], *ids[start + width : prompt_tokens]), start, generation)
            for start in range(16, 16 + width * sources, width)
        ]
        tasks.append(Task(generation, rows))
    return tasks


def measure(
    kind: type[TwinImplementation], models: ScoringModels, model: PreTrainedModel, task: Task
) -> tuple[float, int, int, torch.Tensor]:
    """Seconds, tokens and extra bytes of scoring one task, batching as the scorer does."""
    with PeakMemory(model.device) as memory, torch.inference_mode():
        synchronize(model.device)
        started = time.perf_counter()
        branches = sorted({row.num_visible for row in task.rows})
        implementation = models.make(kind, task.generation, Reading(branches))
        batching = Batching.by_tokens(model, implementation, None)
        parts = []
        rows = list(task.rows)
        while rows:
            batch = batching.next_batch(rows)
            parts.append(implementation.log_likelihoods(batch))
            rows = rows[len(batch) :]
        synchronize(model.device)
        seconds = time.perf_counter() - started
    tokens = implementation.prefilled_tokens + implementation.scored_tokens
    return seconds, tokens, memory.extra, torch.cat(parts)


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def run(model: PreTrainedModel, tasks: Sequence[Task]) -> dict[str, Measured]:
    models = ScoringModels(model)
    right = [
        kind
        for kind in KINDS
        if issubclass(kind, Reference) or models.refusal(kind, tasks[0].generation) is None
    ]
    results = {kind.name: Measured() for kind in right}
    for kind in right:
        warm_up = Task(tasks[0].generation, tasks[0].rows[-2:])
        measure(kind, models, model, warm_up)
    for number, task in enumerate(tasks):
        truth: torch.Tensor | None = None
        turn = number % (len(right) - 1)
        in_turn = right[1:][turn:] + right[1:][:turn]
        for kind in (right[0], *in_turn):
            seconds, tokens, extra, found = measure(kind, models, model, task)
            truth = found if truth is None else truth
            difference = float((found - truth).abs().max())
            result = results[kind.name]
            result.seconds.append(seconds)
            result.tokens.append(tokens)
            result.extra_bytes.append(extra)
            print(
                f"prompt {number + 1}/{len(tasks)}  {kind.name:24} {seconds:8.2f} s  "
                f"{tokens:7} tokens  largest difference to reference {difference:.1e} nats",
                flush=True,
            )
    return results


def report(results: dict[str, Measured]) -> str:
    lines = [
        "| implementation | median s per prompt | tokens per prompt | tokens / s | "
        "peak extra memory | times faster than reference | than cropped |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, result in results.items():
        faster = []
        for other in ("reference", "cropped"):
            pairs = zip(results[other].seconds, result.seconds, strict=True)
            faster.append(statistics.median(theirs / ours for theirs, ours in pairs))
        lines.append(
            f"| {name} | {statistics.median(result.seconds):.2f} "
            f"| {statistics.median(result.tokens):.0f} "
            f"| {sum(result.tokens) / sum(result.seconds):.0f} "
            f"| {max(result.extra_bytes) / 2**20:.0f} MiB "
            f"| {faster[0]:.2f} | {faster[1]:.2f} |"
        )
    return "\n".join(lines)


def hardware(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{torch.get_num_threads()} threads of {platform.processor() or platform.machine()}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path, nargs="?", help="HotpotQA JSON (distractor setting)")
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--architecture", choices=ARCHITECTURES, help="with random weights")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"])
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument(
        "--sources",
        type=int,
        default=12,
        help="ablations per prompt, spread evenly over its sources",
    )
    parser.add_argument("--prompt-tokens", type=int, default=1400, help="of random prompts")
    arguments = parser.parse_args()
    dtype = getattr(torch, arguments.dtype)
    if arguments.architecture:
        config = ARCHITECTURES[arguments.architecture]()
        torch.manual_seed(0)
        with torch.device(arguments.device):
            model: PreTrainedModel = cast(Any, AutoModelForCausalLM).from_config(
                config, dtype=dtype
            )
        model.train(False)
        tasks = random_tasks(
            config.vocab_size, arguments.prompts, arguments.sources, arguments.prompt_tokens
        )
    elif arguments.data is None:
        parser.error("name a HotpotQA file, or use --architecture")
    else:
        language_model = load_model(arguments.model, device=arguments.device, dtype=dtype)
        model = language_model.model
        tasks = hotpotqa_tasks(language_model, arguments.data, arguments.prompts, arguments.sources)
    lengths = [len(task.generation.prompt_ids) for task in tasks]
    results = run(model, tasks)
    print(
        f"\n{arguments.architecture or arguments.model}, {arguments.dtype}, "
        f"{hardware(model.device)}, torch {torch.__version__}; "
        f"{len(tasks)} prompts of {min(lengths)} to {max(lengths)} "
        f"tokens (median {statistics.median(lengths):.0f}), "
        f"{sum(len(task.rows) for task in tasks)} ablations; "
        f"generation's cache {'taken over' if tasks[0].generation.cache else 'not there'}\n"
    )
    print(report(results))


if __name__ == "__main__":
    main()
