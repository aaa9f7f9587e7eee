"""The passage of a text that is most similar to a document, found through rare n-grams."""

from __future__ import annotations

import itertools
import math
from itertools import pairwise

import numpy
from rapidfuzz.distance import LCSseq, Levenshtein

from attribot_rag.context.intervals import Interval
from attribot_rag.context.locating.location import distances_to_beginnings, pins
from attribot_rag.context.locating.text_index import TextIndex, Work
from attribot_rag.context.words import within_word

_MAX_SLACK = 200
_MAX_HITS = 4_096
# The most places that are compared with a document, and fewer for a long one.
_MAX_STARTS, _MIN_STARTS, _MAX_COMPARED = 256, 8, 16_384
# So many of the n-grams that were looked up have to agree on a place, or this share.
_MIN_VOTES, _MIN_SHARE, _NUM_BINS = 24, 1 / 32, 4_096
# Where so many characters in a row have nothing certain in common, texts are not similar.
_MAX_STRETCH = 32_768


class SimilarPassages:
    """Searches a text for what differs from a document in a few characters.

    The similarity is rapidfuzz's partial ratio: that of a passage as long as the document.
    """

    def __init__(self, index: TextIndex, work: Work) -> None:
        self._index = index
        self._text = index.text
        self._work = work

    def find(self, document: str, threshold: float) -> Interval | None:
        """The most similar passage, its ends moved to the ends of the document's text.

        None where no passage has the least similarity `threshold`, 0 to 1.
        """
        if len(document) > len(self._text):
            return None
        slack = min(_MAX_SLACK, int((1 - threshold) * len(document)) + 1)
        best, chosen = threshold, None
        for start in self._starts(document):
            passage = _Passage(document, self._text, start, self._work)
            similarity = passage.similarity(best)
            if similarity > best or (chosen is None and similarity >= best):
                best, chosen = similarity, passage
        return chosen.fitted(slack) if chosen else None

    def _starts(self, document: str) -> list[int]:
        """Starts of the document in the text, if its n-grams stood where the text has them."""
        places, hits = self._index.ngrams.hits(document, _MAX_HITS, _MAX_HITS)
        enough = min(_MIN_VOTES, _MIN_SHARE * (numpy.count_nonzero(numpy.diff(places)) + 1))
        # Few starts share a bin, so most of those with too few votes are known without sorting.
        starts = hits - places
        bins = starts % _NUM_BINS
        starts = starts[numpy.bincount(bins)[bins] >= enough]
        starts, votes = numpy.unique(starts, return_counts=True)
        starts, votes = starts[votes >= enough], votes[votes >= enough]
        most = max(_MIN_STARTS, min(_MAX_STARTS, _MAX_COMPARED // len(document)))
        return sorted(starts[(-votes).argsort(kind="stable")[:most]].tolist())


class _Passage:
    """A passage of a text that begins at `start`, which is below 0 for a text cut at its start."""

    def __init__(self, document: str, text: str, start: int, work: Work) -> None:
        self._document = document
        self._text = text
        self._work = work
        self._pins = list(pins(document, text, start, len(text)))
        at, place = self._pins[-1]
        self._start, self._end = max(0, start), min(len(text), place + len(document) - at)

    def similarity(self, least: float) -> float:
        """The similarity from 0 to 1; may be 0 if it is below `least`."""
        length, width = len(self._document), self._end - self._start
        surplus = max(0, width - length)
        size = length + width - surplus
        can_miss = length - math.ceil(least * size / 2 + surplus - 1e-9)
        common = 0
        for (start, first), (end, last) in pairwise([*self._pins, (length, self._end)]):
            ours, theirs = self._document[start:end], self._text[max(0, first) : last]
            if len(ours) > _MAX_STRETCH:
                return 0
            self._work.compare(ours, theirs)
            needed = max(0, len(ours) - can_miss)
            equal = LCSseq.similarity(ours, theirs, score_cutoff=needed)
            can_miss -= len(ours) - equal
            common += equal
            if can_miss < 0:
                return 0
        return 2 * (common - surplus) / size

    def fitted(self, slack: int) -> Interval:
        """The passage with its ends moved to the ends of the document's text.

        The prompt's text may be longer or shorter than the document. A word in which a letter
        differs is not cut.
        """
        at, place = self._pins[-1]
        place = max(0, place)
        last = min(len(self._text), self._end + slack)
        distances = self._distances(self._document[at:], self._text[place:last])
        ends = range(max(place, self._end - slack), last + 1)
        end = min(ends, key=lambda end: (distances[end - place], end))
        at, place = self._pins[1] if len(self._pins) > 1 else (len(self._document), end)
        first = max(0, self._start - slack)
        distances = self._distances(self._document[:at][::-1], self._text[first:place][::-1])
        starts = range(first, min(place, self._start + slack) + 1)
        start = min(starts, key=lambda start: (distances[place - start], -start))
        first, last = start, end
        while within_word(self._text, first) and first > start - _MAX_SLACK:
            first -= 1
        while within_word(self._text, last) and last < end + _MAX_SLACK:
            last += 1
        return min(itertools.product((first, start), (last, end)), key=self._distance)

    def _distances(self, ours: str, theirs: str) -> list[int]:
        self._work.compare(ours, theirs)
        return distances_to_beginnings(ours, theirs)

    def _distance(self, passage: Interval) -> int:
        """Of the document to a passage with other ends, the text between the pins aside."""
        start, end = passage
        if len(self._pins) == 1:
            return Levenshtein.distance(self._document, self._text[start:end])
        (at, place), (last_at, last_place) = self._pins[1], self._pins[-1]
        return Levenshtein.distance(
            self._document[:at], self._text[start:place]
        ) + Levenshtein.distance(self._document[last_at:], self._text[last_place:end])
