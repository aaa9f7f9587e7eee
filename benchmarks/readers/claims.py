"""Claims of models' answers with their references, labelled by people (AttributionBench)."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from benchmarks.halves import SPLITS, Split


@dataclass(frozen=True)
class Claim:
    """One sentence or more of an answer; `attributable` says whether people found it supported.

    `source` is the set of which AttributionBench took it.
    """

    id: str
    source: str
    question: str
    claim: str
    references: tuple[str, ...]
    attributable: bool


def claims_of(path: Path, split: Split) -> list[Claim]:
    """A half of the claims: of each source and label, in the order of their ids, every second."""
    groups: dict[tuple[str, bool], list[Claim]] = defaultdict(list)
    for line in path.read_text(encoding="utf-8").splitlines():
        fields = json.loads(line)
        claim = Claim(**{**fields, "references": tuple(fields["references"])})
        groups[claim.source, claim.attributable].append(claim)
    first = SPLITS.index(split)
    by_id = (sorted(group, key=lambda claim: claim.id) for group in groups.values())
    return [claim for group in by_id for claim in group[first::2]]
