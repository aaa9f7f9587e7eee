"""What engines without the postprocessor pay for it, once it is used anywhere in the process.

    python -m benchmarks.llama_index_overhead

Its span handler sees every span of the process. Runs with it and without it alternate, on an engine
whose model says a word at once, which is the most that it can weigh.
"""

from __future__ import annotations

import argparse
import statistics
import time

from llama_index.core import Settings, VectorStoreIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.schema import TextNode
from llama_index.postprocessor.attribot.query_tracker import installed
from llama_index_instrumentation import get_dispatcher

from attribot_rag.evaluation.setting import hardware


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    rounds = parser.parse_args().rounds
    Settings.llm = MockLLM(max_tokens=1)
    nodes = [TextNode(text=f"House number {number} has a blue door.") for number in range(8)]
    engine = VectorStoreIndex(nodes, embed_model=MockEmbedding(8)).as_query_engine()
    handlers = get_dispatcher().span_handlers
    ours = installed()
    handlers.remove(ours)
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for number in range(2 * rounds + 20):  # the first ones only warm up
        with_ours = number % 2 == 0
        if with_ours:
            handlers.append(ours)
        started = time.perf_counter()
        engine.query("Which door?")
        if number >= 20:
            seconds[with_ours].append(time.perf_counter() - started)
        if with_ours:
            handlers.remove(ours)
    with_it, without = (1e3 * statistics.median(seconds[which]) for which in (True, False))
    print(
        f"a query on a model that costs nothing, median of {rounds}: {without:.2f} ms without, "
        f"{with_it:.2f} ms with it: {with_it - without:+.3f} ms, {with_it / without:.3f} times"
    )
    print(hardware())


if __name__ == "__main__":
    main()
