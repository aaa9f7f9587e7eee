"""Finding what stands in the prompt of documents that were cut or thinned out on the way."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from attribot_rag.context.borders import at_words, is_border
from attribot_rag.context.cuts import without
from attribot_rag.context.duplicates import num_unspaced, words
from attribot_rag.context.location import Location, located
from attribot_rag.context.locator import find_all
from attribot_rag.context.normalised import Normalised
from attribot_rag.context.places import merge
from attribot_rag.context.runs import CommonRuns, Run
from attribot_rag.context.splitter import sentences, split_spans
from attribot_rag.context.tokens import Interval

_MIN_LENGTH, _MIN_WORDS, _MIN_UNSPACED = 40, 5, 12
_MIN_SENTENCE_WORDS, _MIN_SENTENCE_UNSPACED = 4, 8
# What begins within a sentence may be a phrase that many texts have, unless it is long.
_MIN_LENGTH_WITHIN, _MIN_UNSPACED_WITHIN = 100, 30
_MAX_GAP = 200
_MAX_RUNS, _MAX_COPIES = 200, 50
_GRAMS, _UNSPACED_GRAMS = (16, 8), (6, 6)


def find_parts(
    prompt: Normalised, documents: Mapping[int, str], covered: Sequence[Interval]
) -> dict[int, list[Location]]:
    """Parts of documents that do not stand in the prompt as a whole, by the documents' keys.

    One document has one stretch of the prompt: runs of equal text in its order and near each other.
    A run counts if it is long enough to be nobody else's by chance, or a whole sentence, and if
    enough of it is not `covered` by other documents (or a conversation) already; documents with
    longer parts come first, those with equally long ones count alike. Case, mark-up, punctuation
    and white space make no difference. Time is about linear in the texts' lengths.
    """
    common = CommonRuns(prompt.text)
    searched = {key: _Parts(Normalised.of(text), prompt, common) for key, text in documents.items()}
    taken = merge(covered)
    best = {key: parts.stretch(taken) for key, parts in searched.items()}
    found: dict[int, list[Location]] = {}
    while best := {key: one for key, one in best.items() if one.size}:
        longest = max(one.size for one in best.values())
        chosen = {key: best.pop(key) for key, one in list(best.items()) if one.size == longest}
        for key, one in chosen.items():
            text = searched[key].document
            found[key] = [located(text, prompt, run, "part") for run in one.runs]
        taken = merge([*taken, *((x.start, x.end) for key in chosen for x in found[key])])
        best = {
            key: searched[key].stretch(taken) if one.meets(taken) else one
            for key, one in best.items()
        }
    return found


@dataclass(frozen=True)
class _Stretch:
    """Runs that belong together, their places in the prompt, and what of them nobody else has."""

    runs: tuple[Run, ...]
    places: tuple[Interval, ...]
    size: int

    def meets(self, taken: Sequence[Interval]) -> bool:
        return any(without(*place, taken) != [place] for place in self.places)


class _Parts:
    """The runs that one document has in common with the prompt."""

    def __init__(self, document: Normalised, prompt: Normalised, common: CommonRuns) -> None:
        self.document = document
        self._prompt = prompt
        self._common = common

    def stretch(self, taken: Sequence[Interval]) -> _Stretch:
        """The runs in the document's order that hold most of what is not taken; perhaps none."""
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
        """Those that are long enough, in the order of the prompt, without what lies in others."""
        found = {*self._long(), *self._whole_sentences}
        longest = sorted(found, key=lambda run: (-run.length, run))[:_MAX_RUNS]
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
        found = set()
        for first, last in self._sentences:
            needle = self.document.text[first:last]
            if not _is_sentence(self.document.source[slice(*self._characters(first, last))]):
                continue
            for start in islice(find_all(self._prompt.text, needle), _MAX_COPIES):
                run = Run(first, start, last - first)
                borders = (is_border(self._prompt, place) for place in (start, start + run.length))
                if all(borders) and not self._is_question(run):
                    found.add(run)
        return found

    @cached_property
    def _sentences(self) -> list[Interval]:
        """The document's sentences in its normalised text."""
        origins = self.document.origins
        spans = split_spans(self.document.source, sentences)
        places = ((bisect_left(origins, start), bisect_left(origins, end)) for start, end in spans)
        return [(first, last) for first, last in places if first < last]

    def _own(self, run: Run, taken: Sequence[Interval]) -> int:
        """How many characters of a run count: all that nobody else has, if that is enough."""
        start, end = self._place(run)
        free = without(start, end, taken)
        whole = free == [(start, end)]
        if whole or any(_is_long(self._prompt.source[a:b]) for a, b in free):
            return sum(b - a for a, b in free)
        return 0

    def _is_strong(self, run: Run) -> bool:
        """Whether it begins with a sentence, holds one, or is too long to be chance."""
        text = self._shown(run)
        if len(text) >= _MIN_LENGTH_WITHIN or num_unspaced(text) >= _MIN_UNSPACED_WITHIN:
            return True
        end = run.first + run.length
        return run in self._whole_sentences or any(
            run.first <= first < end and (first == run.first or last <= end)
            for first, last in self._sentences
        )

    def _fit(self, one: Run, other: Run) -> bool:
        """Whether the other run follows the one in both texts, not too far away in the prompt."""
        end, start = one.first + one.length, one.start + one.length
        if other.first < end or other.start < start:
            return False
        gap = self._place(other)[0] - self._place(one)[1]
        left_out = (
            self._characters(other.first, other.first + 1)[0] - self._characters(end - 1, end)[1]
        )
        return gap <= max(_MAX_GAP, left_out)

    def _is_question(self, run: Run) -> bool:
        """Whether the prompt asks this, rather than says it."""
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
