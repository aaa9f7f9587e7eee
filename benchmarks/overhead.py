"""What an attribution costs besides the model's passes.

    python -m benchmarks.overhead
    python -m benchmarks.overhead --profile

The model is random and tiny, with the embedded model's tokenizer. What its forward and backward
passes take is told apart; the rest goes into locating, ablating, verdicts and results. Every prompt
differs in its first words.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import random
import statistics
import time
from typing import Any

import torch
from support.tiny_models import smollm2_tokenizer, with_tokenizer
from transformers import LlamaForCausalLM

from attribot_rag import Attributor, Auto, VerdictOptions
from attribot_rag.evaluation.setting import hardware

WORDS = ("river", "town", "hall", "ship", "salt", "winter", "merchant", "letter", "stone")
ANSWER = "The town hall has a garden. The ship came in winter."


class Passes:
    """Seconds in forward and backward passes of causal language models."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._began = 0.0
        torch.nn.modules.module.register_module_forward_pre_hook(self._begin)
        torch.nn.modules.module.register_module_forward_hook(self._end)
        differentiate: Any = torch.autograd.grad

        def timed(*arguments: Any, **options: Any) -> Any:
            began = time.perf_counter()
            gradients = differentiate(*arguments, **options)
            self.seconds += time.perf_counter() - began
            return gradients

        torch.autograd.grad = timed

    def _begin(self, module: torch.nn.Module, _: Any) -> None:
        if isinstance(module, LlamaForCausalLM):
            self._began = time.perf_counter()

    def _end(self, module: torch.nn.Module, *_: Any) -> None:
        if isinstance(module, LlamaForCausalLM):
            self.seconds += time.perf_counter() - self._began


def documents_of(seed: int) -> list[str]:
    """Ten documents of three sentences, of about a hundred tokens each."""
    chosen = random.Random(seed)
    sentences = [f"The {' '.join(chosen.choices(WORDS, k=30))}." for _ in range(30)]
    return [" ".join(sentences[start : start + 3]) for start in range(0, 30, 3)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--profile", action="store_true", help="print where the time goes")
    options = parser.parse_args()
    # A random model heeds no source, so the search would end at once.
    verdicts = VerdictOptions(min_sought=1e-6, min_reliance=1e-6)
    model = with_tokenizer(smollm2_tokenizer())
    attributor = Attributor(model, method=Auto(verdicts), verdicts=verdicts, progress=False)
    passes, profile = Passes(), cProfile.Profile()
    seconds, besides = [], []
    for number in range(options.count + 1):  # the first makes the twin and probes it
        documents = documents_of(number)
        prompt = "\n\n".join([*documents, "What does the town have?", ""])
        if options.profile and number:
            profile.enable()
        started, before = time.perf_counter(), passes.seconds
        attribution = attributor.attribute(prompt, ANSWER, documents)
        seconds.append(time.perf_counter() - started)
        besides.append(seconds[-1] - (passes.seconds - before))
        profile.disable()
    if options.profile:
        pstats.Stats(profile).sort_stats("cumtime").print_stats(40)
    provenance = attribution.provenance
    middle, rest = (1e3 * statistics.median(values[1:]) for values in (seconds, besides))
    print(
        f"{provenance.prompt_tokens} prompt tokens, {len(attribution.sources)} sources, "
        f"{provenance.scored_tokens} scored tokens: {middle:.0f} ms per attribution, median of "
        f"{options.count}; besides the model's passes {rest:.0f} ms\n{hardware()}"
    )


if __name__ == "__main__":
    main()
