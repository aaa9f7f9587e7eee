"""Batches of logged answers: against a loop over `attribute`, and their memory.

    python -m benchmarks.batch speed ANSWERS.jsonl --workers 2 --count 40
    python -m benchmarks.batch memory --records 2000

`speed` gives the same records, `--at-a-time` for each process, in turn to a loop with all threads
and to a batch's processes, so that what else the machine does slows both; few at a time leave a
process idle at the end of each turn. `memory` attributes with a tiny model with random weights and
tells the process's memory after a tenth of the records and at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import psutil
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from attribot_rag import Attributor, LanguageModel, load_model
from attribot_rag.batch.outcome import Outcome
from attribot_rag.batch.records import read
from attribot_rag.batch.run import run_batch
from attribot_rag.batch.workers import workers_of

WARM_UP = 2  # records for each process, not timed


def make_attributor() -> Attributor:
    return Attributor(load_model(), progress=False)


def speed(source: Path, num_workers: int, count: int, at_a_time: int) -> None:
    values = islice(read(source), count)
    seconds = {"loop": 0.0, "batch": 0.0}
    attributor = make_attributor()
    with workers_of(make_attributor, num_workers) as workers:

        def loop(values: Iterator[tuple[int, object]]) -> Iterator[Outcome]:
            return (Outcome.of(attributor, *one) for one in values)

        def timed(name: str, run: Callable[..., Iterator[Outcome]], part: list[object]) -> None:
            started = time.perf_counter()
            assert not any(one.rejected for one in run(enumerate(part)))
            seconds[name] += time.perf_counter() - started

        warm_up = list(islice(values, WARM_UP * num_workers))
        parts = iter(lambda: list(islice(values, at_a_time * num_workers)), [])
        for run in (loop, workers.outcomes):
            list(run(enumerate(warm_up)))
        num_done = 0
        for part in parts:
            timed("loop", loop, part)
            timed("batch", workers.outcomes, part)
            num_done += len(part)
    rates = {name: num_done / took for name, took in seconds.items()}
    print(
        f"{num_done} records: a loop with {torch.get_num_threads()} threads "
        f"{rates['loop']:.3f} records/s, {num_workers} processes {rates['batch']:.3f}, "
        f"{rates['batch'] / rates['loop']:.2f} times as many; load {os.getloadavg()[0]:.1f}"
    )


def tiny_model() -> LanguageModel:
    torch.manual_seed(0)
    tokenizer = load_model().tokenizer
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=4096,
    )
    model = LlamaForCausalLM(config)
    model.train(False)
    return LanguageModel(model, tokenizer)


def memory(num_records: int) -> None:
    attributor = Attributor(tiny_model(), method="leave_one_out", progress=False)
    process = psutil.Process()
    with tempfile.TemporaryDirectory() as folder:
        source, output = Path(folder) / "log.jsonl", Path(folder) / "out"
        with source.open("w") as file:
            file.writelines(json.dumps(made_up(index)) + "\n" for index in range(num_records))
        thread = threading.Thread(target=run_batch, args=(attributor, source, output))
        thread.start()
        sizes: list[tuple[int, float]] = []  # records, MiB
        while thread.is_alive():
            thread.join(0.1)
            num_done = num_lines(output / "results.jsonl")
            if num_done >= num_records * (len(sizes) + 1) // 10 or not thread.is_alive():
                sizes.append((num_done, process.memory_info().rss / 2**20))
    for num_done, size in sizes:
        print(f"after {num_done:,} records: {size:.0f} MiB")


def made_up(index: int) -> dict[str, object]:
    """A record like no other, of one of forty lengths."""
    rest = " It rained." * (index % 40)
    return {
        "id": index,
        "question": f"How many came in year {index}?",
        "documents": [{"id": "a", "text": f"In year {index} seven came.{rest}"}, "Eight left."],
        "response": "Seven.",
    }


def num_lines(path: Path) -> int:
    if not path.exists():
        return 0
    with path.open("rb") as lines:
        return sum(1 for _ in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("speed")
    one.add_argument("answers", type=Path, help="JSON lines, as docs/batch.md has them")
    one.add_argument("--workers", type=int, default=2)
    one.add_argument("--count", type=int, default=40)
    one.add_argument("--at-a-time", type=int, default=10)
    one.set_defaults(
        run=lambda options: speed(
            options.answers, options.workers, options.count, options.at_a_time
        )
    )
    other = commands.add_parser("memory")
    other.add_argument("--records", type=int, default=2000)
    other.set_defaults(run=lambda options: memory(options.records))
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
