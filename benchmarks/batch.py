"""Batches of logged answers: against a loop over `attribute`, and their memory.

    python -m benchmarks.batch speed ANSWERS.jsonl --workers 2 --count 40
    python -m benchmarks.batch memory --records 2000

`speed` gives the same records, a few at a time, in turn to a loop with all threads and to a batch's
processes, so that what else the machine does slows both. `memory` attributes with a tiny model with
random weights and tells the largest memory in the first and in the second half.
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

AT_A_TIME = 2  # records for each worker


def make_attributor() -> Attributor:
    return Attributor(load_model(), progress=False)


def speed(source: Path, num_workers: int, count: int) -> None:
    values = enumerate(islice(read(source), count))
    seconds = {"loop": 0.0, "batch": 0.0}
    attributor = make_attributor()
    with workers_of(make_attributor, num_workers) as workers:

        def loop(values: Iterator[tuple[int, object]]) -> Iterator[Outcome]:
            return (Outcome.of(attributor, *one) for one in values)

        def timed(name: str, run: Callable[..., Iterator[Outcome]], part: list[object]) -> None:
            started = time.perf_counter()
            assert not any(one.rejected for one in run(enumerate(part)))
            seconds[name] += time.perf_counter() - started

        parts = iter(lambda: [value for _, value in islice(values, AT_A_TIME * num_workers)], [])
        warm_up = next(parts)
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
    record = {
        "question": "How many?",
        "documents": [{"id": "a", "text": "Seven of them. The rest left."}, "Eight came."],
        "response": "Seven.",
    }
    attributor = Attributor(tiny_model(), method="leave_one_out", progress=False)
    process = psutil.Process()
    with tempfile.TemporaryDirectory() as folder:
        source, output = Path(folder) / "log.jsonl", Path(folder) / "out"
        with source.open("w") as file:
            file.writelines(json.dumps({**record, "id": i}) + "\n" for i in range(num_records))
        thread = threading.Thread(target=run_batch, args=(attributor, source, output))
        thread.start()
        largest = [0, 0]
        while thread.is_alive():
            time.sleep(0.1)
            results = output / "results.jsonl"
            if not results.exists():
                continue
            with results.open("rb") as lines:
                num_done = sum(1 for _ in lines)
            if num_done >= num_records / 20:  # after what is done once
                half = int(num_done > num_records / 2)
                largest[half] = max(largest[half], process.memory_info().rss)
    first, second = (size / 2**20 for size in largest)
    print(f"{num_records} records: {first:.0f} MiB, then {second:.0f} MiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("speed")
    one.add_argument("answers", type=Path, help="JSON lines, as docs/batch.md has them")
    one.add_argument("--workers", type=int, default=2)
    one.add_argument("--count", type=int, default=40)
    one.set_defaults(run=lambda options: speed(options.answers, options.workers, options.count))
    other = commands.add_parser("memory")
    other.add_argument("--records", type=int, default=2000)
    other.set_defaults(run=lambda options: memory(options.records))
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
