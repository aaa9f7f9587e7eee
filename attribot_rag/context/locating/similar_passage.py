"""The passage of a text that is most similar to a document, by the alignment of their letters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rapidfuzz.distance import Indel, Postfix, Prefix

from attribot_rag.context.locating.aligned_text import AlignedText
from attribot_rag.context.locating.runs import Run, is_border
from attribot_rag.context.locating.text_index import TextIndex, Work

_GRAM, _STRIDE, _MAX_HITS = 6, 3, 4_096
# Places that begin about equally far before the document's n-grams are one; so many have to agree.
_BAND, _MIN_VOTES, _MIN_SHARE, _MAX_STARTS = 32, 8, 1 / 32, 8
_MAX_SLACK = 200
# Texts are aligned a stretch at a time; where the first half ends, the next begins.
_STRETCH = 2_048
_MAX_WORD = 200


def similar_passage(
    document: AlignedText, prompt: AlignedText, threshold: float, work: Work
) -> Sequence[Run]:
    """The runs that a document and the most similar passage have in common, ascending.

    The first and the last may be empty: they are the ends of the document and the passage. The
    similarity is the share of common letters in the longer of both. Empty where no passage has the
    least similarity `threshold`, 0 to 1. Time and memory are linear in the document's length.
    """
    ours, theirs = document.text, prompt.text
    best, chosen = threshold, []
    for start in _starts(ours, prompt.index):
        runs = _common_letters(ours, theirs, start, threshold, work)
        if not runs:
            continue
        first, last = _ends(document, prompt, runs)
        common = sum(run.length for run in runs)
        similarity = common / max(len(ours), last - first)
        if similarity > best or (not chosen and similarity >= best):
            best, chosen = similarity, [Run(0, first, 0), *runs, Run(len(ours), last, 0)]
    return chosen


def _starts(document: str, index: TextIndex) -> list[int]:
    """Where a document could begin in a text, as the places of its n-grams have it."""
    hits = list(index.ngrams(_GRAM, _STRIDE).hits(document, _MAX_HITS))
    votes = Counter((place - at) // _BAND for at, place in hits)
    enough = min(_MIN_VOTES, _MIN_SHARE * len({at for at, _ in hits}))
    bands = votes.most_common(_MAX_STARTS)
    return sorted(band * _BAND for band, number in bands if number >= enough)


def _common_letters(
    document: str, text: str, start: int, threshold: float, work: Work
) -> Sequence[Run]:
    """The runs of a document and the passage that begins near `start`; none if they differ."""
    can_miss = int((1 - threshold) * len(document) + 1e-9)
    slack = min(_MAX_SLACK, can_miss) + _BAND
    at, place = 0, max(0, start - slack)
    runs: list[Run] = []
    while at < len(document):
        ours = document[at : at + _STRETCH]
        theirs = text[place : place + len(ours) + 2 * slack]
        work.compare(ours, theirs)
        end = len(document) if at + _STRETCH >= len(document) else at + _STRETCH // 2
        blocks = Indel.editops(ours, theirs).as_matching_blocks()
        common = [Run(at + x.a, place + x.b, x.size) for x in blocks if x.size and at + x.a < end]
        runs += common
        if not common or runs[-1].last - sum(run.length for run in runs) > can_miss:
            return []
        at, place = (end, 0) if end == len(document) else (runs[-1].last, runs[-1].end)
    return _extended(_dense(runs), document, text)


def _dense(runs: Sequence[Run]) -> Sequence[Run]:
    """The runs without those at the ends that have fewer letters than stand before the others."""
    score = best = first = 0
    dense = runs[:0]
    for index, run in enumerate(runs):
        score -= run.start - runs[index - 1].end if index else 0
        if score <= 0:
            score, first = 0, index
        score += run.length
        if score > best:
            best, dense = score, runs[first : index + 1]
    return dense


def _extended(runs: Sequence[Run], document: str, text: str) -> Sequence[Run]:
    """The runs with equal letters before the first and after the last of them."""
    first, last = runs[0], runs[-1]
    before = Postfix.similarity(
        document[: first.first], text[max(0, first.start - first.first) : first.start]
    )
    after = Prefix.similarity(
        document[last.last :], text[last.end : last.end + len(document) - last.last]
    )
    return [
        Run(first.first - before, first.start - before, before),
        *runs,
        Run(last.last, last.end, after),
    ]


def _ends(document: AlignedText, prompt: AlignedText, runs: Sequence[Run]) -> tuple[int, int]:
    """The ends [first, last) of a passage; a word in which a letter differs is not cut."""
    first, last = runs[0].start, runs[-1].end
    if runs[0].first:
        least = max(0, first - _MAX_WORD)
        while first > least and not is_border(prompt, first):
            first -= 1
    if runs[-1].last < len(document.text):
        most = last + _MAX_WORD
        while last < most and not is_border(prompt, last):
            last += 1
    return first, last
