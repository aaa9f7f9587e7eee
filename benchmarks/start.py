"""Where the seconds of `attribot-rag ask` go: of the wall clock, and of the processor.

python -m benchmarks.start
"""

from __future__ import annotations

import importlib
import time
from pathlib import Path

QUESTION = "How many passengers does the ferry Kittiwake carry?"
CORPUS = Path(__file__).parents[1] / "examples" / "corpus"


class Stages:
    """Prints what each stage took since the last."""

    def __init__(self) -> None:
        self._last = time.perf_counter(), time.process_time()
        print("| stage | seconds | of the processor |\n|---|--:|--:|")

    def ends(self, name: str) -> None:
        now = time.perf_counter(), time.process_time()
        seconds, processor = now[0] - self._last[0], now[1] - self._last[1]
        print(f"| {name} | {seconds:.2f} | {processor:.2f} |", flush=True)
        self._last = now


def main() -> None:
    stages = Stages()
    importlib.import_module("torch")
    stages.ends("import torch")
    importlib.import_module("transformers.modeling_utils")
    stages.ends("import transformers.modeling_utils")
    importlib.import_module("attribot_rag.cli")
    stages.ends("import the rest")

    from attribot_rag import Attributor, load_model
    from attribot_rag.corpus.chunks import read_chunks, retrieve

    documents = retrieve(QUESTION, read_chunks([CORPUS]), 4)
    stages.ends("retrieval")
    attributor = Attributor(load_model(), progress=False)
    stages.ends("loading the model")
    attributor.ask(QUESTION, documents)
    stages.ends("answer and attribution")


if __name__ == "__main__":
    main()
