"""The sources: disjoint pieces of the prompt. Equal pieces are one source."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, zip_longest
from operator import attrgetter

from rapidfuzz.distance import OSA, Indel

from attribot_rag.context.alignment import Location, TextIndex
from attribot_rag.context.document import DocumentSpan, Occurrence, Source
from attribot_rag.context.text import Interval, overlapping, stands_alone, subtract, words

_SHINGLE_WORDS = 3
_COMMON_SHINGLE = 32
_LONG_WORD = 6
_SAME_SOUND = ({"s", "z"}, {"c", "s"}, {"i", "y"})  # organise, defence, tyre


def group_duplicates(texts: Sequence[str], *, threshold: float) -> list[list[int]]:
    """Indices of equal and nearly equal texts, in groups in the order of their first member.

    Texts are equal up to white space and case. Nearly equal texts have a normalised indel
    similarity (rapidfuzz) of at least `threshold` to a text of the group. They also have the same
    words up to punctuation and the spelling of long words: a different number, name or "not" states
    another fact. A threshold of 1 groups only equal texts.

    Only texts that share three neighbouring words are compared, unless more than 32 texts share
    them. So the work does not grow with the square of the number of texts.
    """
    normalised = [" ".join(text.split()).casefold() for text in texts]
    groups: dict[str, list[int]] = defaultdict(list)
    for index, text in enumerate(normalised):
        groups[text].append(index)
    distinct = list(groups)
    from scipy.cluster.hierarchy import DisjointSet  # takes a second to import

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
    pairs = zip_longest(words(left), words(right), fillvalue="")
    return all(word == other or _spelling_variants(word, other) for word, other in pairs)


def _spelling_variants(word: str, other: str) -> bool:
    """Whether a letter is added ("colours"), two are swapped, or one sounds like another.

    The first letters must be equal: "possible" and "impossible" are different words. So are
    "hypertension" and "hypotension", and "Petersen" and "Pedersen".
    """
    if min(len(word), len(other)) < _LONG_WORD or word[0] != other[0]:
        return False
    if not (word + other).isalpha() or OSA.distance(word, other) != 1:
        return False
    differing = [{a, b} for a, b in zip(word, other, strict=False) if a != b]
    return len(word) != len(other) or len(differing) == 2 or differing[0] in _SAME_SOUND


def _candidates(texts: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of texts with equally many words and shared, uncommon word sequences."""
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


# A shorter text has no copies: it may be repeated by chance.
_MIN_COPY_WORDS = 5


def divide(
    prompt: TextIndex,
    places: Mapping[str, Sequence[Location]],
    cuts: Mapping[str, Sequence[Interval]],
    holders: Mapping[str, Sequence[int]],
    *,
    duplicate_threshold: float,
) -> tuple[Source, ...]:
    """Sources from equal and nearly equal pieces, with their copies outside of the documents.

    For each located text, `places` are its locations, `cuts` its pieces, and `holders` the indices
    of the documents with this text.
    """
    pieces = _SourcePieces(prompt)
    located = [(text, place) for text, at in places.items() for place in at]
    located.sort(key=lambda item: (item[1].start - item[1].end, item[1].start, item[0]))
    for text, location in located:
        pieces.add_documents(text, holders[text], location, cuts[text])
    in_order = pieces.in_order()
    texts = [piece.text for piece in in_order]
    groups = group_duplicates(texts, threshold=duplicate_threshold)
    occurrences = [[in_order[index].occurrence for index in group] for group in groups]
    group_of: dict[str, int] = {}
    for number, group in enumerate(groups):
        for piece in (in_order[index] for index in group):
            in_prompt = prompt.text[piece.start : piece.end].strip()
            group_of[piece.text] = group_of[in_prompt] = number
    repeatable = [text for text in group_of if len(words(text)) >= _MIN_COPY_WORDS]
    repeatable.sort(key=lambda text: (-len(text), text))
    for text in repeatable:
        occurrences[group_of[text]] += pieces.copies(text)
    for of_source in occurrences:
        of_source.sort(key=attrgetter("start"))
    shown = [texts[group[0]] for group in groups]
    sources = sorted(zip(occurrences, shown, strict=True), key=lambda source: source[0][0].start)
    return tuple(Source(index, text, tuple(at)) for index, (at, text) in enumerate(sources))


@dataclass
class _SourcePiece:
    """Characters [start, end) of the prompt, and `text`, the same without escape sequences.

    `spans` are the characters of the documents that have at least half of it.
    """

    start: int
    end: int
    text: str
    spans: list[DocumentSpan]

    @property
    def occurrence(self) -> Occurrence:
        order = attrgetter("document", "start")
        return Occurrence(self.start, self.end, tuple(sorted(self.spans, key=order)))


class _SourcePieces:
    """Disjoint pieces of the prompt, split as in the longest document around them."""

    def __init__(self, prompt: TextIndex) -> None:
        self._index = prompt
        self._prompt = prompt.text
        self._pieces: dict[Interval, _SourcePiece] = {}
        self._intervals: list[Interval] = []

    def in_order(self) -> list[_SourcePiece]:
        return [self._pieces[interval] for interval in self._intervals]

    def add_documents(
        self, text: str, documents: Sequence[int], location: Location, cuts: Sequence[Interval]
    ) -> None:
        """Add documents of equal text to shared pieces, and add their other pieces."""
        for interval in overlapping(self._intervals, (location.start, location.end)):
            start, end = max(interval[0], location.start), min(interval[1], location.end)
            shared = len(self._prompt[start:end].strip())
            if 2 * shared >= len(self._prompt[slice(*interval)].strip()):
                span = location.document_interval(start, end)
                self._pieces[interval].spans += (DocumentSpan(i, *span) for i in documents)
        for start, end in cuts:
            piece = location.offsets[start], location.offsets[end]
            for free in subtract(piece, overlapping(self._intervals, piece)):
                in_prompt = self._prompt[slice(*free)].strip()
                if in_prompt:
                    span = location.document_interval(*free)
                    shown = text[slice(*span)].strip() if location.is_escaped else in_prompt
                    self._insert(free, shown, [DocumentSpan(i, *span) for i in documents])

    def copies(self, text: str) -> Iterator[Occurrence]:
        """The copies of a text outside of the documents, for example in an earlier turn."""
        for start in self._index.find_all(text):
            copy = start, start + len(text)
            if stands_alone(self._prompt, *copy) and not overlapping(self._intervals, copy):
                self._insert(copy, text, [])
                yield Occurrence(*copy, ())

    def _insert(self, interval: Interval, text: str, spans: list[DocumentSpan]) -> None:
        self._intervals.insert(bisect_left(self._intervals, interval), interval)
        self._pieces[interval] = _SourcePiece(*interval, text, spans)
