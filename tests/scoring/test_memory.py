"""Scoring takes less memory than the model itself."""

import threading
from typing import Any

import psutil
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from attribot_rag.model.generation import Generation
from attribot_rag.scoring.local_backend import LocalBackend
from attribot_rag.scoring.memory import is_out_of_memory
from attribot_rag.scoring.packed import Packed
from attribot_rag.scoring.row import Row

PROMPT, RESPONSE, SOURCES, WIDTH = 2000, 24, 50, 38


@pytest.mark.slow
@pytest.mark.long
def test_50_sources_of_2000_tokens_take_less_than_the_weights() -> None:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        **{"vocab_size": 32_000, "hidden_size": 768, "intermediate_size": 2048},
        **{"num_hidden_layers": 4, "num_attention_heads": 12, "num_key_value_heads": 4},
    }
    config = LlamaConfig(**sizes, tie_word_embeddings=True)
    model = LlamaForCausalLM(config)
    weights = sum(parameter.nbytes for parameter in model.parameters())
    ids = tuple(torch.randint(3, 32_000, (PROMPT + RESPONSE,)).tolist())
    generation = Generation(ids[:PROMPT], ids[PROMPT:])
    prompt = generation.prompt_ids
    rows = [
        Row.for_prompt(prompt[:start] + prompt[start + WIDTH :], start, generation)
        for start in range(50, 50 + SOURCES * WIDTH, WIDTH)
    ]
    backend = LocalBackend(model)
    backend.prefix_for(Generation(ids[:50], ids[-4:]), "packed")

    process = psutil.Process()
    before = process.memory_info().rss
    peak = before
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.005):
            peak = max(peak, process.memory_info().rss)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        implementation = backend.make(Packed, generation)
        batching = implementation.batching(None)
        with torch.inference_mode():
            while rows:
                batch = batching.next_batch([], iter(rows))
                implementation.log_likelihoods(batch)
                rows = rows[len(batch) :]
    finally:
        done.set()
        watcher.join()
    assert implementation.scored_tokens > PROMPT
    assert peak - before < weights


def test_errors_that_count_as_out_of_memory() -> None:
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory"))
    assert is_out_of_memory(MemoryError())
    assert is_out_of_memory(RuntimeError("DefaultCPUAllocator: not enough memory: you tried"))
    assert not is_out_of_memory(RuntimeError("shape mismatch"))
