"""How well the scores of one model stand in for those of another, from results that are there.

    python -m benchmarks.experiment --hotpotqa hotpotqa_distractor_40.json --model TARGET \
        --proxy OTHER --methods proxy --output FOLDER
    python -m benchmarks.proxies FOLDER...

    python -m benchmarks.experiment ... --model OTHER --proxy TARGET --turned FOLDER --output THERE

Correlations are with all exact leave-one-out scores of the target. Pruning keeps the sources that
the proxy ranks best, so the share of the target's outliers among so many is that of pruning by it,
and mAP among so many is that of pruning in the full prompt, which gives them their exact scores.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.experiment.grid import KEPT_BY_PROXY as KEPT
from benchmarks.experiment.measures import FAITHFULNESS, Measure, MeasuredCase, cases, summary
from benchmarks.experiment.metrics import average_precision, best, pearson, recall, spearman
from benchmarks.experiment.results import ResultStore
from benchmarks.experiment.run import RESULTS
from benchmarks.experiment.tables import markdown_table


def _outliers_kept(kept: int, case: MeasuredCase) -> float | None:
    return recall(case.scored.scores, case.outliers, kept)


def _exact_among(kept: int, case: MeasuredCase) -> float | None:
    chosen = best(case.scored.scores, kept, case.answered.key)
    exact = [score if index in chosen else None for index, score in enumerate(case.exact)]
    return average_precision(exact, case.outliers)


_MEASURES = (
    FAITHFULNESS,
    Measure("Pearson", lambda case: pearson(case.scored.scores, case.exact)),
    Measure("Spearman", lambda case: spearman(case.scored.scores, case.exact)),
    *(Measure(f"outliers among {kept}", partial(_outliers_kept, kept)) for kept in KEPT),
    *(Measure(f"mAP among {kept}", partial(_exact_among, kept)) for kept in KEPT),
)


def table(stores: list[ResultStore]) -> str:
    """A row for each target, data set and method with a proxy: means over answers."""
    rows = [row for store in stores for row in _rows(store)]
    names = [measure.name for measure in _MEASURES]
    return markdown_table(["target", "data set", "method", "answers", "outliers", *names], rows)


def _rows(store: ResultStore) -> Iterator[list[str]]:
    target = store.settings[-1].model if store.settings else ""
    for data_set in store.data_sets():
        for method in store.methods():
            of_method = [*cases(store, method, data_set)]
            if not method.startswith("proxy") or not of_method:
                continue
            values = (summary(measure, of_method) for measure in _MEASURES)
            num_outliers = sum(len(case.outliers) for case in of_method)
            shown = ("–" if value is None else f"{value:.2f}" for value in values)
            yield [target, data_set, method, str(len(of_method)), str(num_outliers), *shown]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    print(table([ResultStore(folder / RESULTS) for folder in options.folders]))


if __name__ == "__main__":
    main()
