"""GPU-hours and price of many attributions, by calculation from the methods' cost formulas.

    python -m benchmarks.sizing
    python -m benchmarks.sizing --tflops 312 --share 0.5 --price 1.2      # another GPU
    python -m benchmarks.sizing --response-tokens 300 --source-tokens 25  # other answers

Nothing is measured here. A token through P parameters takes 2·P FLOPs (attribot_rag.methods.cost),
and 4·layers·width more for each token that it attends to. `--share` is how much of the GPU's
throughput a forward pass reaches; to measure it, run benchmarks/gpu.py.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

from attribot_rag.methods import METHODS
from attribot_rag.methods.cost import Cost, Workload


@dataclass(frozen=True)
class Size:
    """A model as Llama has it."""

    name: str
    num_parameters: int
    num_layers: int
    width: int

    def flops(self, cost: Cost, workload: Workload) -> float:
        """With attention: to half of the prompt while it is read, to all of it afterwards."""
        reading = 2.0 * self.num_parameters * workload.unread_tokens
        attention = 2.0 * self.num_layers * self.width * workload.prompt_tokens
        return cost.flops + attention / self.num_parameters * (cost.flops - reading / 2)


SIZES = (
    Size("1B", 1_240_000_000, 16, 2048),
    Size("8B", 8_030_000_000, 32, 4096),
    Size("70B", 70_600_000_000, 80, 8192),
)
CONTEXTS = (2_000, 8_000, 32_000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--tflops", type=float, default=989.0, help="the GPU's, dense, in the model's dtype")
    add("--share", type=float, default=0.4, help="of these, what a forward pass reaches")
    add("--price", type=float, default=3.0, help="of a GPU-hour")
    add("--response-tokens", type=int, default=100)
    add("--query-tokens", type=int, default=60)
    add("--source-tokens", type=int, default=40, help="of a sentence of the context")
    add("--document-tokens", type=int, default=400)
    options = parser.parse_args()
    hours: dict[tuple[str, int], dict[str, float]] = {}
    for size, context in product(SIZES, CONTEXTS):
        workload = Workload(
            context_tokens=context,
            query_tokens=options.query_tokens,
            response_tokens=options.response_tokens,
            num_sources=context // options.source_tokens,
            num_groups=context // options.document_tokens,
            num_parameters=size.num_parameters,
        )
        flops_per_hour = options.tflops * 1e12 * options.share * 3600
        hours[size.name, context] = {
            name: size.flops(cost, workload) / flops_per_hour
            for name, cost in costs(workload).items()
        }
    show("answers per GPU-hour", hours, lambda one: 1 / one)
    show("price of a million answers", hours, lambda one: one * 1e6 * options.price)


def show(
    title: str,
    hours: dict[tuple[str, int], dict[str, float]],
    figure: Callable[[float], float],
) -> None:
    names = next(iter(hours.values()))
    print(f"| {title}: model, context | {' | '.join(names)} |")
    print("|---" * (1 + len(names)) + "|")
    for (size, context), of_methods in hours.items():
        cells = " | ".join(rounded(figure(one)) for one in of_methods.values())
        print(f"| {size}, {context:,} | {cells} |")
    print()


def costs(workload: Workload) -> dict[str, Cost]:
    """The cost of each method here, and of leave-one-out at a server without a prefix cache."""
    found = {name: method().cost(workload) for name, method in METHODS.items()}
    return {**found, "leave_one_out, no prefix cache": workload.cost_without_cache()}


def rounded(value: float) -> str:
    """Two digits, which is what the assumptions are worth."""
    digits = float(f"{value:.2g}")
    return f"{digits:,.0f}" if digits >= 10 else f"{digits:g}"


if __name__ == "__main__":
    main()
