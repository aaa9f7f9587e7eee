"""Sources that are removed together; scores are judged by the exact effect of the removal."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator

from attribot_rag.evaluation.metrics import SourceScores, best
from attribot_rag.evaluation.results import AnswerRecord

SourceSet = frozenset[int]

TOPS = (1, 3, 5)
"""The numbers of a method's best sources that are removed together."""


def group_ablations(answered: AnswerRecord) -> list[SourceSet]:
    """The sources of each document."""
    groups: dict[int, set[int]] = defaultdict(set)
    for source_id, document in enumerate(answered.documents):
        groups[document].add(source_id)
    return [frozenset(group) for group in groups.values()]


def random_ablations(answered: AnswerRecord, count: int) -> list[SourceSet]:
    """Random halves of the sources, seeded by the example's key; more begin with fewer."""
    generator = random.Random(answered.key)
    num_sources = len(answered.documents)
    return [
        frozenset(index for index in range(num_sources) if generator.random() < 0.5)
        for _ in range(count)
    ]


def top_ablations(answered: AnswerRecord, methods: Iterable[SourceScores]) -> Iterator[SourceSet]:
    """The best sources by each method's scores, if it scored as many."""
    for scores in methods:
        for top in TOPS:
            chosen = best(scores, top, answered.key)
            if len(chosen) == top:
                yield frozenset(chosen)
