"""Finds documents and earlier turns in a prompt, in whatever form they stand there."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice

from rapidfuzz.distance import Indel, LCSseq, Levenshtein

from attribot_rag.cached_property import cached_property
from attribot_rag.context.alignment import (
    AlignedText,
    CommonText,
    Location,
    TextIndex,
    at_words,
    common_runs,
    is_border,
    locate_passage,
)
from attribot_rag.context.context import Context, ContextOptions
from attribot_rag.context.document import Documents, documents_of
from attribot_rag.context.prompt import TokenizedText
from attribot_rag.context.sources import divide
from attribot_rag.context.splitting.splitter import make_splitter, sentences, split_spans
from attribot_rag.context.text import (
    Interval,
    add,
    has_words,
    merge,
    num_unspaced,
    overlapping,
    single_spaced,
    stands_alone,
    subtract,
)
from attribot_rag.errors import DocumentsNotLocated


def locate_context(
    prompt: TokenizedText,
    documents: Documents,
    options: ContextOptions,
    *,
    earlier_turns: Sequence[str] = (),
    message: str = "",
) -> Context:
    """Locate the documents and the earlier turns in the prompt, and cut documents into sources.

    `message` is the user's last message, after the earlier turns; '' for a prompt without messages.
    Raises InvalidInput without documents, and DocumentsNotLocated if the prompt has none of them.
    """
    retrieved = documents_of(documents)
    conversation = find_turns(prompt.text, earlier_turns)
    holders: dict[str, list[int]] = defaultdict(list)
    for index, document in enumerate(retrieved):
        holders[document.text].append(index)
    located = LocatedDocuments(
        prompt.text, holders, threshold=options.fuzzy_threshold, occupied=conversation
    )
    places = located.whole | located.parts
    splitter = make_splitter(options.source_unit, options.language)
    cuts = {text: split_spans(text, splitter) for text in places}

    def indices(texts: Collection[str]) -> tuple[int, ...]:
        return tuple(index for index, document in enumerate(retrieved) if document.text in texts)

    if not places:
        raise DocumentsNotLocated(
            f"none of the documents ({len(retrieved)}) is in the prompt, of "
            f"{len(prompt.text):,} characters; the first begins {retrieved[0].text[:60]!r}; pass "
            "the chunks whose text was put into this prompt"
        )
    threshold = options.duplicate_threshold
    shares = _shares(located.parts)
    return Context(
        documents=retrieved,
        prompt=prompt,
        sources=divide(located.index, places, cuts, holders, duplicate_threshold=threshold),
        regions=tuple(merge((x.start, x.end) for at in places.values() for x in at)),
        not_located=indices(holders.keys() - places),
        conversation=conversation,
        message=_find_last(prompt.text, message, conversation),
        partly_located={index: shares[retrieved[index].text] for index in indices(shares)},
        crowded=indices(located.crowded),
        language=options.language,
    )


def find_turns(prompt: str, turns: Sequence[str]) -> tuple[Interval, ...]:
    """The characters of these texts in the prompt, in order. Missing texts are left out."""
    places = []
    done = 0
    for turn in turns:
        text = turn.strip()
        start = prompt.find(text, done) if text else -1
        if start >= 0:
            done = start + len(text)
            places.append((start, done))
    return tuple(places)


def _find_last(prompt: str, message: str, turns: Sequence[Interval]) -> tuple[Interval, ...]:
    """The last place of the message after the turns, or nothing."""
    text = message.strip()
    start = prompt.rfind(text, turns[-1][1] if turns else 0) if text else -1
    return ((start, start + len(text)),) if start >= 0 else ()


def _shares(parts: Mapping[str, Sequence[Location]]) -> dict[str, float]:
    """The share of each text's characters in its parts, without white space, if below 1."""
    shares = {}
    for text, places in parts.items():
        spans = merge(part.document_span for part in places if part.document_span)
        covered = sum(len("".join(text[slice(*span)].split())) for span in spans)
        shares[text] = covered / len("".join(text.split()))
    return {text: share for text, share in shares.items() if share < 1}


