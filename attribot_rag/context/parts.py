"""The parts that the prompt holds of documents which an application cut or thinned out."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice

from attribot_rag.context.intervals import Interval, merge, subtract
from attribot_rag.context.location import Location, located
from attribot_rag.context.normalised import Normalised
from attribot_rag.context.runs import CommonRuns, Run, at_words, is_border
from attribot_rag.context.splitter import sentences, split_spans
from attribot_rag.context.words import find_all, num_unspaced, words

_MIN_LENGTH, _MIN_WORDS, _MIN_UNSPACED = 40, 5, 12
_MIN_SENTENCE_WORDS, _MIN_SENTENCE_UNSPACED = 4, 8
# A run that begins inside a sentence may be a common phrase, unless it is long.
_MIN_LENGTH_WITHIN, _MIN_UNSPACED_WITHIN = 100, 30
_MAX_GAP = 200
_MAX_RUNS, _MAX_COPIES = 200, 50
_GRAMS, _UNSPACED_GRAMS = (16, 8), (6, 6)


def find_parts(
    prompt: Normalised, documents: Mapping[int, str], covered: Sequence[Interval]
) -> dict[int, list[Location]]:
    """Parts of documents that the prompt does not hold as a whole, by the documents' keys.

    Each document has at most one stretch of the prompt: common runs in the document's order, near
    each other. A run counts if it is a whole sentence or too long to be common by chance, and if
    enough of it is not `covered` by other documents or earlier turns. Documents with longer parts
    take precedence; equally long parts have equal rank. Case, mark-up, punctuation and white space
    make no difference. Time is about linear in the lengths of the texts.
    """
    common = CommonRuns(prompt.text)
    searched = {key: _Parts(Normalised.of(text), prompt, common) for key, text in documents.items()}
    taken = merge(covered)
    best = {key: document.stretch(taken) for key, document in searched.items()}
    parts: dict[int, list[Location]] = {}
    while best := {key: (size, runs) for key, (size, runs) in best.items() if size}:
        longest = max(size for size, _ in best.values())
        chosen = {key: runs for key, (size, runs) in best.items() if size == longest}
        for key, runs in chosen.items():
            parts[key] = [located(searched[key].document, prompt, run) for run in runs]
        taken = merge([*taken, *((x.start, x.end) for key in chosen for x in parts[key])])
        best = {
            key: (size, runs)
            if searched[key].are_free(runs, taken)
            else searched[key].stretch(taken)
            for key, (size, runs) in best.items()
            if key not in chosen
        }
    return parts


class _Parts:
    """The runs that one document has in common with the prompt."""

    def __init__(self, document: Normalised, prompt: Normalised, common: CommonRuns) -> None:
        self.document = document
        self._prompt = prompt
        self._common = common

    def are_free(self, runs: Sequence[Run], taken: Sequence[Interval]) -> bool:
        return all(subtract(self._place(run), taken) == [self._place(run)] for run in runs)

    def stretch(self, taken: Sequence[Interval]) -> tuple[int, tuple[Run, ...]]:
        """The runs in the document's order with the most characters that are not taken."""
        own = {run: size for run in self._runs if (size := self._own(run, taken))}
        strong = [run for run in own if self._is_strong(run)]
        runs = [
            run
            for run in own
            if run in strong or any(self._fit(run, x) or self._fit(x, run) for x in strong)
        ]
        best: list[tuple[int, tuple[Run, ...]]] = []
        for index, run in enumerate(runs):
            before = (best[i] for i in range(index) if self._fit(runs[i], run))
            size, chain = max(before, key=lambda item: item[0], default=(0, ()))
            best.append((size + own[run], (*chain, run)))
        return max(best, key=lambda item: item[0], default=(0, ()))

    @cached_property
    def _runs(self) -> list[Run]:
        """The long runs and whole sentences in the prompt's order, without runs inside others."""
        candidates = {*self._long(), *self._whole_sentences}
        longest = sorted(candidates, key=lambda run: (-run.length, run))[:_MAX_RUNS]
        ends: dict[int, list[Run]] = {}
        for run in longest:
            held = ends.setdefault(run.start - run.first, [])
            if not any(x.first <= run.first < x.first + x.length for x in held):
                held.append(run)
        return sorted((run for held in ends.values() for run in held), key=lambda run: run.start)

    def _long(self) -> Iterator[Run]:
        unspaced = 2 * num_unspaced(self.document.source) > len(self.document.text)
        for run in self._common.of(self.document.text, *(_UNSPACED_GRAMS if unspaced else _GRAMS)):
            if not _is_long(self._shown(run)):
                continue
            kept = at_words(self.document, self._prompt, run)
            if _is_long(self._shown(kept)) and not self._is_question(kept):
                yield kept

    @cached_property
    def _whole_sentences(self) -> set[Run]:
        whole = set()
        for first, last in self._sentences:
            needle = self.document.text[first:last]
            if not _is_sentence(self.document.source[slice(*self.document.interval(first, last))]):
                continue
            for start in islice(find_all(self._prompt.text, needle), _MAX_COPIES):
                run = Run(first, start, last - first)
                borders = (is_border(self._prompt, place) for place in (start, start + run.length))
                if all(borders) and not self._is_question(run):
                    whole.add(run)
        return whole

    @cached_property
    def _sentences(self) -> list[Interval]:
        """The document's sentences in its normalised text."""
        origins = self.document.origins
        spans = split_spans(self.document.source, sentences)
        places = ((bisect_left(origins, start), bisect_left(origins, end)) for start, end in spans)
        return [(first, last) for first, last in places if first < last]

    def _own(self, run: Run, taken: Sequence[Interval]) -> int:
        """How many characters of a run are not taken; 0 if none of its free pieces is long."""
        place = self._place(run)
        free = subtract(place, taken)
        if free == [place] or any(_is_long(self._prompt.source[a:b]) for a, b in free):
            return sum(b - a for a, b in free)
        return 0

    def _is_strong(self, run: Run) -> bool:
        """Whether it begins a sentence, holds a sentence, or is too long to be common by chance."""
        text = self._shown(run)
        if len(text) >= _MIN_LENGTH_WITHIN or num_unspaced(text) >= _MIN_UNSPACED_WITHIN:
            return True
        end = run.first + run.length
        return run in self._whole_sentences or any(
            run.first <= first < end and (first == run.first or last <= end)
            for first, last in self._sentences
        )

    def _fit(self, run: Run, other: Run) -> bool:
        """Whether `other` follows `run` in both texts, not too far away in the prompt."""
        end, start = run.first + run.length, run.start + run.length
        if other.first < end or other.start < start:
            return False
        gap = self._place(other)[0] - self._place(run)[1]
        left_out = self.document.origins[other.first] - self.document.origins[end - 1] - 1
        return gap <= max(_MAX_GAP, left_out)

    def _is_question(self, run: Run) -> bool:
        """Whether this is a question in the prompt, rather than a statement."""
        start, end = self._place(run)
        text = self._prompt.source[start:end]
        return self._prompt.source[end : end + 1] in ("?", "？") and not any(
            mark in text for mark in ".!。！"
        )

    def _shown(self, run: Run) -> str:
        return self._prompt.source[slice(*self._place(run))] if run.length else ""

    def _place(self, run: Run) -> Interval:
        return self._prompt.interval(run.start, run.start + run.length)


def _is_long(text: str) -> bool:
    if num_unspaced(text) >= _MIN_UNSPACED:
        return True
    return len(text) >= _MIN_LENGTH and len(words(text)) >= _MIN_WORDS


def _is_sentence(text: str) -> bool:
    unspaced = num_unspaced(text)
    return unspaced >= _MIN_SENTENCE_UNSPACED or len(words(text)) - unspaced >= _MIN_SENTENCE_WORDS
