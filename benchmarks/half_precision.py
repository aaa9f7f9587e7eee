"""What linear layers in bfloat16 change of an attribution: seconds, nats, verdicts.

    python -m benchmarks.half_precision --hotpotqa hotpotqa_distractor_40.json
    python -m benchmarks.half_precision --hotpotqa hotpotqa_distractor_40.json --published

Answers of questions that `attribot-rag evaluate` does not draw, or those that it draws, each
attributed in float32 and with `ScoringOptions(half_precision=True)` in turn.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from attribot_rag import Attribution, Attributor, ScoringOptions, load_model
from attribot_rag.evaluation.data_sets import load, sample
from attribot_rag.evaluation.example import Example
from attribot_rag.evaluation.generation import TEMPLATES
from attribot_rag.evaluation.setting import hardware
from attribot_rag.generation import Generation
from attribot_rag.recording import GenerationRecorder

_PUBLISHED = 20
DATA_SETS = ("hotpotqa", "squad")


def unpublished(path: Path, name: str, count: int) -> list[Example]:
    """Questions other than those of the published evaluation, spread over the file."""
    examples = load(path, name).examples
    drawn = {one.question for one in sample(examples, _PUBLISHED)}
    others = [one for one in examples if one.question not in drawn]
    return others[:: max(1, len(others) // count)][:count]


def published(path: Path, name: str, count: int) -> list[Example]:
    """The first of the questions of the published evaluation."""
    return sample(load(path, name).examples, _PUBLISHED)[:count]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in DATA_SETS:
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--examples", type=int, default=10)
    parser.add_argument("--published", action="store_true", help="the evaluation's own questions")
    parser.add_argument("--method", default="auto")
    parser.add_argument("--max-new-tokens", type=int, default=48)
    options = parser.parse_args()
    local = load_model()
    common: dict[str, Any] = {"method": options.method, "progress": False}
    whole = Attributor(local, scoring=ScoringOptions(half_precision=False), **common)
    half = Attributor(local, scoring=ScoringOptions(half_precision=True), **common)
    print(f"{hardware()}, bfloat16 {torch.cpu.get_capabilities().get('avx512_bf16')}", flush=True)
    for name in DATA_SETS:
        path = getattr(options, name)
        if path is not None:
            chosen = published if options.published else unpublished
            examples = chosen(path, name, options.examples)
            compare(name, whole, half, examples, options.max_new_tokens)


def compare(
    name: str,
    whole: Attributor,
    half: Attributor,
    examples: list[Example],
    max_new_tokens: int,
) -> None:
    ratios, differences, same_best, same_kinds = [], [], 0, 0
    for index, example in enumerate(examples):
        generation, messages = answered(whole, example, max_new_tokens)
        pair: dict[Attributor, Attribution] = {}
        seconds: dict[Attributor, float] = {}
        for attributor in (whole, half) if index % 2 else (half, whole):
            started = time.perf_counter()
            found = attributor.attribute_generation(generation, example.documents, messages)
            seconds[attributor], pair[attributor] = time.perf_counter() - started, found
        if not index:
            continue  # which warmed up
        ratios.append(seconds[half] / seconds[whole])
        first, second = totals(pair[whole]), totals(pair[half])
        differences.append((second - first)[~np.isnan(first) & ~np.isnan(second)])
        same_best += np.nanargmax(first) == np.nanargmax(second)
        same_kinds += kinds(pair[whole]) == kinds(pair[half])
        print(f"  {seconds[whole]:.2f} s, {seconds[half]:.2f} s", flush=True)
    every = np.abs(np.concatenate(differences))
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    print(f"{name}, {whole.method.name}, {len(ratios)} answers")
    print(f"  seconds, of float32's     {middle:.2f} ({low:.2f} to {high:.2f})")
    print(f"  nats, rms and largest     {np.sqrt(np.mean(every**2)):.3f}, {every.max():.3f}")
    print(f"  same best source          {same_best}")
    print(f"  same kinds of verdicts    {same_kinds}")


def answered(
    attributor: Attributor, example: Example, max_new_tokens: int
) -> tuple[Generation, list[dict[str, str]]]:
    """A recorded answer, and the messages that it answers."""
    local = attributor.language_model
    context = "\n\n".join(document.text for document in example.documents)
    prompt = TEMPLATES["attribot"].format(context=context, question=example.question)
    messages = [{"role": "user", "content": prompt}]
    prompt_ids = torch.tensor([local.encode_prompt(messages)])
    model: Any = local.model  # whose `generate` has no types
    with GenerationRecorder(local) as recorder:
        model.generate(prompt_ids, max_new_tokens=max_new_tokens, do_sample=False)
    return recorder.generations[-1], messages


def totals(attribution: Attribution) -> NDArray[np.float64]:
    """Each source's score for the whole response, not a number where it has none."""
    values = [attribution.score(source.id) for source in attribution.sources]
    return np.array([np.nan if value is None else value for value in values])


def kinds(attribution: Attribution) -> list[str]:
    return [verdict.kind for verdict in attribution.verdicts]


if __name__ == "__main__":
    main()
