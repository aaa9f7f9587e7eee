"""Other attribution libraries on the same answers, judged by exact leave-one-out.

    python -m benchmarks.peers --hotpotqa hotpotqa_distractor_40.json --squad squad_v2_dev.json

The questions are the first that `attribot-rag evaluate` draws, with its prompt; the embedded model
answers them once. Each peer has a virtual environment of its own, under the folder (`--folder`).
What is there is not computed again: the same command goes on. docs/evaluation/peers.md says what
is compared.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from attribot_rag import load_model
from attribot_rag.evaluation.results import ResultStore
from attribot_rag.evaluation.setting import hardware
from attribot_rag.model.smollm2 import smollm2_folder
from attribot_rag.scoring.session import progress_bar
from benchmarks.peers.cases import Case, answered, questions, write
from benchmarks.peers.citations import cited_row
from benchmarks.peers.environment import ROOT, PeerFailed, attribute, python_for
from benchmarks.peers.peer import CITATIONS, LEAVE_ONE_OUT, PEERS, Peer
from benchmarks.peers.snippets import lines_of_code
from benchmarks.peers.table import Row, Scores, common, only, table, uses
from benchmarks.peers.truth import evaluated, seconds_here

DATA_SETS = ("hotpotqa", "squad")
PAGE = ROOT / "docs" / "evaluation" / "peers.md"
EVALUATION = ROOT / "docs" / "evaluation" / "results.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    for name in DATA_SETS:
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--examples", type=int, default=5, help="questions of each data set")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "peers")
    parser.add_argument("--peers", nargs="+", choices=sorted({one.file for one in PEERS}))
    parser.add_argument(
        "--evaluation",
        type=Path,
        default=EVALUATION,
        help="results whose exact and masked scores are taken where the answers are the same",
    )
    parser.add_argument("--torch-index", default=os.environ.get("TORCH_INDEX"))
    options = parser.parse_args()
    paths = {name: getattr(options, name) for name in DATA_SETS if getattr(options, name)}
    if not paths:
        parser.error("name a file with --hotpotqa or --squad")
    torch.set_num_threads(1)
    options.folder.mkdir(parents=True, exist_ok=True)
    examples = questions(paths, options.examples)
    with progress_bar(shown=True, doing="answering", unit="question") as progress:
        cases = answered(examples, load_model(), options.folder / "cases.json", progress)
    asked = options.folder / "asked.json"
    write(cases, asked)
    results = ResultStore(options.evaluation)
    problems = {}
    for peer in PEERS:
        known = evaluated(cases, results, peer.evaluated)
        if len(known) < len(cases) if options.peers is None else peer.file in options.peers:
            try:
                python = python_for(peer, options.folder, options.torch_index)
                attribute(peer, python, asked, options.folder, smollm2_folder())
            except PeerFailed as error:
                problems[peer.name] = str(error)
    print(report(cases, options.folder, results, problems))


def report(
    cases: Sequence[Case], folder: Path, evaluation: ResultStore, problems: dict[str, str]
) -> str:
    """The tables, and what failed."""
    lines = lines_of_code(PAGE.read_text())
    truth: Scores = {}
    rows = []
    for peer in PEERS:
        results = _results(peer, cases, folder)
        failed = {key: one["error"] for key, one in results.items() if "error" in one}
        if failed:
            problems[peer.name] = "; ".join(f"{key}: {error}" for key, error in failed.items())
        good = {key: one for key, one in results.items() if "error" not in one}
        if peer is CITATIONS:
            rows.append(cited_row(peer, cases, good, folder, lines.get(peer.section)))
            continue
        known = evaluated(cases, evaluation, peer.evaluated)
        scores = {key: one.scores for key, one in known.items()}
        scores |= {key: one[peer.scores] for key, one in good.items()}
        seconds = seconds_here(known, hardware())
        seconds |= {key: one["seconds"] for key, one in good.items()}
        if peer is LEAVE_ONE_OUT:
            truth = scores
        rows.append(Row(peer.name, scores, seconds, lines.get(peer.section), peer.shows))
    said = [f"{len(cases)} answers, {hardware()}, seconds of the processor", table(rows, truth)]
    shared = common(rows)
    if any(len(row.scores) > len(shared) for row in rows):
        said.append(f"Over the {len(shared)} that all of them have:")
        said.append(table([only(row, shared) for row in rows], truth))
    said.append(uses(rows))
    return "\n\n".join([*said, *(f"{name}: {error}" for name, error in problems.items())])


def _results(peer: Peer, cases: Sequence[Case], folder: Path) -> dict[str, dict[str, Any]]:
    """What the runner kept of these cases, by their keys."""
    path = folder / f"{peer.file}.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    return {
        case.key: kept[case.key]
        for case in cases
        if kept.get(case.key, {}).get("digest") == case.digest
    }


if __name__ == "__main__":
    main()
