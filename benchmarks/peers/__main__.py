"""Other attribution libraries on the same answers, judged by exact leave-one-out.

    python -m benchmarks.peers --hotpotqa hotpotqa_distractor_40.json --squad squad_v2_dev.json

The questions are the first that `attribot-rag evaluate` draws, with its prompt; the embedded model
answers them once. Each peer has a virtual environment of its own, under the folder (`--folder`).
What is there is not computed again: the same command goes on. docs/evaluation/peers.md says what
is compared.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from attribot_rag import load_model
from attribot_rag.evaluation.results import ResultStore, ScoreRecord
from attribot_rag.evaluation.setting import hardware
from attribot_rag.model.smollm2 import smollm2_folder
from benchmarks import ROOT
from benchmarks.peers.cases import Case, answered, questions, write
from benchmarks.peers.environment import PeerFailed, attribute, python_for
from benchmarks.peers.peer import LEAVE_ONE_OUT, PEERS
from benchmarks.peers.runners.runner import read
from benchmarks.peers.table import Row, Scores, table
from benchmarks.questions import add_files, files

EVALUATION = ROOT / "docs" / "evaluation" / "results.jsonl"
"""Its exact and masked scores are taken where the answers are the same."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_files(parser)
    parser.add_argument("--examples", type=int, default=5, help="questions of each data set")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "peers")
    parser.add_argument("--peers", nargs="+", choices=sorted({peer.file for peer in PEERS}))
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.folder.mkdir(parents=True, exist_ok=True)
    examples = questions(files(parser, options), options.examples)
    cases = answered(examples, load_model(), options.folder / "cases.json")
    path = options.folder / "asked.json"
    write(cases, path)
    results = ResultStore(EVALUATION)
    problems = {}
    for peer in PEERS:
        scored = evaluated(cases, results, peer.evaluated)
        if len(scored) < len(cases) if options.peers is None else peer.file in options.peers:
            try:
                python = python_for(peer, options.folder, os.environ.get("TORCH_INDEX"))
                attribute(peer, python, path, options.folder, smollm2_folder())
            except PeerFailed as error:
                problems[peer.name] = str(error)
    print(report(cases, options.folder, results, problems))


def report(
    cases: Sequence[Case], folder: Path, evaluation: ResultStore, problems: dict[str, str]
) -> str:
    """The table, and what failed."""
    truth: Scores = {}
    rows = []
    digests = {case.key: case.digest for case in cases}
    for peer in PEERS:
        of_evaluation = evaluated(cases, evaluation, peer.evaluated)
        scores = {key: record.scores for key, record in of_evaluation.items()}
        seconds = {
            key: record.seconds
            for key, record in of_evaluation.items()
            if (record.clock, record.hardware) == ("cpu", hardware())
        }
        for key, result in read(folder / f"{peer.file}.json").items():
            if result["digest"] == digests.get(key):
                if "error" in result:
                    problems[f"{peer.name}, {key}"] = result["error"]
                else:
                    scores[key], seconds[key] = result[peer.scores], result["seconds"]
        if peer is LEAVE_ONE_OUT:
            truth = scores
        rows.append(Row(peer.name, scores, seconds))
    title = f"{len(cases)} answers, {hardware()}, seconds of the processor"
    errors = (f"{name}: {error}" for name, error in problems.items())
    return "\n\n".join([title, table(rows, truth), *errors])


def evaluated(
    cases: Sequence[Case], results: ResultStore, method: str | None
) -> Mapping[str, ScoreRecord]:
    """The results of an evaluation's method for the same answers, by the keys of the cases."""
    records = {} if method is None else results.of_method(method)
    return {
        case.key: records[case.key]
        for case in cases
        if case.key in records and records[case.key].digest == case.answer_digest
    }


if __name__ == "__main__":
    main()
