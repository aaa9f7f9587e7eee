"""The seconds of an attribution with verdicts, as a share of its answer's generation.

    python -m benchmarks.price --hotpotqa hotpotqa_distractor_40.json --squad squad_v2_dev.json
    python -m benchmarks.price --squad squad_v2_dev.json --device cuda --dtype bfloat16 --padded
    python -m benchmarks.price --squad squad_v2_dev.json --count --pass-tokens 1500

Each question is answered, then attributed with the cache of its answer: the questions that
`benchmarks.experiment` draws, with its prompt. Seconds are the processor's on a CPU, and by the
clock on a GPU, where `--padded` gives the model the size of an 8B one. With `--count`, forward
passes, operations and synchronisations are counted instead, which are the same on any machine;
`--pass-tokens` sets what a pass is worth (`ScoringOptions`), as a GPU's are worth about 1,500.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch

from attribot_rag import Attributor, Budget, ScoringOptions, load_model
from attribot_rag.attribution import cite
from attribot_rag.model.local_model import LocalModel
from benchmarks.dispatched import Dispatched
from benchmarks.experiment.data_sets import load, sample
from benchmarks.experiment.example import Example
from benchmarks.experiment.generation import answer_question, prepare
from benchmarks.experiment.setting import CLOCKS, hardware
from benchmarks.padded import padded
from benchmarks.questions import add_files, files

_GPU_TOKENS = 1 << 16  # that a pass may have, where passes are dear


class Priced(NamedTuple):
    """Seconds, or operations, of an answer and of its attribution; has it a citation?

    The attribution reads `tokens` in `passes`, and waits for the device in `synchronisations`.
    """

    generation: float
    attribution: float
    tokens: int
    passes: int
    synchronisations: int
    is_cited: bool


def priced(
    attributor: Attributor, example: Example, max_new_tokens: int, *, counted: bool
) -> Priced | None:
    """None if the answer has no tokens; with operations if they are `counted`."""
    language_model = attributor.language_model
    assert isinstance(language_model, LocalModel)
    question = prepare(example, language_model, "attribot", max_new_tokens)
    clock = "cpu" if language_model.device.type == "cpu" else "wall"
    answering, attributing = Dispatched(), Dispatched()
    with answering if counted else nullcontext():
        answered = answer_question(question, clock)
    if answered is None or answered.seconds is None:
        return None
    started = CLOCKS[clock]()
    with attributing if counted else nullcontext():
        attribution = attributor.attribute_generation(
            answered.generation, example.documents, question.prompt_input.prompt
        )
    seconds = CLOCKS[clock]() - started
    provenance = attribution.provenance
    return Priced(
        answering.operations if counted else answered.seconds,
        attributing.operations if counted else seconds,
        provenance.prefilled_tokens + provenance.scored_tokens,
        attributing.passes if counted else provenance.forward_passes,
        attributing.synchronisations,
        bool(cite(attribution).numbers),
    )


def quartiles(values: Iterable[float]) -> str:
    every = [*values]
    low, middle, high = np.quantile(every, (0.25, 0.5, 0.75))
    return f"{middle:.2f} ({low:.2f} to {high:.2f}), mean {np.mean(every):.2f}"


def print_table(name: str, answers: Sequence[Priced], *, counted: bool) -> None:
    num_cited = sum(answer.is_cited for answer in answers)
    unit = "operations" if counted else "s"
    print(f"{name}, {len(answers)} answers, {num_cited} with citations")
    print(f"  generation, {unit:<10} {quartiles(answer.generation for answer in answers)}")
    print(f"  attribution, {unit:<10}{quartiles(answer.attribution for answer in answers)}")
    shares = quartiles(answer.attribution / answer.generation for answer in answers)
    print(f"  share of generation    {shares}")
    print(f"  tokens                 {quartiles(answer.tokens for answer in answers)}")
    print(f"  passes                 {quartiles(answer.passes for answer in answers)}")
    if counted:
        waits = quartiles(answer.synchronisations for answer in answers)
        print(f"  synchronisations       {waits}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_files(parser)
    parser.add_argument("--examples", type=int, default=20)
    parser.add_argument("--method", default="auto")
    parser.add_argument("--max-new-tokens", type=int, default=64)
    parser.add_argument("--seconds", type=float, help="the budget of each attribution")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"])
    parser.add_argument("--count", action="store_true", help="operations instead of seconds")
    parser.add_argument("--pass-tokens", type=int, help="what a pass is worth")
    parser.add_argument("--padded", action="store_true", help="with zeros, to the size of 8B")
    options = parser.parse_args()
    local = load_model(device=options.device, dtype=getattr(torch, options.dtype))
    measured_model = padded(local) if options.padded else local
    budget = None if options.seconds is None else Budget(seconds=options.seconds)
    token_budget = _GPU_TOKENS if options.pass_tokens else None
    attributor = Attributor(
        measured_model,
        method=options.method,
        budget=budget,
        scoring=ScoringOptions(pass_tokens=options.pass_tokens, token_budget=token_budget),
        progress=False,
    )
    price = partial(priced, counted=options.count)
    model = local.name.rsplit("/", 1)[-1]
    print(
        f"{hardware(local.device)}, {model}, {options.dtype}, {options.method}, {budget}, "
        f"padded: {options.padded}; medians, quartiles, means"
    )
    measured: dict[str, list[Priced]] = {}
    for name, path in files(parser, options).items():
        examples = sample(load(path, name).examples, options.examples)
        price(attributor, examples[0], options.max_new_tokens)  # warms up
        answers = (price(attributor, example, options.max_new_tokens) for example in examples)
        measured[name] = [answer for answer in answers if answer is not None]
        print_table(name, measured[name], counted=options.count)
    if len(measured) > 1:
        print_table("all", [*chain.from_iterable(measured.values())], counted=options.count)


if __name__ == "__main__":
    main()
