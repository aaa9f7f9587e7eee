"""Attribution against generation on a GPU: seconds, share of the chip's throughput, memory.

    python -m benchmarks.gpu                                   # 1B and 8B, all sizes; needs 80 GB
    python -m benchmarks.gpu --models 1b --prompt-tokens 4100 --response-tokens 200
    python -m benchmarks.gpu --models tiny --device cpu --dtype float32 --prompt-tokens 300

Nothing has to be downloaded: models are Llama-shaped with random weights, a token is a byte, and
sources are equally long. The model generates an answer, whose cache is taken over, and the same
answer is scored by every implementation and method in turn. `reference` and `cropped` score some
sources only; their seconds are extrapolated to all.
"""

from __future__ import annotations

import argparse
import math
import random
import string
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    LogitsProcessor,
    LogitsProcessorList,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

from attribot_rag import ContextOptions, LanguageModel
from attribot_rag.context import Context, TokenizedText, locate_context
from attribot_rag.methods import Auto, LeaveOneOut, Masked, Method, Patching
from attribot_rag.methods.sufficiency import Thresholds
from attribot_rag.model.generation import Generation
from attribot_rag.recording import generate_answer
from attribot_rag.scoring import Scorer, ScoringModels, ScoringOptions
from benchmarks.speed import ARCHITECTURES, PeakMemory, hardware, synchronize

MODELS: dict[str, Callable[[], PreTrainedConfig]] = {
    "tiny": lambda: LlamaConfig(
        vocab_size=2000,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    ),
    "1b": ARCHITECTURES["llama_1b"],
    "8b": ARCHITECTURES["llama_8b"],
}
NUM_SOURCES = {300: 10, 1250: 40, 4100: 100, 16_000: 300}
QUESTION = "\n\nWhich of these words is the answer? "
EXACT = LeaveOneOut()
# An implementation and a method; how many sources are scored, None for all.
WAYS: dict[str, tuple[str, Method, int | None]] = {
    "reference": ("reference", EXACT, 4),
    "cropped": ("cropped", EXACT, 8),
    "packed": ("packed", EXACT, None),
    "masked": ("packed", Masked(), None),
    "patching": ("packed", Patching(), None),
    "auto": ("packed", Auto(Thresholds(min_sought=-math.inf)), None),  # nothing matters to it
}


class OnlyBytes(LogitsProcessor):
    """Lets the model answer in bytes only, so that the answer is text."""

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        scores[:, 256:] = -torch.inf
        return scores


@dataclass(frozen=True)
class Measured:
    """Seconds for all sources, and of what was done: tokens, those of backward passes, bytes."""

    seconds: float
    done_seconds: float
    tokens: int
    backward_tokens: int
    extra_bytes: int


