"""Whether a reader supports the claims that people found attributable.

    python -m benchmarks.readers attributionbench_dev.jsonl [--model MODEL] [--folder FOLDER]

A model that did not give the answers reads each claim after its references and its question, and
says by how much it relies on them. For each way to judge by that, and for baselines, the limit is
chosen on one half of the claims (by macro-F1) and reported on the other.

Rows are kept in a folder: a run that was stopped goes on, and with other rules only new rows are
scored.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch
from scipy.stats import bootstrap
from tqdm import tqdm

from attribot_rag import load_model
from benchmarks import ROOT
from benchmarks.experiment.setting import hardware
from benchmarks.halves import SPLITS
from benchmarks.labelled.row_cache import CachingAttributor, RowStore
from benchmarks.readers.claims import Claim, claims_of
from benchmarks.readers.measures import (
    BASELINES,
    READERS,
    area_under_curve,
    best_limit,
    macro_f1,
)
from benchmarks.readers.reading import Reading, read

Half = list[tuple[Claim, Reading]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("claims", type=Path)
    parser.add_argument("--model", default=None, help="the reader; by default the embedded model")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "readers")
    parser.add_argument("--most", type=int, default=None, help="claims of each half")
    options = parser.parse_args()
    torch.set_num_threads(1)
    reader = load_model(options.model) if options.model else load_model()
    attributor = CachingAttributor(reader, RowStore(options.folder))
    chosen, reported = (
        _readings(attributor, claims_of(options.claims, split)[: options.most]) for split in SPLITS
    )
    print(f"{reader.name}, {hardware()}; chosen on {len(chosen)} claims\n")
    print("| by | limit | macro-F1 (95 %) | area | supported | of attributable | of others |")
    print("|---|--:|---|--:|---|---|---|")
    for name in [*READERS, *BASELINES]:
        print(_line(name, chosen, reported))


def _readings(attributor: CachingAttributor, claims: Sequence[Claim]) -> Half:
    read_claims = ((claim, read(attributor, claim)) for claim in tqdm(claims, unit="claim"))
    return [(claim, reading) for claim, reading in read_claims if reading is not None]


def _line(name: str, chosen: Half, reported: Half) -> str:
    values, labels = _values(name, chosen), [claim.attributable for claim, _ in chosen]
    limit = best_limit(values, labels)
    values, labels = _values(name, reported), [claim.attributable for claim, _ in reported]
    found = [value >= limit for value in values]
    low, high = bootstrap(
        (found, labels),
        lambda found, labels: macro_f1([*found], [*labels]),
        paired=True,
        vectorized=False,
        n_resamples=999,
        method="percentile",
        random_state=1,
    ).confidence_interval
    yes = sum(a and b for a, b in zip(found, labels, strict=True))
    no = sum(a and not b for a, b in zip(found, labels, strict=True))
    return (
        f"| {name} | {limit:.2f} | {macro_f1(found, labels):.2f} ({low:.2f} to {high:.2f}) "
        f"| {area_under_curve(values, labels):.2f} | {sum(found)} of {len(found)} "
        f"| {yes} of {sum(labels)} | {no} of {len(labels) - sum(labels)} |"
    )


def _values(name: str, half: Half) -> list[float]:
    if name in READERS:
        return [READERS[name](reading) for _, reading in half]
    return [BASELINES[name](claim) for claim, _ in half]


if __name__ == "__main__":
    main()
