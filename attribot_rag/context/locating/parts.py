"""Parts of documents in the prompt, where an application cut or shortened the documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import islice

from attribot_rag.cached_property import cached_property
from attribot_rag.context.intervals import Interval, add, merge, overlapping, subtract
from attribot_rag.context.locating.aligned_text import AlignedText
from attribot_rag.context.locating.location import Location, located
from attribot_rag.context.locating.runs import Run, at_words, common_runs, is_border
from attribot_rag.context.locating.text_index import Work
from attribot_rag.context.splitting.splitter import sentences, split_spans
from attribot_rag.context.words import has_words, num_unspaced

_MIN_LENGTH, _MIN_WORDS, _MIN_UNSPACED = 40, 5, 12
_MIN_SENTENCE_WORDS, _MIN_SENTENCE_UNSPACED = 4, 8
# A run that begins inside a sentence may be a common phrase, unless it is long.
_MIN_LENGTH_WITHIN, _MIN_UNSPACED_WITHIN = 100, 30
_MAX_GAP = 200
_MAX_RUNS, _MAX_COPIES = 200, 50
_GRAMS, _UNSPACED_GRAMS = (16, 8), (6, 6)


def find_parts(
    prompt: AlignedText, documents: Iterable[str], covered: Sequence[Interval], work: Work
) -> dict[str, list[Location]]:
    """Locate parts of documents, by the documents' texts.

    Each document has at most one stretch of the prompt: common runs in the document's order, near
    each other. A run counts if it is a whole sentence or too long to be common by chance, and if
    enough of it is not `covered` by other documents or earlier turns. Documents with longer parts
    take precedence; equally long parts have equal rank. Case, mark-up, punctuation and white space
    make no difference. Time is about linear in the lengths of the texts.
    """
    occupied = merge(covered)
    searched: dict[str, _Parts] = {}
    best: dict[str, tuple[int, Sequence[Run]]] = {}
    for text in work.in_time(documents):
        searched[text] = _Parts(AlignedText.of(text).letters(), prompt)
        best[text] = searched[text].stretch(occupied)
    # Ever more is occupied, so sizes only shrink: they are computed again from the longest on.
    ranked = [(-size, text) for text, (size, _) in best.items() if size]
    heapify(ranked)
    rounds = dict.fromkeys(searched, 0)
    parts: dict[str, list[Location]] = {}
    while ranked:
        longest, chosen = ranked[0][0], []
        while ranked and ranked[0][0] == longest:
            _, text = heappop(ranked)
            if rounds[text] == len(parts) or searched[text].are_free(best[text][1], occupied):
                chosen.append(text)
                continue
            best[text], rounds[text] = searched[text].stretch(occupied), len(parts)
            if best[text][0]:
                heappush(ranked, (-best[text][0], text))
        for text in chosen:
            document = searched[text].document
            parts[text] = [located(document, prompt, [run]) for run in best[text][1]]
        for part in (part for text in chosen for part in parts[text]):
            add(occupied, (part.start, part.end))
    return parts


class _Parts:
    """The runs that one document has in common with the prompt."""

    def __init__(self, document: AlignedText, prompt: AlignedText) -> None:
        self.document = document
        self._prompt = prompt

    def are_free(self, runs: Sequence[Run], occupied: Sequence[Interval]) -> bool:
        return not any(overlapping(occupied, self._place(run)) for run in runs)

    def stretch(self, occupied: Sequence[Interval]) -> tuple[int, tuple[Run, ...]]:
        """The runs in the document's order with the most characters that are free."""
        free = {run: size for run in self._runs if (size := self._num_free(run, occupied))}
        strong = [run for run in free if self._is_strong(run)]
        runs = [
            run
            for run in free
            if run in strong or any(self._fit(run, x) or self._fit(x, run) for x in strong)
        ]
        best: list[tuple[int, tuple[Run, ...]]] = []
        for index, run in enumerate(runs):
            before = (best[i] for i in range(index) if self._fit(runs[i], run))
            size, chain = max(before, key=lambda item: item[0], default=(0, ()))
            best.append((size + free[run], (*chain, run)))
        return max(best, key=lambda item: item[0], default=(0, ()))

    @cached_property
    def _runs(self) -> list[Run]:
        """The long runs and whole sentences in the prompt's order, without runs inside others."""
        candidates = {*self._long(), *self._whole_sentences}
        longest = sorted(candidates, key=lambda run: (-run.length, run))[:_MAX_RUNS]
        ends: dict[int, list[Run]] = {}
        for run in longest:
            group = ends.setdefault(run.start - run.first, [])
            if not any(x.first <= run.first < x.first + x.length for x in group):
                group.append(run)
        return sorted((run for group in ends.values() for run in group), key=lambda run: run.start)

    def _long(self) -> Iterator[Run]:
        is_unspaced = 2 * num_unspaced(self.document.source) > len(self.document.text)
        grams = _UNSPACED_GRAMS if is_unspaced else _GRAMS
        for run in common_runs(self.document.text, self._prompt.index, *grams):
            if not _is_long(self._text(run)):
                continue
            kept = at_words(self.document, self._prompt, run)
            if _is_long(self._text(kept)) and not self._is_question(kept):
                yield kept

    @cached_property
    def _whole_sentences(self) -> set[Run]:
        whole = set()
        spans = [
            (first, last)
            for first, last in self._sentences
            if _is_sentence(self.document.source[slice(*self.document.source_span(first, last))])
        ]
        for first, last in spans:
            starts = self._prompt.index.find_all(self.document.text[first:last])
            for start in islice(starts, _MAX_COPIES):
                run = Run(first, start, last - first)
                borders = (is_border(self._prompt, place) for place in (start, start + run.length))
                if all(borders) and not self._is_question(run):
                    whole.add(run)
        return whole

    @cached_property
    def _sentences(self) -> list[Interval]:
        places = map(self.document.span_of, split_spans(self.document.source, sentences))
        return [(first, last) for first, last in places if first < last]

    def _num_free(self, run: Run, occupied: Sequence[Interval]) -> int:
        """The number of free characters of a run; 0 if each of its free pieces is short."""
        place = self._place(run)
        free = subtract(place, overlapping(occupied, place))
        if free == [place] or any(_is_long(self._prompt.source[a:b]) for a, b in free):
            return sum(b - a for a, b in free)
        return 0

    def _is_strong(self, run: Run) -> bool:
        """Whether it begins a sentence, holds a sentence, or is too long to be common by chance."""
        text = self._text(run)
        if len(text) >= _MIN_LENGTH_WITHIN or num_unspaced(text) >= _MIN_UNSPACED_WITHIN:
            return True
        return run in self._whole_sentences or any(
            run.first <= first < run.last and (first == run.first or last <= run.last)
            for first, last in self._sentences
        )

    def _fit(self, run: Run, other: Run) -> bool:
        """Whether `other` follows `run` in both texts, not too far away in the prompt."""
        if other.first < run.last or other.start < run.end:
            return False
        gap = self._place(other)[0] - self._place(run)[1]
        source_span = self.document.source_span
        left_out = source_span(other.first, other.last)[0] - source_span(run.first, run.last)[1]
        return gap <= max(_MAX_GAP, left_out)

    def _is_question(self, run: Run) -> bool:
        """Whether this is a question in the prompt, rather than a statement."""
        start, end = self._place(run)
        text = self._prompt.source[start:end]
        return self._prompt.source[end : end + 1] in ("?", "？") and not any(
            mark in text for mark in ".!。！"
        )

    def _text(self, run: Run) -> str:
        return self._prompt.source[slice(*self._place(run))] if run.length else ""

    def _place(self, run: Run) -> Interval:
        return self._prompt.source_span(run.start, run.end)


def _is_long(text: str) -> bool:
    if num_unspaced(text) >= _MIN_UNSPACED:
        return True
    return len(text) >= _MIN_LENGTH and has_words(text, _MIN_WORDS)


def _is_sentence(text: str) -> bool:
    unspaced = num_unspaced(text)
    return unspaced >= _MIN_SENTENCE_UNSPACED or has_words(text, unspaced + _MIN_SENTENCE_WORDS)
