"""The parts that the prompt holds of documents which an application cut or thinned out."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from attribot_rag.context.borders import at_words, is_border
from attribot_rag.context.duplicates import num_unspaced, words
from attribot_rag.context.intervals import Interval, merge, subtract
from attribot_rag.context.location import Location, located
from attribot_rag.context.normalised import Normalised
from attribot_rag.context.runs import CommonRuns, Run, find_all
from attribot_rag.context.splitter import sentences, split_spans

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
    while best := {key: stretch for key, stretch in best.items() if stretch.size}:
        longest = max(stretch.size for stretch in best.values())
        chosen = [key for key, stretch in best.items() if stretch.size == longest]
        for key in chosen:
            text = searched[key].document
            parts[key] = [located(text, prompt, run, "part") for run in best.pop(key).runs]
        taken = merge([*taken, *((x.start, x.end) for key in chosen for x in parts[key])])
        best = {
            key: searched[key].stretch(taken) if stretch.meets(taken) else stretch
            for key, stretch in best.items()
        }
    return parts


@dataclass(frozen=True)
class _Stretch:
    """Neighbouring runs, their places in the prompt, and how many of their characters are free."""

    runs: tuple[Run, ...]
    places: tuple[Interval, ...]
    size: int

    def meets(self, taken: Sequence[Interval]) -> bool:
        return any(subtract(place, taken) != [place] for place in self.places)


class _Parts:
    """The runs that one document has in common with the prompt."""

    def __init__(self, document: Normalised, prompt: Normalised, common: CommonRuns) -> None:
        self.document = document
        self._prompt = prompt
        self._common = common

    def stretch(self, taken: Sequence[Interval]) -> _Stretch:
        """The runs in the document's order with the most characters that are not taken."""
        own = {run: self._own(run, taken) for run in self._runs}
        own = {run: size for run, size in own.items() if size}
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
        size, chain = max(best, key=lambda item: item[0], default=(0, ()))
        return _Stretch(chain, tuple(self._place(run) for run in chain), size)

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
            if not _is_sentence(self.document.source[slice(*self._characters(first, last))]):
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
        left_out = (
            self._characters(other.first, other.first + 1)[0] - self._characters(end - 1, end)[1]
        )
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
        origins = self._prompt.origins
        return origins[run.start], origins[run.start + run.length - 1] + 1

    def _characters(self, first: int, last: int) -> Interval:
        return self.document.origins[first], self.document.origins[last - 1] + 1


def _is_long(text: str) -> bool:
    if num_unspaced(text) >= _MIN_UNSPACED:
        return True
    return len(text) >= _MIN_LENGTH and len(words(text)) >= _MIN_WORDS


def _is_sentence(text: str) -> bool:
    unspaced = num_unspaced(text)
    return unspaced >= _MIN_SENTENCE_UNSPACED or len(words(text)) - unspaced >= _MIN_SENTENCE_WORDS
