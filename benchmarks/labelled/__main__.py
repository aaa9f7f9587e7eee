"""The share of labelled sentences with the expected verdict and citations.

    python -m benchmarks.labelled [--split held_out] [--kinds two_facts three_facts]

Thresholds of verdicts may be set by the calibration half, whose wrong cases are printed. For the
held-out half only counts are printed, unless `--held-out-cases` is given. `--applicability` judges
nothing: it counts the labels that do not apply to the model.

Scored rows are cached in a folder (`--cache`), so only the first run takes long.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from tqdm import tqdm

from attribot_rag import load_model
from benchmarks.labelled.applicability import worths
from benchmarks.labelled.cases import SPLITS, LabelledCase
from benchmarks.labelled.kinds import KINDS
from benchmarks.labelled.labelled_set import CASES_PER_KIND, cases_of
from benchmarks.labelled.outcome import SentenceOutcome, judge_case
from benchmarks.labelled.report import (
    confusion_table,
    kinds_table,
    not_applicable,
    totals_table,
    wrong_cases,
)
from benchmarks.labelled.row_cache import CachingAttributor, RowStore

CACHE = Path.home() / ".cache" / "attribot_rag" / "labelled"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--split", choices=SPLITS, default="calibration")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=[*KINDS], metavar="KIND")
    parser.add_argument("--first", type=int, default=CASES_PER_KIND, help="cases of each kind")
    parser.add_argument("--cache", type=Path, default=CACHE, metavar="FOLDER")
    parser.add_argument("--held-out-cases", action="store_true")
    parser.add_argument("--applicability", action="store_true")
    options = parser.parse_args()
    store = RowStore(options.cache)
    attributor = CachingAttributor(load_model(), store)
    cases = [*cases_of(options.split, options.kinds, options.first)]
    if options.applicability:
        _count_applicable(attributor, cases)
    else:
        judged: list[SentenceOutcome] = []
        for case in tqdm(cases, unit="case"):
            judged += judge_case(attributor, case, worths(attributor, case))
        _report(judged, with_cases=options.split == "calibration" or options.held_out_cases)
    print(f"\nrows read from the cache: {store.known}, scored: {store.new}")


def _count_applicable(attributor: CachingAttributor, cases: list[LabelledCase]) -> None:
    refused = {case.kind: Counter[str]() for case in cases}
    for case in tqdm(cases, unit="case"):
        for one in worths(attributor, case):
            refused[case.kind]["sentences"] += 1
            refused[case.kind]["not applicable"] += one.reason is not None
    for kind, counts in refused.items():
        print(f"{kind}: {counts['not applicable']} of {counts['sentences']} not applicable")


def _report(judged: list[SentenceOutcome], *, with_cases: bool) -> None:
    tables = [kinds_table(judged), totals_table(judged), confusion_table(judged)]
    print("\n\n".join(tables))
    if with_cases:
        print("\nnot applicable:\n", *not_applicable(judged), sep="\n  ")
        print("\nwrong:\n", *wrong_cases(judged), sep="\n  ")


if __name__ == "__main__":
    main()
