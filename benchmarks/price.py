"""The CPU seconds of an attribution with verdicts, as a share of its answer's generation.

    python -m benchmarks.price --hotpotqa hotpotqa_distractor_40.json --squad squad_v2_dev.json
    python -m benchmarks.price --hotpotqa hotpotqa_distractor_40.json --seconds 2

Each question is answered, then attributed: the questions that `attribot-rag evaluate` draws, with
its prompt.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from attribot_rag import Attributor, Budget, load_model
from attribot_rag.attribution import cite
from attribot_rag.evaluation.data_sets import load, sample
from attribot_rag.evaluation.example import Example
from attribot_rag.evaluation.generation import TEMPLATES
from attribot_rag.evaluation.setting import hardware

DATA_SETS = ("hotpotqa", "squad")


class Timed(NamedTuple):
    """CPU seconds of an answer and of its attribution, which read `tokens`; has it a citation?"""

    generation: float
    attribution: float
    tokens: int
    is_cited: bool

    @property
    def share(self) -> float:
        return self.attribution / self.generation


def timed(attributor: Attributor, example: Example, max_new_tokens: int) -> Timed:
    local = attributor.language_model
    context = "\n\n".join(document.text for document in example.documents)
    prompt = TEMPLATES["attribot"].format(context=context, question=example.question)
    messages = [{"role": "user", "content": prompt}]
    prompt_ids = torch.tensor([local.encode_prompt(messages)])
    model: Any = local.model  # whose `generate` has no types
    started = time.process_time()
    with attributor.recorder:
        output = model.generate(prompt_ids, max_new_tokens=max_new_tokens, do_sample=False)
    generated = time.process_time()
    answer = str(local.tokenizer.decode(output[0, prompt_ids.shape[1] :], skip_special_tokens=True))
    attribution = attributor.attribute(messages, answer, example.documents)
    seconds = time.process_time() - generated
    tokens = attribution.provenance.prefilled_tokens + attribution.provenance.scored_tokens
    return Timed(generated - started, seconds, tokens, bool(cite(attribution).numbers))


def quartiles(values: Iterable[float]) -> str:
    every = [*values]
    low, middle, high = statistics.quantiles(every, n=4, method="inclusive")
    return f"{middle:.2f} ({low:.2f} to {high:.2f}), mean {statistics.fmean(every):.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in DATA_SETS:
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--examples", type=int, default=20)
    parser.add_argument("--method", default="auto")
    parser.add_argument("--max-new-tokens", type=int, default=64)
    parser.add_argument("--seconds", type=float, help="the budget of each attribution")
    options = parser.parse_args()
    local = load_model()
    budget = None if options.seconds is None else Budget(seconds=options.seconds)
    attributor = Attributor(local, method=options.method, budget=budget, progress=False)
    model = local.name.rsplit("/", 1)[-1]
    print(f"{hardware()}, {model}, {options.method}; medians, quartiles, means")
    print(f"budget: {budget}")
    for name in DATA_SETS:
        path = getattr(options, name)
        if path is None:
            continue
        examples = sample(load(path, name).examples, options.examples)
        timed(attributor, examples[0], options.max_new_tokens)  # warms up
        every = [timed(attributor, example, options.max_new_tokens) for example in examples]
        print(f"{name}, {len(every)} answers, {sum(one.is_cited for one in every)} with citations")
        print(f"  generation, s          {quartiles(one.generation for one in every)}")
        print(f"  attribution, s         {quartiles(one.attribution for one in every)}")
        print(f"  share of generation    {quartiles(one.share for one in every)}")
        print(f"  tokens                 {quartiles(one.tokens for one in every)}")


if __name__ == "__main__":
    main()
