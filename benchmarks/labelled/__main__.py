"""The share of labelled sentences with the expected verdict and citations.

    python -m benchmarks.labelled [--split held_out] [--kinds two_facts three_facts] [--model MODEL]
    python -m benchmarks.labelled --conclusions [--split held_out] [--model MODEL]

Thresholds of verdicts may be set by the calibration half, whose wrong cases are printed. For the
held-out half only counts are printed, unless `--held-out-cases` is given.

Scored rows are cached in a folder (`--cache`), so only the first run takes long.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tqdm import tqdm

from benchmarks.halves import add_halves, shows_cases
from benchmarks.labelled.applicability import worths
from benchmarks.labelled.conclusions import conclusions
from benchmarks.labelled.kinds import CASES_PER_KIND, KINDS, cases_of
from benchmarks.labelled.outcome import judge_case
from benchmarks.labelled.report import kinds_table, totals_table, wrong_cases
from benchmarks.labelled.row_cache import CachingAttributor, RowStore
from benchmarks.models import add_model, load_chat_model

CACHE = Path.home() / ".cache" / "attribot_rag" / "labelled"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_halves(parser)
    add_model(parser)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=[*KINDS], metavar="KIND")
    parser.add_argument("--first", type=int, default=CASES_PER_KIND, help="cases of each kind")
    parser.add_argument(
        "--conclusions", action="store_true", help="hand-written sentences of two sources instead"
    )
    parser.add_argument("--cache", type=Path, default=CACHE, metavar="FOLDER")
    options = parser.parse_args()
    store = RowStore(options.cache)
    attributor = CachingAttributor(load_chat_model(options.model), store)
    cases = (
        conclusions(options.split)
        if options.conclusions
        else cases_of(options.split, options.kinds, options.first)
    )
    outcomes = [
        outcome
        for case in tqdm([*cases], unit="case")
        for outcome in judge_case(attributor, case, worths(attributor, case))
    ]
    print(f"{kinds_table(outcomes)}\n\n{totals_table(outcomes)}")
    if shows_cases(options):
        print("\nwrong or not applicable:\n", *wrong_cases(outcomes), sep="\n  ")
    print(f"\nrows read from the cache: {store.known}, scored: {store.new}")


if __name__ == "__main__":
    main()
