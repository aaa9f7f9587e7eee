"""Peak memory of a method beyond the model and the generation's cache.

    python -m benchmarks.memory HOTPOTQA.json --method auto
    python -m benchmarks.memory HOTPOTQA.json --method leave_one_out

One prompt, after a warm-up on another one; run each method in a process of its own, because the
allocator keeps what it once had.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from attribot_rag import load_model
from attribot_rag.methods import METHODS
from attribot_rag.scoring import Scorer, ScoringModels
from benchmarks.examples import answer, hotpotqa
from benchmarks.speed import PeakMemory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("hotpotqa", type=Path, help="JSON, distractor setting")
    parser.add_argument("--method", choices=METHODS, default="auto")
    parser.add_argument("--example", type=int, default=4, help="which question, from 0")
    arguments = parser.parse_args()
    language_model = load_model()
    models = ScoringModels(language_model.model)
    examples = hotpotqa(arguments.hotpotqa, arguments.example + 1)
    warm_up, measured = (answer(examples[i], language_model) for i in (0, arguments.example))
    assert warm_up is not None and measured is not None
    first = Scorer(language_model, warm_up.generation, warm_up.context, models)
    first.score([first.context.whole])
    scorer = Scorer(language_model, measured.generation, measured.context, models)
    with PeakMemory(language_model.device) as memory:
        METHODS[arguments.method]().run(scorer)
    print(
        f"{arguments.method}: {memory.extra / 2**20:.0f} MiB beyond the start, "
        f"{len(measured.generation.prompt_ids)} prompt tokens, {len(scorer.units)} sources, "
        f"{scorer.usage.tokens} tokens in {scorer.usage.forward_passes} passes; "
        f"{sum(p.numel() for p in language_model.model.parameters()) / 1e6:.0f}M parameters"
    )


if __name__ == "__main__":
    main()
