"""Which pieces of text say the same, so that they count as one source."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import zip_longest

from rapidfuzz.distance import OSA, Indel

# Scripts that put no spaces between words (Thai to Khmer, Japanese, Chinese): by character.
_UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")
_UNSPACED_LETTER = re.compile(f"[{_UNSPACED}]")
_SHINGLE_WORDS = 3
_COMMON_SHINGLE = 32
_LONG_WORD = 6
_SAME_SOUND = ({"s", "z"}, {"c", "s"}, {"i", "y"})  # organise, defence, tyre


def words(text: str) -> list[str]:
    """Words of a text; single characters in scripts without spaces."""
    return _WORD.findall(text)


def num_unspaced(text: str) -> int:
    """How many characters of a text are of a script without spaces."""
    return len(_UNSPACED_LETTER.findall(text))


def group_duplicates(texts: Sequence[str], *, threshold: float) -> list[list[int]]:
    """Indices of equal and near-equal texts, in groups ordered by their first member.

    Equal means equal up to white space and case. Near-equal means a normalised indel similarity
    (rapidfuzz) of at least `threshold` with a text in the same group, and the same words up to
    punctuation and the spelling of long ones: a number, a name or a "not" makes another fact. A
    threshold of 1 merges equal texts only.
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
            if root(left) == root(right):
                continue
            similarity = Indel.normalized_similarity(distinct[left], distinct[right])
            if similarity >= threshold and _same_words(distinct[left], distinct[right]):
                parents[root(right)] = root(left)

    merged: dict[int, list[int]] = defaultdict(list)
    for index, text in enumerate(distinct):
        merged[root(index)] += groups[text]
    return sorted(sorted(members) for members in merged.values())


def _same_words(left: str, right: str) -> bool:
    """Whether two texts differ in nothing but punctuation and the spelling of long words."""
    pairs = list(zip_longest(words(left), words(right), fillvalue=""))
    return all(one == other or _same_spelled_otherwise(one, other) for one, other in pairs)


def _same_spelled_otherwise(one: str, other: str) -> bool:
    """One letter more ("colours"), two changed about, or one for another that sounds the same.

    Beginnings must agree, since "possible" and "impossible" are no two spellings of one word; nor
    are "hypertension" and "hypotension", or "Petersen" and "Pedersen".
    """
    if min(len(one), len(other)) < _LONG_WORD or one[0] != other[0]:
        return False
    if not (one + other).isalpha() or OSA.distance(one, other) != 1:
        return False
    differing = [{a, b} for a, b in zip(one, other, strict=False) if a != b]
    return len(one) != len(other) or len(differing) == 2 or differing[0] in _SAME_SOUND


def _candidates(texts: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs of texts that share a run of words which is not common to many."""
    holders: dict[tuple[str, ...], set[int]] = defaultdict(set)
    for index, text in enumerate(texts):
        found = words(text)
        width = min(_SHINGLE_WORDS, len(found))
        for start in range(len(found) - width + 1 if width else 0):
            holders[tuple(found[start : start + width])].add(index)
    pairs = {
        (left, right)
        for members in holders.values()
        if 1 < len(members) <= _COMMON_SHINGLE
        for left in members
        for right in members
        if left < right
    }
    return sorted(pairs)
