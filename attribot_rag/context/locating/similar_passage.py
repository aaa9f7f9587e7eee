"""The passage of a text that is most similar to a document, by the alignment of their letters."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

from rapidfuzz.distance import Indel, LCSseq, Levenshtein

from attribot_rag.context.locating.aligned_text import AlignedText
from attribot_rag.context.locating.runs import Run, is_border
from attribot_rag.context.locating.text_index import TextIndex, Work

_GRAM, _STRIDE, _MAX_HITS = 6, 3, 4_096
# Places that begin about equally far before the document's n-grams are one; so many have to agree.
_BAND, _MIN_VOTES, _MIN_SHARE, _MAX_STARTS = 8, 24, 1 / 32, 8
_MAX_SLACK, _MAX_FITTED = 200, 1_024
# Texts are aligned a stretch at a time; where its first half ends, the next begins.
_STRETCH = 2_048
# So many equal letters in a row are no chance; a letter of other text outweighs so many.
_PIN, _GAP = 8, 2


def similar_passage(
    document: AlignedText, prompt: AlignedText, threshold: float, work: Work
) -> Sequence[Run]:
    """The common runs of a document and the passage most similar to it, ascending.

    The first and the last run are empty: the ends of the document and the passage. The similarity
    is 1 less the differing letters, as a share of the document's characters. Empty where no passage
    has the least similarity `threshold`, 0 to 1. Time and memory are linear in the document's
    length.
    """
    most = (1 - threshold) * len(document.source) + 1e-9
    chosen: Sequence[Run] = ()
    for start in _starts(document.text, prompt.index):
        runs = _aligned(document.text, prompt.text, start, most, work)
        if not runs:
            continue
        runs = _fitted(document, prompt, runs, work)
        longest = max(len(document.text), runs[-1].end - runs[0].start)
        num_different = longest - sum(run.length for run in runs)
        if num_different < most:
            most, chosen = num_different, runs
    return chosen


def _starts(document: str, index: TextIndex) -> list[int]:
    """Candidate starts of a document in a text, by the places of shared n-grams.

    An n-gram's vote is divided among its places, so that what other documents lack decides.
    """
    hits = list(index.hits(document, _GRAM, _STRIDE, _MAX_HITS))
    places = Counter(at for at, _ in hits)
    votes, shares = Counter[int](), defaultdict[int, float](float)
    for at, place in hits:
        band = (place - at) // _BAND
        votes[band] += 1
        shares[band] += 1 / places[at]
    enough = min(_MIN_VOTES, _MIN_SHARE * len(places))
    likely = [band for band, number in votes.items() if number >= enough]
    likely.sort(key=shares.__getitem__, reverse=True)
    return sorted(band * _BAND for band in likely[:_MAX_STARTS])


def _aligned(document: str, text: str, start: int, most: float, work: Work) -> Sequence[Run]:
    """The common runs of a document and the text from about `start` on.

    None if more than `most` letters of the document are not in the text.
    """
    slack = min(_MAX_SLACK, int(most)) + _BAND
    at, place = 0, max(0, start - slack)
    runs: list[Run] = []
    while True:
        ours = document[at : at + _STRETCH]
        theirs = text[place : place + len(ours) + 2 * slack]
        work.compare(ours, theirs)
        is_last = at + _STRETCH >= len(document)
        half = len(ours) if is_last else _STRETCH // 2
        common = [run for run in _common(ours, theirs, at, place) if run.first - at < half]
        runs += common
        if not common or runs[-1].last - sum(run.length for run in runs) > most:
            return ()
        if is_last:
            return runs
        at, place = runs[-1].last, runs[-1].end


def _common(ours: str, theirs: str, at: int, place: int) -> Sequence[Run]:
    """The common runs of two passages at these places of their texts."""
    blocks = Indel.editops(ours, theirs).as_matching_blocks()
    return [Run(at + block.a, place + block.b, block.size) for block in blocks if block.size]


def _fitted(
    document: AlignedText, prompt: AlignedText, runs: Sequence[Run], work: Work
) -> Sequence[Run]:
    """Fit the ends of the passage, and align the runs between them.

    What is before the first and after the last certain run is aligned anew: where text around the
    passage may be taken, letters of it are as good as those of the passage.
    """
    runs = _dense(runs)
    pins = [run for run in runs if run.length >= _PIN] or runs
    first, last = pins[0], pins[-1]
    lead, tail = document.text[: first.first], document.text[last.last :]
    before = prompt.text[max(0, first.start - len(lead) - _MAX_SLACK) : first.start]
    after = prompt.text[last.end : last.end + len(tail) + _MAX_SLACK]
    work.compare(lead + tail, before + after)
    start = first.start - _length(
        lead[::-1], before[::-1], lambda length: is_border(prompt, first.start - length)
    )
    end = last.end + _length(tail, after, lambda length: is_border(prompt, last.end + length))
    return [
        Run(0, start, 0),
        *_common(lead, prompt.text[start : first.start], 0, start),
        *runs[runs.index(first) : runs.index(last) + 1],
        *_common(tail, prompt.text[last.end : end], last.last, last.end),
        Run(len(document.text), end, 0),
    ]


def _dense(runs: Sequence[Run]) -> Sequence[Run]:
    """The neighbouring runs with the most letters, less the letters of the text between them."""
    score = best = first = 0
    dense = runs
    for index, run in enumerate(runs):
        score -= _GAP * (run.start - runs[index - 1].end) if index else 0
        if score <= 0:
            score, first = 0, index
        score += run.length
        if score > best:
            best, dense = score, runs[first : index + 1]
    return dense


def _length(text: str, other: str, is_border: Callable[[int], bool]) -> int:
    """The length of the prefix of another text that is most similar to this one.

    A single common letter is none; the last word is kept whole if that is as similar.
    """
    text, other = text[:_MAX_FITTED], other[: _MAX_FITTED + _MAX_SLACK]

    def score(length: int) -> int:
        common = LCSseq.similarity(text, other[:length])
        return common - _GAP * (length - common) if length else 1

    length = max(range(len(other) + 1), key=score)
    word = next(filter(is_border, range(length, len(other) + 1)), length)
    return min(word, length, key=lambda length: Levenshtein.distance(text, other[:length]))
