"""How well the scores of one model stand in for those of another, from results that are there.

    python -m benchmarks.experiment --hotpotqa hotpotqa_distractor_40.json --model TARGET \
        --proxy OTHER --methods proxy --output FOLDER
    python -m benchmarks.proxies FOLDER...

    python -m benchmarks.experiment ... --model OTHER --proxy TARGET --turned FOLDER --output THERE

Correlations are with all exact leave-one-out scores of the target. Pruning keeps the sources that
the proxy ranks best, so the share of the target's outliers among so many is that of pruning by it,
and mAP among so many is that of pruning in the full prompt, which gives them their exact scores. As
leave-one-out by both models is known, a second row has the proxy as target, and the target as its
proxy.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks.experiment.grid import KEPT_BY_PROXY as KEPT
from benchmarks.experiment.grid import PROXY
from benchmarks.experiment.measures import FAITHFULNESS, Measure, MeasuredCase, cases, summary
from benchmarks.experiment.metrics import average_precision, best, pearson, recall, spearman
from benchmarks.experiment.results import ResultStore
from benchmarks.experiment.run import RESULTS
from benchmarks.experiment.tables import markdown_table

_NAME = re.compile(r"language_model=(.+?) \(")


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
            yield _row(target, data_set, method, of_method)
            if method == PROXY:
                named = _NAME.search(of_method[0].scored.options)
                exchanged = [*map(_exchanged, of_method)]
                yield _row(named[1] if named else "its proxy", data_set, method, exchanged)


def _exchanged(case: MeasuredCase) -> MeasuredCase:
    """The same answer with the proxy as target."""
    scored = replace(case.scored, scores=case.exact)
    return replace(case, scored=scored, exact=case.scored.scores)


def _row(target: str, data_set: str, method: str, of_method: Sequence[MeasuredCase]) -> list[str]:
    values = (summary(measure, of_method) for measure in _MEASURES)
    num_outliers = sum(len(case.outliers) for case in of_method)
    shown = ("–" if value is None else f"{value:.2f}" for value in values)
    return [target, data_set, method, str(len(of_method)), str(num_outliers), *shown]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    print(table([ResultStore(folder / RESULTS) for folder in options.folders]))


if __name__ == "__main__":
    main()
