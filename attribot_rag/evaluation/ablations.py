"""Which sources are removed together, to judge scores by what really happens."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator

from attribot_rag.evaluation.metrics import Found, best
from attribot_rag.evaluation.results import Answered

Removed = frozenset[int]

TOPS = (1, 3, 5)
"""How many of a method's best sources are removed together."""


def group_ablations(answered: Answered) -> list[Removed]:
    """Each document's sources."""
    groups: dict[int, set[int]] = defaultdict(set)
    for source_id, document in enumerate(answered.documents):
        groups[document].add(source_id)
    return [frozenset(held) for held in groups.values()]


def random_ablations(answered: Answered, count: int) -> list[Removed]:
    """Half of the sources each, drawn by the example's key; more begin with fewer."""
    chooser = random.Random(answered.key)
    num_sources = len(answered.documents)
    drawn = ([chooser.random() < 0.5 for _ in range(num_sources)] for _ in range(count))
    return [frozenset(index for index, gone in enumerate(row) if gone) for row in drawn]


def top_ablations(answered: Answered, scores: Iterable[Found]) -> Iterator[Removed]:
    """The best sources of each method, together."""
    for found in scores:
        for top in TOPS:
            chosen = best(found, top, answered.key)
            if len(chosen) == top:
                yield frozenset(chosen)