def byte_tokenizer(num_tokens: int) -> PreTrainedTokenizerFast:
    """A token for each byte, the others unused."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    unused = (f"unused {number}" for number in range(num_tokens - len(alphabet)))
    vocabulary = {token: index for index, token in enumerate((*alphabet, *unused))}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)  # type: ignore[no-untyped-call]


def random_model(name: str, dtype: torch.dtype, device: torch.device) -> LanguageModel:
    torch.manual_seed(0)
    with device:
        model: PreTrainedModel = cast(Any, AutoModelForCausalLM).from_config(
            MODELS[name](), dtype=dtype
        )
    model.generation_config.eos_token_id = None
    return LanguageModel(model.train(False), byte_tokenizer(model.config.vocab_size))


def random_context(
    num_tokens: int, num_sources: int, language_model: LanguageModel
) -> tuple[Context, tuple[int, ...]]:
    """A prompt of documents of random letters, each of which is one source."""
    chosen = random.Random(0)
    width = (num_tokens - len(QUESTION)) // num_sources - 2
    texts = ["".join(chosen.choices(string.ascii_lowercase, k=width)) for _ in range(num_sources)]
    prompt_ids = language_model.encode("\n\n".join(texts) + QUESTION)
    prompt = TokenizedText.of(prompt_ids, language_model)
    return locate_context(prompt, texts, ContextOptions()), tuple(prompt_ids)


def generated(
    language_model: LanguageModel, prompt_ids: Sequence[int], num_tokens: int
) -> tuple[Generation, float]:
    """An answer with its cache, and the seconds that it took."""
    synchronize(language_model.device)
    started = time.perf_counter()
    generation = generate_answer(
        language_model,
        prompt_ids,
        max_new_tokens=num_tokens,
        logits_processor=LogitsProcessorList([OnlyBytes()]),
    )
    synchronize(language_model.device)
    assert generation is not None and generation.cache is not None
    return generation, time.perf_counter() - started


def measure(
    way: str,
    language_model: LanguageModel,
    generation: Generation,
    context: Context,
    scoring_models: ScoringModels,
) -> Measured:
    implementation, method, limit = WAYS[way]
    options = ScoringOptions(implementation=cast(Any, implementation))
    scorer = Scorer(language_model, generation, context, scoring_models, options=options)
    count = len(scorer.units)
    if limit is not None and limit < count:
        places = sorted({int((number + 0.5) * count / limit) for number in range(limit)})
        scorer = scorer.narrowed([scorer.units[place] for place in places])
    with PeakMemory(language_model.device) as memory:
        synchronize(language_model.device)
        started = time.perf_counter()
        method.run(scorer)
        synchronize(language_model.device)
        seconds = time.perf_counter() - started
    share = (count + 1) / (len(scorer.units) + 1)
    usage = scorer.usage
    return Measured(seconds * share, seconds, usage.tokens, usage.backward_tokens, memory.extra)


def matrix_throughput(dtype: torch.dtype, device: torch.device) -> float:
    """FLOPs a second of a large matrix product: the best of several."""
    size = 8192 if device.type == "cuda" else 1024
    one = torch.randn(size, size, device=device, dtype=dtype)
    best = 0.0
    for _ in range(10):
        synchronize(device)
        started = time.perf_counter()
        one @ one
        synchronize(device)
        best = max(best, 2.0 * size**3 / (time.perf_counter() - started))
    return best


def num_linear_parameters(model: PreTrainedModel) -> int:
    """Of the layers, without embeddings and head."""
    body = model.base_model
    linear = (one for one in body.modules() if isinstance(one, torch.nn.Linear))
    return sum(one.weight.numel() for one in linear)


def run(
    name: str, language_model: LanguageModel, prompt_tokens: int, answers: Sequence[int]
) -> None:
    model = language_model.model
    peak = matrix_throughput(language_model.dtype, model.device)
    linear = num_linear_parameters(model)
    scoring_models = ScoringModels(model)
    context, prompt_ids = random_context(prompt_tokens, NUM_SOURCES[prompt_tokens], language_model)
    for num_response_tokens in answers:
        generation, _ = generated(language_model, prompt_ids, num_response_tokens)  # warms up
        for way in WAYS:
            measure(way, language_model, generation, context, scoring_models)
        generation, seconds = generated(language_model, prompt_ids, num_response_tokens)
        print(
            f"\n{name}: {len(prompt_ids)} prompt tokens, {len(context.sources)} sources, "
            f"{num_response_tokens} answer tokens generated in {seconds:.3f} s; "
            f"a large matrix product does {peak / 1e9:,.0f} GFLOP/s\n"
        )
        print(
            "| | seconds | of generation | times faster than reference | than cropped | tokens "
            "| linear layers, of the large product's throughput | peak extra memory |"
        )
        print("|---|---|---|---|---|---|---|---|")
        found = {
            way: measure(way, language_model, generation, context, scoring_models) for way in WAYS
        }
        for way, one in found.items():
            flops = 2.0 * linear * (one.tokens + one.backward_tokens)
            print(
                f"| {way} | {one.seconds:.3f} | {one.seconds / seconds:.3f} "
                f"| {found['reference'].seconds / one.seconds:.1f} "
                f"| {found['cropped'].seconds / one.seconds:.1f} | {one.tokens} "
                f"| {flops / one.done_seconds / peak:.0%} | {one.extra_bytes / 2**20:.0f} MiB |",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=["1b", "8b"])
    parser.add_argument("--device", default="cuda", type=torch.device)
    parser.add_argument("--dtype", default="bfloat16", choices=["float32", "bfloat16", "float16"])
    parser.add_argument(
        "--prompt-tokens",
        nargs="+",
        type=int,
        choices=NUM_SOURCES,
        default=[1250, 4100, 16_000],
    )
    parser.add_argument("--response-tokens", nargs="+", type=int, default=[50, 200])
    options = parser.parse_args()
    for name in options.models:
        language_model = random_model(name, getattr(torch, options.dtype), options.device)
        for prompt_tokens in options.prompt_tokens:
            run(name, language_model, prompt_tokens, options.response_tokens)
    print(f"\n{hardware(options.device)}, {options.dtype}, torch {torch.__version__}")


if __name__ == "__main__":
    main()
