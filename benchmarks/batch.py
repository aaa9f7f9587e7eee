"""Memory of a process that attributes a log of answers, after each tenth of the records.

    python -m benchmarks.batch --records 2000

The model is tiny, with random weights; no two records are alike.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
from pathlib import Path

import psutil
from support.tiny_models import smollm2_tokenizer, with_tokenizer

from attribot_rag import Attributor
from attribot_rag.batch.run import run_batch


def record(index: int) -> dict[str, object]:
    """A record like no other, of one of forty lengths."""
    rest = " It rained." * (index % 40)
    return {
        "id": index,
        "question": f"How many came in year {index}?",
        "documents": [{"id": "a", "text": f"In year {index} seven came.{rest}"}, "Eight left."],
        "response": "Seven.",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--records", type=int, default=2000)
    num_records = parser.parse_args().records
    model = with_tokenizer(smollm2_tokenizer())
    attributor = Attributor(model, method="leave_one_out", progress=False)
    process = psutil.Process()
    with tempfile.TemporaryDirectory() as folder:
        source, output = Path(folder) / "log.jsonl", Path(folder) / "out"
        source.write_text("".join(json.dumps(record(i)) + "\n" for i in range(num_records)))
        results = output / "results.jsonl"
        thread = threading.Thread(target=run_batch, args=(attributor, source, output))
        thread.start()
        tenths = 0
        while thread.is_alive():
            thread.join(0.1)
            num_done = results.read_bytes().count(b"\n") if results.exists() else 0
            if 10 * num_done >= num_records * (tenths + 1) or not thread.is_alive():
                tenths += 1
                size = process.memory_info().rss / 2**20
                print(f"after {num_done:,} records: {size:.0f} MiB", flush=True)


if __name__ == "__main__":
    main()
