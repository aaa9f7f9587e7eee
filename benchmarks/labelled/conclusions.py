"""Conclusions from two documents: chains, comparisons, sums, and "both … and"."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from benchmarks.halves import Split
from benchmarks.labelled.case_builder import cite
from benchmarks.labelled.cases import ExpectedVerdict, LabelledCase

_FILE = Path(__file__).with_name("conclusions.json")


def conclusions(split: Split) -> Iterator[LabelledCase]:
    """The hand-written cases of one half; each sentence needs one source of each document."""
    for number, case in enumerate(json.loads(_FILE.read_text(encoding="utf-8"))):
        if case["split"] == split:
            turn = number % len(case["documents"])
            documents = (*case["documents"][turn:], *case["documents"][:turn])
            sources = cite(documents, *case["needs"])
            together = ExpectedVerdict(verdict="redundant", sources=sources, relation="together")
            yield LabelledCase(
                id=case["id"],
                kind=case["kind"],
                split=split,
                question=case["question"],
                documents=documents,
                shown=documents,
                answer=case["answer"],
                expected=(
                    ExpectedVerdict(verdict="grounded", sources=sources, acceptable=(together,)),
                ),
            )