class LocatedDocuments:
    """Different documents, located in a prompt, by their texts.

    `whole` has the locations of whole documents, `parts` of parts of other documents. Prompt
    and documents are compared as they are, and then without their escape sequences. `crowded` are
    documents with further places. `index` belongs to the prompt.

    `threshold` is the least similarity of a fuzzy location, 0 to 1 (see `_similar_passage`).
    `occupied` are characters of the prompt that belong to no document, such as earlier turns.
    """

    def __init__(
        self,
        prompt: str,
        documents: Collection[str],
        *,
        threshold: float,
        occupied: Sequence[Interval] = (),
    ) -> None:
        self._threshold = threshold
        self._plain = Locator(prompt, threshold=threshold)
        self.crowded = self._plain.crowded
        self.index = self._plain.prompt.index
        places = {text: self._places(text) for text in documents}
        self.whole = {text: located for text, located in places.items() if located}
        missing = [text for text in places if text not in self.whole]
        covered = [(place.start, place.end) for at in self.whole.values() for place in at]
        self.parts = self._parts(missing, [*covered, *occupied]) if missing else {}

    @cached_property
    def _unescaped(self) -> AlignedText:
        return self._plain.prompt.unescaped()

    @cached_property
    def _locator(self) -> Locator:
        if self._unescaped.text == self._plain.prompt.text:
            return self._plain
        return Locator(self._unescaped.text, threshold=self._threshold)

    def _places(self, document: str) -> list[Location]:
        if places := self._plain.locate_unchanged(document):
            return places
        unescaped = AlignedText.of(document).unescaped()
        places = self._locator.locate(unescaped.text)
        if unescaped.text in self._locator.crowded:
            self.crowded.add(document)
        return [self._in_prompt(place, unescaped) for place in places]

    def _in_prompt(self, place: Location, document: AlignedText) -> Location:
        """A location of the unescaped document in the unescaped prompt, in those as they are."""
        escaped = place.in_sources(document, self._unescaped)
        is_escaped = escaped.end - escaped.start != place.end - place.start
        return replace(escaped, is_escaped=is_escaped)

    def _parts(
        self, documents: Sequence[str], occupied: Sequence[Interval]
    ) -> dict[str, list[Location]]:
        texts = {document: AlignedText.of(document).unescaped() for document in documents}
        parts = find_parts(
            self._locator.letters,
            dict.fromkeys(unescaped.text for unescaped in texts.values()),
            [self._unescaped.span_of(interval) for interval in occupied],
        )
        return {
            text: [self._in_prompt(part, unescaped) for part in parts[unescaped.text]]
            for text, unescaped in texts.items()
            if unescaped.text in parts
        }


def texts_in_prompt(prompt: str, texts: Collection[str]) -> frozenset[str]:
    """The texts that are in the prompt, as a whole or in part, in any form.

    A text does not count if it only appears within another text that is in the prompt as a whole.
    """
    plain = single_spaced(prompt)
    present = {text for text in texts if single_spaced(text) in plain}
    distinct = sorted(set(texts))
    if len(present) < len(distinct):
        located = LocatedDocuments(prompt, distinct, threshold=1)
        present.update(located.whole, located.parts)
    return frozenset(present)


_NUMBER = re.compile(r"\d+")
_RELATION = re.compile(r"[<>≤≥](?=\s*[-.\d])")
# Shorter texts agree by chance if case and punctuation are ignored.
_MIN_WORDS = 3
_MIN_LETTERS = 8
# For one document; and for all documents together, as a multiple of the prompt's length.
_MOST_PLACES, _MOST_COVERED = 200, 16


