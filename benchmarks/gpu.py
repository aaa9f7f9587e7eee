"""Attribution against generation with random weights: seconds, share of throughput, memory.

    python -m benchmarks.gpu                                   # 1B and 8B, all sizes; needs 80 GB
    python -m benchmarks.gpu --models llama_1b --prompt-tokens 4100 --response-tokens 200
    python -m benchmarks.gpu --models gemma3 qwen3_5 --device cpu --dtype float32

Nothing has to be downloaded: a token is a byte, and sources are equally long. What is measured, and
how: `benchmarks/speed.py`.
"""

from __future__ import annotations

import argparse
import random
import string
from typing import Any, cast

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    AutoModelForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LogitsProcessor,
    LogitsProcessorList,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen3_5TextConfig,
)

from attribot_rag import Document, LocalModel
from attribot_rag.recording import generate_answer
from benchmarks.experiment.example import Example
from benchmarks.experiment.generation import GeneratedAnswer, prepare
from benchmarks.experiment.setting import hardware
from benchmarks.speed import measured, table
from benchmarks.stopwatch import Stopwatch


def llama(
    vocabulary: int, width: int, inner: int, layers: int, heads: int, keys: int
) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=keys,
        max_position_embeddings=32_768,
        tie_word_embeddings=width < 4096,
    )


SMALL: dict[str, Any] = {
    "vocab_size": 32_000,
    "hidden_size": 640,
    "intermediate_size": 2048,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 80,
}
RECURRENT: dict[str, Any] = {
    "linear_num_key_heads": 8,
    "linear_num_value_heads": 8,
    "linear_key_head_dim": 80,
    "linear_value_head_dim": 80,
}
MODELS: dict[str, PreTrainedConfig] = {
    "tiny": llama(2000, 128, 256, 2, 4, 2),
    "llama_1b": llama(128_256, 2048, 8192, 16, 32, 8),
    "llama_8b": llama(128_256, 4096, 14336, 32, 32, 8),
    # 110M parameters, five of six layers with a window
    "gemma3": Gemma3TextConfig(**SMALL, num_hidden_layers=18, sliding_window=512),
    # 134M parameters, three of four layers recurrent
    "qwen3_5": Qwen3_5TextConfig(**SMALL, num_hidden_layers=16, **RECURRENT),
}
NUM_SOURCES = {300: 10, 1250: 40, 4100: 100, 16_000: 300}
NUM_TEMPLATE_TOKENS = 37  # of the prompt without documents


class OnlyBytes(LogitsProcessor):
    """Lets the model answer in bytes only, so that the answer is text."""

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        scores[:, 256:] = -torch.inf
        return scores


def byte_tokenizer(num_tokens: int) -> PreTrainedTokenizerFast:
    """A token for each byte, the others unused."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    unused = (f"unused {number}" for number in range(num_tokens - len(alphabet)))
    vocabulary = {token: index for index, token in enumerate((*alphabet, *unused))}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)  # type: ignore[no-untyped-call]


def random_model(name: str, dtype: torch.dtype, device: torch.device) -> LocalModel:
    torch.manual_seed(0)
    build = cast(Any, AutoModelForCausalLM).from_config
    with device:
        model: PreTrainedModel = build(MODELS[name], dtype=dtype)
    model.generation_config.eos_token_id = None
    return LocalModel(model.train(False), byte_tokenizer(model.config.vocab_size))


def random_answer(
    num_tokens: int, num_response_tokens: int, language_model: LocalModel
) -> GeneratedAnswer:
    """An answer after documents of random letters, each of which is one source."""
    chosen, count = random.Random(0), NUM_SOURCES[num_tokens]
    width = (num_tokens - NUM_TEMPLATE_TOKENS) // count - 2
    texts = ["".join(chosen.choices(string.ascii_lowercase, k=width)) for _ in range(count)]
    example = Example("random/letters", "Which word?", tuple(map(Document, texts)))
    question = prepare(example, language_model, "context_cite", num_response_tokens)
    for _ in range(2):  # the first warms up
        with Stopwatch(language_model.device) as watch:
            generation = generate_answer(
                language_model,
                question.prompt_ids,
                max_new_tokens=num_response_tokens,
                logits_processor=LogitsProcessorList([OnlyBytes()]),
            )
    assert generation is not None
    return GeneratedAnswer(question, generation, watch.seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=["llama_1b", "llama_8b"])
    parser.add_argument("--device", default="cuda", type=torch.device)
    parser.add_argument("--dtype", default="bfloat16", choices=["float32", "bfloat16", "float16"])
    lengths = [1250, 4100, 16_000]
    parser.add_argument(
        "--prompt-tokens", nargs="+", type=int, choices=NUM_SOURCES, default=lengths
    )
    parser.add_argument("--response-tokens", nargs="+", type=int, default=[50, 200])
    options = parser.parse_args()
    print(f"{hardware(options.device)}, {options.dtype}, torch {torch.__version__}")
    for name in options.models:
        language_model = random_model(name, getattr(torch, options.dtype), options.device)
        for num_tokens in options.prompt_tokens:
            for num_response_tokens in options.response_tokens:
                answer = random_answer(num_tokens, num_response_tokens, language_model)
                print(
                    f"\n{name}: {len(answer.generation.prompt_ids)} prompt tokens, "
                    f"{len(answer.question.prompt_input.context.sources)} sources, "
                    f"{num_response_tokens} answer tokens "
                    f"generated in {answer.seconds:.3f} s\n\n"
                    f"{table(measured([answer]))}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
