"""How faithful each method is to exact leave-one-out, and what it costs.

    python -m benchmarks.faithfulness --hotpotqa FILE --squad FILE
    python -m benchmarks.faithfulness --hotpotqa FILE --time --methods auto masked

Answers are the model's own, greedy, with generation's cache taken over. Exact leave-one-out takes
most of the time; its scores are kept under `truth/` as numbers, without the texts. What was
computed once is not computed again: a run that was stopped goes on.

With --time, seconds are measured too (leave the machine alone): each method from its scorer to its
scores. Two are extrapolated from three rows spread evenly over the prompt: the reference scorer
with its head on the response's positions only, which is the naive loop that ratios refer to, and
our leave-one-out, by the tokens that it processes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from tqdm import tqdm

from attribot_rag import LanguageModel, load_model
from attribot_rag.context import Ablation
from attribot_rag.evaluation.metrics import (
    average_precision,
    exact_outliers,
    pearson,
    recall,
)
from attribot_rag.scoring import Scorer, ScoringModels, ScoringOptions
from benchmarks.faithfulness.answers import Answer, answer
from benchmarks.faithfulness.examples import Example, hotpotqa, squad
from benchmarks.faithfulness.methods import METHODS
from benchmarks.faithfulness.results import Result, ResultStore, table
from benchmarks.faithfulness.truth import TruthStore

HERE = Path(__file__).parent
NUM_TIMED_ROWS = 3


class Comparison:
    """Runs methods on answers, and remembers what came out."""

    def __init__(self, language_model: LanguageModel, results: ResultStore, timed: bool) -> None:
        self._language_model = language_model
        self._models = ScoringModels(language_model.model)
        self._truths = TruthStore(HERE / "truth" / "smollm2-135m.jsonl")
        self._results = results
        self._timed = timed
        self._naive_seconds: dict[str, float] = {}

    def run(self, one: Answer, method: str) -> Result:
        key, digest = one.example.key, one.digest
        return self._results.get(key, digest, method, lambda: self._measure(one, method))

    def _measure(self, one: Answer, method: str) -> Result:
        truth = self._truths.get(one, self._language_model, self._models)
        naive_seconds = self._naive(one) if self._timed else None
        exact = [sum(row) for row in truth.scores]
        totals: Sequence[float | None] = exact
        seconds = agreement = None
        tokens = truth.tokens
        if method == "leave-one-out":
            if self._timed:
                spent, measured = self._some_rows(one, "auto")
                seconds = round(spent * tokens / measured, 3)
        else:
            started = time.perf_counter()
            scorer = self._scorer(one)
            scores = METHODS[method].run(scorer)
            seconds = round(time.perf_counter() - started, 3) if self._timed else None
            totals, agreement, tokens = scores.totals, scores.agreement, scorer.usage.tokens
        wanted = exact_outliers(exact)
        length = len(one.generation.prompt_ids) + len(one.generation.response_ids) - 1
        return Result(
            key=truth.key,
            digest=truth.digest,
            method=method,
            num_sources=len(exact),
            average_precision=average_precision(totals, wanted) if wanted else None,
            recall=recall(totals, wanted, 5) if wanted else None,
            pearson=pearson(totals, exact),
            tokens=tokens,
            naive_tokens=length * (len(exact) + 1),
            agreement=agreement,
            seconds=seconds,
            naive_seconds=naive_seconds,
        )

    def _scorer(self, one: Answer, implementation: str = "auto") -> Scorer:
        options = ScoringOptions(implementation=implementation)
        return Scorer(
            self._language_model, one.generation, one.context, self._models, options=options
        )

    def _naive(self, one: Answer) -> float:
        """Seconds of leave-one-out by the reference, which reads every row whole."""
        key = one.example.key
        if key not in self._naive_seconds:
            seconds, _ = self._some_rows(one, "reference")
            num_rows = len(_spread(len(one.context.sources))) + 1  # and the full context's
            per_row = seconds / num_rows
            self._naive_seconds[key] = per_row * (len(one.context.sources) + 1)
        return round(self._naive_seconds[key], 3)

    def _some_rows(self, one: Answer, implementation: str) -> tuple[float, int]:
        """Seconds and tokens for some sources' rows."""
        scorer = self._scorer(one, implementation)
        ablations = [Ablation.of(index) for index in _spread(len(one.context.sources))]
        started = time.perf_counter()
        scorer.score(ablations)
        return time.perf_counter() - started, scorer.usage.tokens


def _spread(count: int) -> list[int]:
    places = ((number + 0.5) / NUM_TIMED_ROWS for number in range(NUM_TIMED_ROWS))
    return sorted({int(place * count) for place in places})


def examples(arguments: argparse.Namespace) -> Iterator[Example]:
    if arguments.squad:
        yield from squad(arguments.squad, 40, 4)
    if arguments.hotpotqa:
        yield from hotpotqa(arguments.hotpotqa, 20)
    if arguments.squad:
        yield from squad(arguments.squad, 10, 10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--hotpotqa", type=Path, help="JSON file, distractor setting: 20 questions")
    parser.add_argument(
        "--squad", type=Path, help="SQuAD 2.0 JSON file: 40 questions on 4 paragraphs, 10 on 10"
    )
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS, metavar="M")
    parser.add_argument("--time", action="store_true", help="measure seconds, on a quiet machine")
    parser.add_argument(
        "--results", type=Path, help="JSON lines; made next to this script if not given"
    )
    arguments = parser.parse_args()
    if not (arguments.hotpotqa or arguments.squad):
        parser.error("name a data file: --hotpotqa, --squad or both")
    name = "timed.jsonl" if arguments.time else "results.jsonl"
    store = ResultStore(arguments.results or HERE / name)
    language_model = load_model()
    comparison = Comparison(language_model, store, arguments.time)
    chosen = list(examples(arguments))
    answered = 0
    for example in tqdm(chosen, unit="question"):
        one = answer(example, language_model)
        if one is None:
            continue
        if arguments.time and not answered:
            METHODS["auto"].run(comparison._scorer(one))  # the first run makes twins and probes
        answered += 1
        for method in arguments.methods:
            comparison.run(one, method)
    keys = {example.key for example in chosen}
    results = [one for one in store.results if one.key in keys]
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}; {answered} answers")
    for data_set in dict.fromkeys(one.data_set for one in results):
        own = [one for one in results if one.data_set == data_set]
        examples_held = {one.key for one in own}
        with_outliers = {one.key for one in own if one.average_precision is not None}
        print(f"\n{data_set}: {len(examples_held)} answers, {len(with_outliers)} with outliers\n")
        print(table(own, arguments.methods))
    print("\nAll\n")
    print(table(results, arguments.methods))


if __name__ == "__main__":
    main()
