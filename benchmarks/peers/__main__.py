"""Other attribution libraries on the same answers, judged by exact leave-one-out.

    python -m benchmarks.peers --hotpotqa hotpotqa_distractor_40.json --squad squad_v2_dev.json

The questions are the first that `benchmarks.experiment` draws, with its prompt; the embedded model
answers them once. Each peer has a virtual environment of its own, under the folder (`--folder`).
What is there is not computed again: the same command goes on. docs/evaluation/peers.md says what
is compared.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

import torch

from attribot_rag import load_model
from attribot_rag.model.loading import smollm2_folder
from benchmarks import ROOT
from benchmarks.experiment.setting import hardware
from benchmarks.peers.cases import answered, questions
from benchmarks.peers.peer import LEAVE_ONE_OUT, PEERS, PeerFailed, attribute, python_for
from benchmarks.peers.runners.runner import Case, read
from benchmarks.peers.table import Row, Scores, table
from benchmarks.questions import add_files, files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_files(parser)
    parser.add_argument("--examples", type=int, default=5, help="questions of each data set")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "peers")
    names = sorted({peer.file for peer in PEERS})
    parser.add_argument("--peers", nargs="+", choices=names, default=names)
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.folder.mkdir(parents=True, exist_ok=True)
    examples = questions(files(parser, options), options.examples)
    path = options.folder / "cases.json"
    cases = answered(examples, load_model(), path)
    problems = {}
    for peer in PEERS:
        if peer.file in options.peers:
            try:
                python = python_for(peer, options.folder, os.environ.get("TORCH_INDEX"))
                attribute(peer, python, path, options.folder, smollm2_folder())
            except PeerFailed as error:
                problems[peer.name] = str(error)
    print(report(cases, options.folder, problems))


def report(cases: Sequence[Case], folder: Path, problems: dict[str, str]) -> str:
    """The table, and what failed."""
    truth: Scores = {}
    rows = []
    digests = {case["key"]: case["digest"] for case in cases}
    for peer in PEERS:
        scores, seconds = {}, {}
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


if __name__ == "__main__":
    main()
