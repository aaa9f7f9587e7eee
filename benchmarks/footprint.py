"""The memory that is estimated before a prompt is read, and the peak that scoring then takes.

    python -m benchmarks.footprint HOTPOTQA.json --example 4 --sources 2

The prompt's cache is not taken over, so that it counts. Run each prompt in a process of its own,
because the allocator keeps what it once had.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from attribot_rag import load_model
from attribot_rag.context import Ablation
from attribot_rag.scoring import Scorer, ScoringModels
from benchmarks.examples import answer, hotpotqa
from benchmarks.speed import PeakMemory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("hotpotqa", type=Path, help="JSON, distractor setting")
    parser.add_argument("--example", type=int, default=4, help="which question, from 0")
    parser.add_argument("--sources", type=int, help="score only so many; all by default")
    arguments = parser.parse_args()
    language_model = load_model()
    answered = answer(hotpotqa(arguments.hotpotqa, arguments.example + 1)[-1], language_model)
    assert answered is not None
    generation = replace(answered.generation, cache=None)
    models = ScoringModels(language_model.model)
    scorer = Scorer(language_model, generation, answered.context, models)
    footprint = scorer._engine.footprint  # what is checked, and told in the error
    assert footprint is not None
    units = [*scorer.units][: arguments.sources]
    with PeakMemory(language_model.device) as memory:
        scorer.score([Ablation.of(*unit) for unit in units])
    print(
        f"{len(generation.prompt_ids)} prompt tokens, {len(generation.response_ids)} of the "
        f"response, {len(units)} of {len(scorer.units)} sources: estimated "
        f"{footprint.least / 1e6:.0f} MB, measured {memory.extra / 1e6:.0f} MB"
    )


if __name__ == "__main__":
    main()
