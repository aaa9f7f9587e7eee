"""Which pieces of text say the same, so that they count as one source."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from rapidfuzz.distance import Indel

_WORD = re.compile(r"\w+")
_DIGITS = re.compile(r"\d+")
_SHINGLE_WORDS = 3
_COMMON_SHINGLE = 32


def group_duplicates(texts: Sequence[str], *, threshold: float) -> list[list[int]]:
    """Indices of equal and near-equal texts, in groups ordered by their first member.

    Equal means equal up to white space and case. Near-equal means a normalised indel similarity
    (rapidfuzz) of at least `threshold` with a text in the same group, and the same numbers in the
    same order: "in 1648" and "in 1649" are two facts. A threshold of 1 merges equal texts only.
    Only texts that share a run of three words are compared, and runs that more than 32 texts
    share do not count, so the work does not grow with the square of the number of texts.
    """
    normalised = [" ".join(text.split()).casefold() for text in texts]
    groups: dict[str, list[int]] = defaultdict(list)
    for index, text in enumerate(normalised):
        groups[text].append(index)
    distinct = list(groups)
    parents = list(range(len(distinct)))

    def root(index: int) -> int:
        while parents[index] != index:
            parents[index] = parents[parents[index]]
            index = parents[index]
        return index

    if threshold < 1:
        for left, right in _candidates(distinct):
            same_numbers = _DIGITS.findall(distinct[left]) == _DIGITS.findall(distinct[right])
            if same_numbers and root(left) != root(right):
                similarity = Indel.normalized_similarity(
                    distinct[left], distinct[right], score_cutoff=threshold
                )
                if similarity >= threshold:
                    parents[root(right)] = root(left)

    merged: dict[int, list[int]] = defaultdict(list)
    for index, text in enumerate(distinct):
        merged[root(index)] += groups[text]
    return sorted(sorted(members) for members in merged.values())


def _candidates(texts: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs of texts that share a run of words which is not common to many."""
    holders: dict[tuple[str, ...], set[int]] = defaultdict(set)
    for index, text in enumerate(texts):
        words = _WORD.findall(text)
        width = min(_SHINGLE_WORDS, len(words))
        for start in range(len(words) - width + 1 if width else 0):
            holders[tuple(words[start : start + width])].add(index)
    pairs = {
        (left, right)
        for members in holders.values()
        if 1 < len(members) <= _COMMON_SHINGLE
        for left in members
        for right in members
        if left < right
    }
    return sorted(pairs)
