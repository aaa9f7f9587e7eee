"""The labels of documents in a prompt: "[1]", "Document 2:", "[lock.pdf]" or "Title: ..."."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count, pairwise
from typing import NamedTuple

from attribot_rag.context.document import Source
from attribot_rag.context.text import Interval, shared_length

_MAX_LABEL = 300  # characters before a document in which its label stands
_MAX_NAME = 80  # characters
_NUMBER = re.compile(
    r"(?P<bracket>[\[({<#【［（〔^]?)(?P<word>[^\W\d_]*)(?P<marks>[^\w\n]*)(?<![\d.,/-])(?P<number>\d{1,3})"
    r"(?![.,/:-]?\d)(?=[ \t]*(?:[^\w\s]|\n|\Z))"
)
_BRACKETS = frozenset("[({<#【［（〔^")
# Names: in brackets, after a key (`Source: lock.pdf`, `id="a7"`), or alone before the document.
_IN_BRACKETS = re.compile(
    r"(?P<open>[\[【［〔(（]|\{\{?|<\|)(?P<name>[^\[\]【】［］〔〕()（）{}<>|\"\n]+)(?:[\]】］〕)）]|\}|\|>)"
)
_KEYED = re.compile(
    r"(?P<key>[^\W\d]\w*)[\"'*]*(?:"
    r"[:=]\s*[\"'*]*\"(?P<quoted>[^\"\n]+)\"|=(?P<word>[^\s\"'>]+)"
    r"|:[ \t*]*(?P<line>[^\s\"][^\"\n<>|]*))"
)
_ALONE = re.compile(r"(?:\A|\n)[^\w\n]*(?P<name>\w[^\n\[\]()<>{}\":=]*?)\W*\Z")
_TO_LAST_WORD = re.compile(r".*(?:\s|#|(?<=[^\W\d])[:=](?!//))", re.DOTALL)
_SHORT_NUMBER = re.compile(r"\d{1,3}")
_WORDLESS = re.compile(r"(?=.*\D)[\W\d_]*")
# Signs that may stand around a label instead of brackets.
_SIGNS = re.compile(r"[^\w\s\"'`=:;,.!?*#/\\-]+")
_SIGNS_BEFORE = re.compile(rf"{_SIGNS.pattern}\Z")


class _Kind(NamedTuple):
    """What stands before labels of one kind: a bracket, a word and marks, as in "[" or "(ID:"."""

    bracket: str = ""
    word: str = ""
    marks: str = ""

    @property
    def is_bracketed(self) -> bool:
        return not _BRACKETS.isdisjoint(self.bracket + self.marks)


@dataclass(frozen=True)
class DocumentLabels:
    """The labels that a prompt gives to its documents, by their indices.

    - `numbers` has a number for each document; several may share one.
    - `written` has the numbers that the prompt writes before it, for every place.
    - `names` has, for each kind, labels that are not such numbers (file names, titles, ids): the
      name, then longer forms of it.
    - `words` stand before the numbers ("dokument"), in lower case.
    - `signs` stand right before and right after labels.
    """

    numbers: Mapping[int, int]
    written: Mapping[int, tuple[str, ...]]
    names: tuple[Mapping[int, tuple[str, ...]], ...] = ()
    words: frozenset[str] = frozenset()
    signs: frozenset[tuple[str, str]] = frozenset()

    def names_for(self, labels: Iterable[str]) -> dict[int, str]:
        """Document names of the most frequent kind among these labels; empty for numbers."""
        repeated = Counter(label.casefold() for label in labels)

        def count_in(texts_of: Mapping[int, tuple[str, ...]]) -> int:
            return sum(repeated[x] for x in {x.casefold() for of in texts_of.values() for x in of})

        named = max((self.written, *self.names), key=count_in)
        if named is self.written or not count_in(named):
            return {}
        return {document: texts[0] for document, texts in named.items()}

    def numbers_for(
        self, names: Mapping[int, str], cited: Collection[tuple[int, int]]
    ) -> dict[int, int]:
        """The numbers. Documents with the same name share one.

        An answer may have `cited` documents by numbers that it defines itself. These documents get
        those numbers, and documents that would be confused with them get others.
        """
        first = {
            name: number for i, number in [*self.numbers.items()][::-1] if (name := names.get(i))
        }
        numbers = {i: first[names[i]] if i in names else n for i, n in self.numbers.items()}
        own = {
            i: n for i, n in cited if numbers.get(i) != n and str(n) not in self.written.get(i, ())
        }
        if not own:
            return numbers
        taken = {*numbers.values(), *own.values()}
        unused = (number for number in count(1) if number not in taken)
        meant = {number for _, number in cited}
        for i, n in numbers.items():
            if i in own:
                numbers[i] = own[i]
            elif n in meant and (i, n) not in cited:
                numbers[i] = next(unused)
        return numbers


def document_labels(
    prompt: str,
    sources: Sequence[Source],
    num_documents: int,
    turns: Sequence[Interval] = (),
) -> DocumentLabels:
    """The labels of each document that is in the prompt.

    `turns` are the characters of earlier turns, which separate retrievals. A label stands before
    the document in the last retrieval that found it. Most documents have labels of the same kind,
    and these differ between documents. A number without brackets could be a page, so it must not
    exceed the number of documents, and there must be two of them. Counted labels (1, 2; A, B) start
    again in a later retrieval, and then no longer belong to earlier documents. If several searches
    in one turn each count from 1, their documents share labels. Documents without a number get
    unused ones, in the order of the prompt.
    """
    places = _document_places(sources)
    intervals = sorted({place for of_document in places.values() for place in of_document})
    texts = _texts_before(prompt, intervals)
    retrievals = _retrievals_of(intervals, turns)
    kind, numbers = _numbers(texts, retrievals, num_documents)
    shown = _ShownDocuments(places, retrievals)
    written = shown.labels(numbers)
    first = {document: int(labels[0]) for document, labels in written.items()}
    used = {int(label) for labels in written.values() for label in labels}
    unused = (number for number in count(1) if number not in used)
    for document in shown.in_order:
        if document not in first:
            first[document] = next(unused)
    names = list(_names(texts))
    return DocumentLabels(
        first,
        written,
        tuple(shown.labels(*x.forms, last_only=x.counted) for x in names),
        frozenset(filter(None, [kind.word])),
        frozenset(
            chain.from_iterable(_signs(texts, of) for of in (numbers, *(x.forms[0] for x in names)))
        ),
    )


def _signs(texts: Mapping[int, str], labels: _Labels) -> Iterator[tuple[str, str]]:
    """The signs right before and right after labels in these texts."""
    for place, label in labels.items():
        text = texts[place]
        start = text.rfind(label)
        before = _SIGNS_BEFORE.search(text, 0, max(0, start))
        after = _SIGNS.match(text, start + len(label))
        if before and after:
            yield before[0], after[0]


def _texts_before(prompt: str, places: Iterable[Interval]) -> dict[int, str]:
    """The text between each place and the places before it, by the start of the place."""
    texts: dict[int, str] = {}
    done = 0
    for start, end in places:
        texts.setdefault(start, prompt[max(done, start - _MAX_LABEL) : start])
        done = max(done, end)
    return texts


def _numbers(
    texts: Mapping[int, str], retrievals: Mapping[int, int], num_documents: int
) -> tuple[_Kind, _Labels]:
    """The kind of numbers before most places, with these numbers; empty without such a kind."""
    by_kind: dict[_Kind, dict[int, str]] = defaultdict(dict)
    for place, text in texts.items():
        for kind, number in _numbers_in(text):
            if kind.is_bracketed or number <= num_documents:
                by_kind[kind][place] = str(number)
    is_one_each = len(set(retrievals.values())) == len(retrievals)
    candidates: list[tuple[_Kind, _Labels]] = [(_Kind(), {})]
    for kind, labels in by_kind.items():
        differ = len({*labels.values()}) > 1
        is_bare = bool(kind.bracket) and not (kind.word or kind.marks)
        is_label = len(labels) > 1 and (differ or is_one_each or is_bare)
        if (is_label or (kind.is_bracketed and len(labels) == 1)) and _is_usual(labels, texts):
            candidates.append((kind, labels))
    return max(candidates, key=lambda candidate: _rank(candidate[1]))


def _is_usual(labels: _Labels, texts: Mapping[int, str]) -> bool:
    return 2 * len(labels) > len(texts)


def _rank(labels: _Labels) -> tuple[int, bool, bool]:
    """How many places have a label, and whether the labels count up: strictly, or with gaps."""
    numbers = [*map(int, labels.values())]
    are_counted = all(after == before + 1 for before, after in pairwise(numbers))
    highest = [max(numbers[:index], default=number) for index, number in enumerate(numbers)]
    are_parts = all(number <= most + 1 for number, most in zip(numbers, highest, strict=True))
    return len(numbers), are_counted, are_parts


def _numbers_in(text: str) -> Iterator[tuple[_Kind, int]]:
    """The numbers in a text, each with its kind.

    A space separates a word from the marks after it.
    """
    for match in _NUMBER.finditer(text):
        kind = _Kind(match["bracket"], match["word"].casefold(), match["marks"].strip())
        attached = match["marks"].rpartition(" ")[2]
        if attached and attached != match["marks"]:
            length = attached[0] in _BRACKETS
            kind = _Kind(attached[:length], "", attached[length:].strip())
        yield kind, int(match["number"])


@dataclass(frozen=True)
class _Names:
    """The names of one kind in several forms, the shortest first.

    They are `counted` if they differ only in a letter or number at the end.
    """

    forms: tuple[_Labels, ...]
    counted: bool


def _names(texts: Mapping[int, str]) -> Iterator[_Names]:
    """The names of each kind that most of the places have.

    A common beginning of all names is left out. A line that is always the same, without a key or
    brackets, is no name.
    """
    by_kind: dict[_Kind, dict[int, str]] = defaultdict(dict)
    for place, text in texts.items():
        for kind, name in _names_in(text):
            by_kind[kind][place] = " ".join(name.split())
    for kind, labels in by_kind.items():
        first, last = min(labels.values()), max(labels.values())
        is_line = kind == _Kind() and first == last and len(texts) > 1
        if is_line or not _is_usual(labels, texts):
            continue
        alike = shared_length(first, last) if first < last else 0
        same = _TO_LAST_WORD.match(first[:alike])
        length = same.end() if same else 0
        is_marked = bool(kind.bracket or kind.marks)
        short = {
            place: label[length:]
            for place, label in labels.items()
            if _is_name(label[length:], is_marked)
        }
        longer = {place: labels[place] for place in short}
        keyed = {place: f"{kind.word}: {label}" for place, label in longer.items()}
        ends = {label[alike:] for label in labels.values()}
        if short:
            forms = (short, longer, keyed) if kind.word else (short, longer)
            yield _Names(forms, all(len(x) < 2 or x.isdecimal() for x in ends))


def _names_in(text: str) -> Iterator[tuple[_Kind, str]]:
    """The names in a text, each with its kind."""
    for match in _IN_BRACKETS.finditer(text):
        yield _Kind(bracket=match["open"]), match["name"]
    for match in _KEYED.finditer(text):
        name = match["quoted"] or match["word"] or match["line"]
        kind = _Kind(word=match["key"].casefold(), marks="" if match["line"] else "=")
        yield kind, name
    if alone := _ALONE.search(text):
        yield _Kind(), alone["name"]


def _is_name(text: str, is_marked: bool) -> bool:
    """Whether a text may be a name. In brackets or quotes, it needs no word, as in [1.2]."""
    if not 0 < len(text) <= _MAX_NAME or _SHORT_NUMBER.fullmatch(text):
        return False
    return any(map(str.isalnum, text)) if is_marked else not _WORDLESS.fullmatch(text)


_Labels = Mapping[int, str]  # the label before a document, by where the document begins


def _document_places(sources: Sequence[Source]) -> dict[int, tuple[Interval, ...]]:
    """The stretches of the prompt with each document, each from its beginning."""
    pieces = [
        (occurrence, span)
        for source in sources
        for occurrence in source.occurrences
        for span in occurrence.spans
    ]
    places: dict[int, list[Interval]] = defaultdict(list)
    read_to: dict[int, int] = {}
    for occurrence, span in sorted(pieces, key=lambda piece: piece[0].start):
        of_document = places[span.document]
        if of_document and span.start >= read_to[span.document]:
            of_document[-1] = of_document[-1][0], occurrence.end
        else:
            of_document.append((occurrence.start, occurrence.end))
        read_to[span.document] = span.end
    return {document: tuple(places[document]) for document in sorted(places)}


def _retrievals_of(places: Sequence[Interval], turns: Sequence[Interval]) -> dict[int, int]:
    """The number of the retrieval, from 0, of each place. Turns separate retrievals."""
    bounds = [bound for turn in turns for bound in turn]
    retrievals: dict[int, int] = {}
    retrieval = last = 0
    for start, end in places:
        if retrievals and any(last <= bound <= start for bound in bounds):
            retrieval += 1
        retrievals.setdefault(start, retrieval)
        last = max(last, end)
    return retrievals


class _ShownDocuments:
    """The places of documents in their last retrieval.

    Documents with the same text have one place each, as long as there are enough.
    """

    def __init__(
        self, places: Mapping[int, tuple[Interval, ...]], retrievals: Mapping[int, int]
    ) -> None:
        self._retrievals = retrievals
        self._starts: dict[int, list[int]] = {}
        alike: dict[tuple[Interval, ...], list[int]] = defaultdict(list)
        for document, of_document in places.items():
            alike[of_document].append(document)
        for of_document, documents in alike.items():
            last = max(retrievals[start] for start, _ in of_document)
            starts = [start for start, _ in of_document if retrievals[start] == last]
            for index, document in enumerate(documents):
                self._starts[document] = starts[index :: len(documents)] or starts[-1:]

    @property
    def in_order(self) -> list[int]:
        """The documents in the order of their places. Documents that share a place come last."""
        first: dict[int, int] = {}
        for document in sorted(self._starts):
            first.setdefault(self._starts[document][0], document)
        return [*(first[start] for start in sorted(first)), *sorted(self._starts)]

    def labels(self, *forms: _Labels, last_only: bool = True) -> dict[int, tuple[str, ...]]:
        """The labels of each document that has some.

        With `last_only`, a label counts only in its last retrieval.
        """
        latest: dict[str, int] = {}
        for start, label in (item for labels in forms for item in labels.items()):
            latest[label] = max(self._retrievals[start], latest.get(label, 0))
        labelled = {
            document: [
                labels[start]
                for labels in forms
                for start in starts
                if start in labels
                and (not last_only or latest[labels[start]] == self._retrievals[start])
            ]
            for document, starts in self._starts.items()
        }
        return {document: (*dict.fromkeys(texts),) for document, texts in labelled.items() if texts}
