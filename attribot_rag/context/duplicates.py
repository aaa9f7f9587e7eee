"""Equal and near-equal texts, which are a single source."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations, zip_longest

from rapidfuzz.distance import OSA, Indel
from scipy.cluster.hierarchy import DisjointSet

from attribot_rag.context.words import words

_SHINGLE_WORDS = 3
_COMMON_SHINGLE = 32
_LONG_WORD = 6
_SAME_SOUND = ({"s", "z"}, {"c", "s"}, {"i", "y"})  # organise, defence, tyre


def group_duplicates(texts: Sequence[str], *, threshold: float) -> list[list[int]]:
    """Indices of equal and near-equal texts, in groups ordered by their first member.

    Equal means equal up to white space and case. Near-equal means a normalised indel similarity
    (rapidfuzz) of at least `threshold` with a text in the same group, and the same words up to
    punctuation and the spelling of long words: a different number, name or "not" states another
    fact. A threshold of 1 merges equal texts only.
    Only texts that share three consecutive words are compared, unless more than 32 texts share
    them, so that the work does not grow with the square of the number of texts.
    """
    normalised = [" ".join(text.split()).casefold() for text in texts]
    groups: dict[str, list[int]] = defaultdict(list)
    for index, text in enumerate(normalised):
        groups[text].append(index)
    distinct = list(groups)
    alike = DisjointSet(distinct)
    if threshold < 1:
        for left, right in _candidates(distinct):
            if alike.connected(left, right):
                continue
            similarity = Indel.normalized_similarity(left, right)
            if similarity >= threshold and _same_words(left, right):
                alike.merge(left, right)
    merged = (
        sorted(index for text in subset for index in groups[text]) for subset in alike.subsets()
    )
    return sorted(merged)


def _same_words(left: str, right: str) -> bool:
    """Whether two texts differ only in punctuation and the spelling of long words."""
    pairs = zip_longest(words(left), words(right), fillvalue="")
    return all(word == other or _spelling_variants(word, other) for word, other in pairs)


def _spelling_variants(word: str, other: str) -> bool:
    """Whether a letter is added ("colours"), two are swapped, or a letter sounds like another.

    The first letters must agree: "possible" and "impossible" are different words. So are
    "hypertension" and "hypotension", and "Petersen" and "Pedersen".
    """
    if min(len(word), len(other)) < _LONG_WORD or word[0] != other[0]:
        return False
    if not (word + other).isalpha() or OSA.distance(word, other) != 1:
        return False
    differing = [{a, b} for a, b in zip(word, other, strict=False) if a != b]
    return len(word) != len(other) or len(differing) == 2 or differing[0] in _SAME_SOUND


def _candidates(texts: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of texts with equally many words that share consecutive words not common to many."""
    holders: dict[int, list[int]] = {}
    first_holder: dict[int, int] = {}
    lengths = []
    for index, text in enumerate(texts):
        text_words = words(text)
        lengths.append(len(text_words))
        shifted = (text_words[start:] for start in range(min(_SHINGLE_WORDS, len(text_words))))
        for shingle in set(map(hash, zip(*shifted, strict=False))):
            first = first_holder.setdefault(shingle, index)
            if first != index:
                holders.setdefault(shingle, [first]).append(index)
    pairs = {
        pair
        for members in holders.values()
        if len(members) <= _COMMON_SHINGLE
        for pair in combinations(members, 2)
        if lengths[pair[0]] == lengths[pair[1]]
    }
    return [(texts[left], texts[right]) for left, right in sorted(pairs)]
