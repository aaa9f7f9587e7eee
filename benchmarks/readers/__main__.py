r"""Whether a reader supports what people found attributable, and finds the place of an answer.

    python -m benchmarks.readers attributionbench_dev.jsonl --squad squad_v2_dev_6_articles.json \
        --hotpotqa hotpotqa_distractor_40.json [--model MODEL] [--most N] [--as-cause]

A model that did not give the answers reads each claim after its references and its question. The
claims of AttributionBench are judged by what it relies on, "The answer is X." of SQuAD and HotpotQA
by what it cites. For each way to judge, and for baselines, the limit is chosen on one half of the
claims and reported on the other; the verdicts have the limits that they always have.

Rows are kept in a folder: a run that was stopped goes on, and with other rules only new rows are
scored. `readings.jsonl` there has what was measured of each claim.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch
from scipy.stats import bootstrap
from tqdm import tqdm

from attribot_rag import load_model
from attribot_rag.methods.limits import READER_LIMITS, Limits
from benchmarks import ROOT
from benchmarks.experiment.setting import hardware
from benchmarks.experiment.tables import markdown_table
from benchmarks.halves import SPLITS, Split, share
from benchmarks.labelled.row_cache import CachingAttributor, RowStore
from benchmarks.models import add_model
from benchmarks.readers.claims import (
    ANSWERED,
    Claim,
    hotpotqa_answers,
    in_turn,
    judged_claims,
    set_of,
    squad_answers,
)
from benchmarks.readers.measures import (
    BASELINES,
    FITTING,
    READERS,
    area_under_curve,
    best_limit,
    macro_f1,
)
from benchmarks.readers.places import best_fitting_limit, fitting, outcome
from benchmarks.readers.reading import Reading, read, write

Half = Sequence[Reading]
FIXED = (
    ("reliance per token", READER_LIMITS.min_per_token),
    ("reliance, nats", Limits().min_reliance),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("claims", type=Path, nargs="?", help="AttributionBench's")
    parser.add_argument("--squad", type=Path)
    parser.add_argument("--hotpotqa", type=Path)
    add_model(parser)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "readers")
    parser.add_argument("--most", type=int, help="of each half of SQuAD and of HotpotQA")
    parser.add_argument("--as-cause", action="store_true", help="by the limits of a cause")
    options = parser.parse_args()
    torch.set_num_threads(1)
    halves = [_claims(options, split) for split in SPLITS]
    reader = load_model(options.model)
    attributor = CachingAttributor(reader, RowStore(options.folder))
    claims = tqdm(in_turn(*halves), unit="claim", mininterval=10)
    answered_by = None if options.as_cause else ""
    found = (read(attributor, claim, answered_by) for claim in claims)
    readings = [reading for reading in found if reading is not None]
    write(readings, options.folder / "readings.jsonl")
    chosen, reported = ([each for each in readings if each.claim in half] for half in halves)
    print(f"{reader.name}, {hardware()}; chosen on {len(chosen)} claims, {len(reported)} reported")
    for name in ("AttributionBench", *ANSWERED):
        of_set = [
            [each for each in half if set_of(each.claim) == name] for half in (chosen, reported)
        ]
        if all(of_set):
            print(f"\n{name}\n\n{(_placed if name in ANSWERED else _judged)(*of_set)}")


def _claims(options: argparse.Namespace, split: Split) -> list[Claim]:
    sets = [judged_claims(options.claims, split)] if options.claims else []
    if options.squad:
        sets.append(squad_answers(options.squad, split)[: options.most])
    if options.hotpotqa:
        sets.append(hotpotqa_answers(options.hotpotqa, split)[: options.most])
    return in_turn(*sets)


def _judged(chosen: Half, reported: Half) -> str:
    """A row for each way to judge whether the references support a claim."""
    header = ["by", "limit", "macro-F1 (95 %)", "area", "of attributable claims", "of others"]
    judges = READERS | BASELINES
    limits = {name: best_limit(*_values(judge, chosen)) for name, judge in judges.items()}
    rows = [_line(name, limit, judges[name], reported) for name, limit in limits.items()]
    fixed = [
        _line(f"{name}, the limit of verdicts", limit, judges[name], reported)
        for name, limit in FIXED
    ]
    return markdown_table(header, [*fixed, *rows])


def _line(name: str, limit: float, judge: Callable[[Reading], float], reported: Half) -> list[str]:
    values, labels = _values(judge, reported)
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
    return [
        name,
        f"{limit:.2f}",
        f"{macro_f1(found, labels):.2f} ({low:.2f} to {high:.2f})",
        f"{area_under_curve(values, labels):.2f}",
        share(yes, sum(labels)),
        share(no, len(labels) - sum(labels)),
    ]


def _values(judge: Callable[[Reading], float], half: Half) -> tuple[list[float], list[bool]]:
    return [judge(reading) for reading in half], [each.claim.attributable for each in half]


def _placed(chosen: Half, reported: Half) -> str:
    """A row for each way to find the sentence that holds an answer."""
    ways: dict[str, Callable[[Reading], Sequence[int]]] = {"verdicts": lambda each: each.cited}
    for name in FITTING:
        limit = best_fitting_limit(name, chosen)
        ways[f"{name}, {limit:.2f}"] = partial(fitting, name, limit=limit)
    rows = []
    for way, cites in ways.items():
        given = Counter((each.claim.attributable, outcome(each, cites(each))) for each in reported)
        num_true = sum(each.claim.attributable for each in reported)
        rows.append(
            [
                way,
                share(given[True, "right"], num_true),
                share(given[True, "false"], num_true),
                share(given[False, "false"], len(reported) - num_true),
            ]
        )
    header = ["cites", "the right sentence", "a wrong one", "any, where none holds the answer"]
    return markdown_table(header, rows)


if __name__ == "__main__":
    main()