class Locator:
    """Searches a prompt for whole documents: as they are, then by their letters, then fuzzily.

    White space may always differ. Letters and digits are compared without case, mark-up, typography
    and Unicode forms. `threshold` is the least similarity of a fuzzy location, 0 to 1. `crowded`
    are the documents with further places.
    """

    def __init__(self, prompt: str, *, threshold: float) -> None:
        self.prompt = AlignedText.of(prompt)
        self._threshold = threshold
        self._room = _MOST_COVERED * len(prompt)
        self.crowded: set[str] = set()

    @cached_property
    def letters(self) -> AlignedText:
        """The prompt reduced to its letters and digits."""
        return self.prompt.letters()

    @cached_property
    def _spaced(self) -> AlignedText:
        return self.prompt.single_spaced()

    def locate(self, document: str) -> list[Location]:
        """The places of a document in the prompt, ascending; empty if the prompt lacks it.

        Places inside a longer word count only if there are no others. A fuzzy place must not have a
        number that the document lacks, and every place must have the same relations (< 5). A
        document has at most 200 places, and fewer if documents repeat each other's text.
        """
        return self.locate_unchanged(document) or self._locate_letters(document)

    def locate_unchanged(self, document: str) -> list[Location]:
        """The places that differ only in white space."""
        form = AlignedText.of(document).single_spaced()
        starts = self._spaced.index.find_all(form.text)
        places = [(start, start + len(form.text)) for start in starts]
        return [
            Location(start, end, range(start, end + 1)).in_sources(form, self._spaced)
            for start, end in self._standing_alone(form, self._spaced, places)
        ]

    def _locate_letters(self, document: str) -> list[Location]:
        """The places of the document's letters, or else of similar letters."""
        form, letters = AlignedText.of(document).letters(), self.letters
        if not has_words(document, _MIN_WORDS) or len(form.text) < _MIN_LETTERS:
            return []
        places = [(start, start + len(form.text)) for start in letters.index.find_all(form.text)]
        equal = self._located(
            form, letters, [place for place in places if letters.is_whole(*place)]
        )
        if equal or len(form.source) > len(self.prompt.text):
            return equal
        similar = _similar_passage(form, letters, self._threshold)
        passage = self.prompt.text[slice(*letters.source_span(*similar))] if similar else ""
        if not passage or set(_NUMBER.findall(passage)) - set(_NUMBER.findall(document)):
            return []
        starts = letters.index.find_all(letters.text[slice(*similar)])
        length = similar[1] - similar[0]
        return self._located(form, letters, [(start, start + length) for start in starts])

    def _standing_alone(
        self, document: AlignedText, prompt: AlignedText, passages: Sequence[Interval]
    ) -> Sequence[Interval]:
        """The first passages that are not inside a longer word, if there are some; else the first.

        Of a document's passages, there are as many as have room.
        """
        alone = [
            passage
            for passage in passages
            if stands_alone(prompt.source, *prompt.source_span(*passage))
        ]
        found = alone or passages
        room = max(1, self._room // max(1, len(document.source)))
        chosen = found[: min(_MOST_PLACES, room)]
        self._room -= len(chosen) * len(document.source)
        if len(chosen) < len(found):
            self.crowded.add(document.source)
        return chosen

    def _located(
        self, document: AlignedText, prompt: AlignedText, passages: Sequence[Interval]
    ) -> list[Location]:
        """The locations of a document in passages of the prompt with the same relations."""
        relations = _RELATION.findall(document.source)
        locations = (
            locate_passage(document, prompt, (0, len(document.text)), passage)
            for passage in self._standing_alone(document, prompt, passages)
        )
        return [
            replace(place, document_span=None)
            for place in locations
            if _RELATION.findall(prompt.source[place.start : place.end]) == relations
        ]


_GRAM, _STRIDE, _MAX_HITS = 6, 3, 4_096
# Starts that are close together count as one; so many votes must agree.
_BAND, _MIN_VOTES, _MIN_SHARE, _MAX_STARTS = 8, 24, 1 / 32, 8
_MAX_SLACK, _MAX_FITTED = 200, 1_024
# The next stretch begins where the first half of the one before ends.
_STRETCH = 2_048
# So many equal letters in a row are no chance; a letter of other text counts as so many.
_PIN, _GAP = 8, 2


def _similar_passage(document: AlignedText, prompt: AlignedText, threshold: float) -> Interval:
    """The passage [start, end) of the prompt that is most similar to a document, or (0, 0).

    The similarity is 1 minus the differing letters, as a share of the document's characters. The
    passage has at least the similarity `threshold`, 0 to 1.
    """
    most = (1 - threshold) * len(document.source) + 1e-9
    chosen = (0, 0)
    for begin in _starts(document.text, prompt.index):
        runs = _dense(_aligned(document.text, prompt.text, begin, most))
        if not runs:
            continue
        pins = [run for run in runs if run.length >= _PIN] or runs
        certain = runs[runs.index(pins[0]) : runs.index(pins[-1]) + 1]
        start, end, num_around = _fitted(document.text, prompt, pins[0], pins[-1])
        num_common = sum(run.length for run in certain) + num_around
        num_different = max(len(document.text), end - start) - num_common
        if num_different < most:
            most, chosen = num_different, (start, end)
    return chosen


def _starts(document: str, index: TextIndex) -> list[int]:
    """Where a document may start in a text, by the places of shared n-grams.

    An n-gram divides its vote among its places, so text that other documents lack decides.
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


def _aligned(document: str, text: str, start: int, most: float) -> Sequence[CommonText]:
    """The common runs of a document and the text from about `start` on.

    Empty if more than `most` letters of the document are not in the text. The texts are aligned one
    stretch at a time, so time and memory are linear in the document's length.
    """
    slack = min(_MAX_SLACK, int(most)) + _BAND
    at, place = 0, max(0, start - slack)
    runs: list[CommonText] = []
    while True:
        ours = document[at : at + _STRETCH]
        theirs = text[place : place + len(ours) + 2 * slack]
        is_last = at + _STRETCH >= len(document)
        half = len(ours) if is_last else _STRETCH // 2
        blocks = Indel.editops(ours, theirs).as_matching_blocks()
        common = [
            CommonText(at + x.a, place + x.b, x.size) for x in blocks if x.size and x.a < half
        ]
        runs += common
        if not common or runs[-1].document_end - sum(run.length for run in runs) > most:
            return ()
        if is_last:
            return runs
        at, place = runs[-1].document_end, runs[-1].prompt_end


def _dense(runs: Sequence[CommonText]) -> Sequence[CommonText]:
    """Neighbouring runs with the most letters, minus the letters of the text between them."""
    score = best = first = 0
    dense = runs
    for index, run in enumerate(runs):
        score -= _GAP * (run.prompt_start - runs[index - 1].prompt_end) if index else 0
        if score <= 0:
            score, first = 0, index
        score += run.length
        if score > best:
            best, dense = score, runs[first : index + 1]
    return dense


def _fitted(
    document: str, prompt: AlignedText, first: CommonText, last: CommonText
) -> tuple[int, int, int]:
    """The passage from the first to the last certain run, with similar text around them.

    And how many letters around them are common.
    """
    lead, tail = document[: first.document_start][::-1], document[last.document_end :]
    start, end = first.prompt_start, last.prompt_end
    before = prompt.text[max(0, start - len(lead) - _MAX_SLACK) : start][::-1]
    after = prompt.text[end : end + len(tail) + _MAX_SLACK]
    length = _length(lead, before, lambda length: is_border(prompt, start - length))
    further = _length(tail, after, lambda length: is_border(prompt, end + length))
    num_common = LCSseq.similarity(lead, before[:length]) + LCSseq.similarity(tail, after[:further])
    return start - length, end + further, num_common


def _length(text: str, other: str, is_border: Callable[[int], bool]) -> int:
    """The length of the prefix of another text that is most similar to this one.

    A single common letter does not count. The last word stays whole if that is as similar.
    """
    text, other = text[:_MAX_FITTED], other[: _MAX_FITTED + _MAX_SLACK]

    def score(length: int) -> int:
        common = LCSseq.similarity(text, other[:length])
        return common - _GAP * (length - common) if length else 1

    length = max(range(len(other) + 1), key=score)
    word = next(filter(is_border, range(length, len(other) + 1)), length)
    return min(word, length, key=lambda length: Levenshtein.distance(text, other[:length]))


_MIN_PART_LENGTH, _MIN_PART_WORDS, _MIN_UNSPACED = 40, 5, 12
_MIN_SENTENCE_WORDS, _MIN_SENTENCE_UNSPACED = 4, 8
# A run that begins within a sentence may be a common phrase, unless it is long.
_MIN_LENGTH_WITHIN, _MIN_UNSPACED_WITHIN = 100, 30
_MAX_GAP = 200
_MAX_RUNS, _MAX_COPIES = 200, 50
_GRAMS, _UNSPACED_GRAMS = (16, 8), (6, 6)


def find_parts(
    prompt: AlignedText, documents: Iterable[str], covered: Sequence[Interval]
) -> dict[str, list[Location]]:
    """Locate parts of documents, by the documents' texts.

    Each document has at most one stretch of the prompt: common runs in the document's order, near
    each other. A run must be a whole sentence, or too long to be common by chance. Enough of it
    must not be `covered` by other documents or earlier turns. Documents with longer parts take
    precedence; equally long parts have equal rank. Case, mark-up, punctuation and white space are
    ignored. Time is about linear in the lengths of the texts.
    """
    occupied = merge(covered)
    searched = {text: _Parts(AlignedText.of(text).letters(), prompt) for text in documents}
    sizes = {text: size for text in searched if (size := searched[text].stretch(occupied)[0])}
    parts: dict[str, list[Location]] = {}
    while sizes:
        # More and more is occupied, so sizes only shrink. The longest are computed again.
        longest = max(sizes.values())
        chosen = {}
        for text in [text for text, size in sizes.items() if size == longest]:
            size, runs = searched[text].stretch(occupied)
            if size == longest:
                chosen[text] = runs
            if size in (0, longest):
                del sizes[text]
            else:
                sizes[text] = size
        for text, runs in chosen.items():
            document = searched[text].document
            parts[text] = [
                locate_passage(document, prompt, run.document_span, run.prompt_span) for run in runs
            ]
        for part in (part for text in chosen for part in parts[text]):
            add(occupied, (part.start, part.end))
    return parts


class _Parts:
    """The runs that one document has in common with the prompt."""

    def __init__(self, document: AlignedText, prompt: AlignedText) -> None:
        self.document = document
        self._prompt = prompt

    def stretch(self, occupied: Sequence[Interval]) -> tuple[int, tuple[CommonText, ...]]:
        """The runs in the document's order with the most free characters."""
        free = {run: size for run in self._runs if (size := self._num_free(run, occupied))}
        strong = [run for run in free if self._is_strong(run)]
        runs = [
            run
            for run in free
            if run in strong or any(self._fit(run, x) or self._fit(x, run) for x in strong)
        ]
        best: list[tuple[int, tuple[CommonText, ...]]] = []
        for index, run in enumerate(runs):
            before = (best[i] for i in range(index) if self._fit(runs[i], run))
            size, earlier = max(before, key=lambda item: item[0], default=(0, ()))
            best.append((size + free[run], (*earlier, run)))
        return max(best, key=lambda item: item[0], default=(0, ()))

    @cached_property
    def _runs(self) -> list[CommonText]:
        """The long runs and whole sentences in the prompt's order, without runs inside others."""
        candidates = {*self._long(), *self._whole_sentences}
        longest = sorted(candidates, key=lambda run: (-run.length, run))[:_MAX_RUNS]
        by_shift: dict[int, list[CommonText]] = {}
        for run in longest:
            group = by_shift.setdefault(run.prompt_start - run.document_start, [])
            if not any(x.document_start <= run.document_start < x.document_end for x in group):
                group.append(run)
        return sorted(chain(*by_shift.values()), key=lambda run: run.prompt_start)

    def _long(self) -> Iterator[CommonText]:
        is_unspaced = 2 * num_unspaced(self.document.source) > len(self.document.text)
        grams = _UNSPACED_GRAMS if is_unspaced else _GRAMS
        for run in common_runs(self.document.text, self._prompt.index, *grams):
            if not _is_long(self._text(run)):
                continue
            kept = at_words(self.document, self._prompt, run)
            if _is_long(self._text(kept)) and not self._is_question(kept):
                yield kept

    @cached_property
    def _whole_sentences(self) -> set[CommonText]:
        whole = set()
        spans = [
            (first, last)
            for first, last in self._sentences
            if _is_sentence(self.document.source[slice(*self.document.source_span(first, last))])
        ]
        for first, last in spans:
            starts = self._prompt.index.find_all(self.document.text[first:last])
            for start in islice(starts, _MAX_COPIES):
                run = CommonText(first, start, last - first)
                borders = (is_border(self._prompt, place) for place in (start, start + run.length))
                if all(borders) and not self._is_question(run):
                    whole.add(run)
        return whole

    @cached_property
    def _sentences(self) -> list[Interval]:
        places = map(self.document.span_of, split_spans(self.document.source, sentences))
        return [(first, last) for first, last in places if first < last]

    def _num_free(self, run: CommonText, occupied: Sequence[Interval]) -> int:
        """How many characters of a run are free; 0 if each free piece is short."""
        place = self._place(run)
        free = subtract(place, overlapping(occupied, place))
        if free == [place] or any(_is_long(self._prompt.source[a:b]) for a, b in free):
            return sum(b - a for a, b in free)
        return 0

    def _is_strong(self, run: CommonText) -> bool:
        """Whether it begins a sentence, contains one, or is too long to be common by chance."""
        text = self._text(run)
        if len(text) >= _MIN_LENGTH_WITHIN or num_unspaced(text) >= _MIN_UNSPACED_WITHIN:
            return True
        return run in self._whole_sentences or any(
            run.document_start <= first < run.document_end
            and (first == run.document_start or last <= run.document_end)
            for first, last in self._sentences
        )

    def _fit(self, run: CommonText, other: CommonText) -> bool:
        """Whether `other` follows `run` in both texts, and is near it in the prompt."""
        if other.document_start < run.document_end or other.prompt_start < run.prompt_end:
            return False
        gap = self._place(other)[0] - self._place(run)[1]
        source_span = self.document.source_span
        left_out = source_span(*other.document_span)[0] - source_span(*run.document_span)[1]
        return gap <= max(_MAX_GAP, left_out)

    def _is_question(self, run: CommonText) -> bool:
        """Whether this is a question in the prompt."""
        start, end = self._place(run)
        text = self._prompt.source[start:end]
        return self._prompt.source[end : end + 1] in ("?", "？") and not any(
            mark in text for mark in ".!。！"
        )

    def _text(self, run: CommonText) -> str:
        return self._prompt.source[slice(*self._place(run))] if run.length else ""

    def _place(self, run: CommonText) -> Interval:
        return self._prompt.source_span(*run.prompt_span)


def _is_long(text: str) -> bool:
    if num_unspaced(text) >= _MIN_UNSPACED:
        return True
    return len(text) >= _MIN_PART_LENGTH and has_words(text, _MIN_PART_WORDS)


def _is_sentence(text: str) -> bool:
    unspaced = num_unspaced(text)
    return unspaced >= _MIN_SENTENCE_UNSPACED or has_words(text, unspaced + _MIN_SENTENCE_WORDS)
