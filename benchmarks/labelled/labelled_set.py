"""All cases: equally many of every kind in both halves."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from benchmarks.labelled.cases import SPLITS, LabelledCase, Split
from benchmarks.labelled.facts import LANGUAGES, Stock
from benchmarks.labelled.kinds import KINDS

CASES_PER_KIND = 8
# Of the kinds' number and the attributes' no multiple of one another: all attributes get used.
_STEP = 5


def labelled_set() -> list[LabelledCase]:
    """The cases of both halves, equal at every call."""
    return [case for split in SPLITS for case in cases_of(split)]


def cases_of(
    split: Split, kinds: Collection[str] = tuple(KINDS), first: int = CASES_PER_KIND
) -> Iterator[LabelledCase]:
    """The first cases of these kinds in one half."""
    for number, (kind, build) in enumerate(KINDS.items()):
        language = kind if kind in LANGUAGES else "english"
        for index in range(first if kind in kinds else 0):
            yield build(Stock(split, kind, index, _STEP * number, language))
