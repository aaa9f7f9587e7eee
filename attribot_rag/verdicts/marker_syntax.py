"""The forms of citation markers, and their possible labels."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

from attribot_rag.context import Context
from attribot_rag.context.words import UNSPACED

# In a text that is searched, what the prompt writes stands as these characters, each as often as
# it has letters: names, those that parentheses may hold, words before a number.
_NAME, _CLEAR_NAME, _WORD = "\ue000", "\ue001", "\ue002"
# What a label in brackets is called where the prompt has no word for it.
_CALLED = (
    rf"(?:{_WORD}+|sources?|documents?|docs?|passages?|chunks?|contexts?|references?|refs?"
    r"|citations?|quellen?|fuentes?|fontes?|источники?|来源|來源|文档|文件|资料|引用|出典|資料)"
)
_AND = r"\s*(?:[,;，；、&]|\band\b)\s*"
# A place in the document, after its label: ", p. 3", " § 4", ", section 2.1", "，第3页".
_COMMA = r"\s*[,，:]\s*"
_UNSPACED = f"[{UNSPACED}-\U0003ffff]"
_PLACE = (
    rf"(?:(?:{_COMMA}|\s+)(?:[^\W\d_]+\.|§+)\s*\w|{_COMMA}[^\W\d_]+\s+\d"
    rf"|(?:{_COMMA}{_UNSPACED}*|{_UNSPACED}+)\d+{_UNSPACED})[\w.:–—-]*"
)
_LABEL = rf"(?:(?:{_CALLED}|ids?)[.:：#\s]*)"
_NAMED = rf"(?P<name>{_NAME}+|{_CLEAR_NAME}+)"
_NUMBERED = r"#?(?P<first>\d{1,3})(?:\s*[-–—]\s*(?P<last>\d{1,3}))?"
_NO_ITEM = rf"(?!{_AND}{_LABEL}?(?:{_NAME}|{_CLEAR_NAME}|#?\d{{1,3}}(?!\w)))"
_PLACES = rf"(?:{_NO_ITEM}{_PLACE}){{0,3}}"
_NAMED_ITEM = rf"{_LABEL}?(?:{_NAMED}|{_NUMBERED}){_PLACES}"
_ITEM = re.sub(r"\?P<\w+>", "?:", _NAMED_ITEM)
_ITEMS = rf"{_ITEM}(?:{_AND}{_ITEM})*"
_LINK = r"(?:\((?:<[^<>\n]*>|[^()\s]*)(?:\s+\"[^\"\n]*\")?\))?"
_UNIT = (
    rf"\[\^?{_ITEMS}(?:†[^\[\]\n]*)?\]{_LINK}"
    rf"|[【［〔]\^?{_ITEMS}(?:†[^】］〕\n]*)?[】］〕]"
    rf"|[(（](?:see\s+)?(?={_CALLED}){_ITEMS}[)）]"
    rf"|[(（](?={_CLEAR_NAME}){_ITEMS}[)）](?!\s*\w)"
    rf"|<sup>\s*{_ITEMS}\s*</sup>"
)
_UNITS = rf"(?:{_UNIT})(?:[\s,;，；、]*(?:{_UNIT}))*"
# Markers in brackets of their own are one marker: nothing of it stays when it is taken out.
_MARKER = re.compile(
    rf"[(（](?:see\s+)?{_LABEL}?{_UNITS}[)）]|\[(?:{_UNIT})\]{_LINK}"
    rf"|[\[【［]{_LABEL}{_UNITS}[\]】］]|{_UNIT}",
    re.IGNORECASE,
)
_LABELLED = re.compile(_NAMED_ITEM, re.IGNORECASE)
_IS_CALLED = re.compile(rf"{_CALLED}|†", re.IGNORECASE)
_NO_LABELS = re.compile(r"†[^】］〕\]]*|\]\([^()]*\)|</?sup>", re.IGNORECASE)
# In parentheses, words of a text are no label: a file's name or an id is, and what has its key.
_CLEAR = re.compile(r"(?=.*[^\w\s-]|.*[\d_])\S+|.*: .*")
_MAX_RANGE = 20


@dataclass(frozen=True)
class KnownLabels:
    """The labels of a prompt's documents, each with its documents, by its text in lower case.

    A document without a number in the prompt has the number of its place, if that is free. `words`
    stand before numbers in the prompt; it writes `in_parentheses` so.
    """

    documents: Mapping[str, tuple[int, ...]]
    words: frozenset[str] = frozenset()
    in_parentheses: frozenset[str] = frozenset()

    @classmethod
    def of(cls, context: Context) -> KnownLabels:
        labels = context.labels
        documents: dict[str, dict[int, None]] = defaultdict(dict)
        for document, texts in chain(
            labels.written.items(), *(names.items() for names in labels.names)
        ):
            for text in texts:
                documents[text.casefold()][document] = None
        for document, number in labels.numbers.items():
            if document not in labels.written:
                documents.setdefault(str(number), {document: None})
        for document in range(len(context.documents)):
            if document not in labels.numbers:
                documents.setdefault(str(document + 1), {document: None})
        return cls(
            {label: (*sorted(indices),) for label, indices in documents.items()},
            labels.words,
            labels.in_parentheses,
        )

    def of_label(self, label: str) -> tuple[int, ...]:
        """The indices of its documents."""
        return self.documents.get(label.casefold(), ())

    def has(self, label: str) -> bool:
        return bool(self.of_label(label))


@dataclass(frozen=True)
class Candidate:
    """Characters [start, end) of an answer that may be a marker.

    `labels` are those in it, none if a range is too long. `is_called` says that a word of it, such
    as "source", makes it a marker.
    """

    start: int
    end: int
    labels: tuple[str, ...]
    is_called: bool


def candidates(response: str, known: KnownLabels) -> Iterator[Candidate]:
    """Candidates for markers in a response, in order."""
    masked = _masked(response, known)
    for match in _MARKER.finditer(masked):
        labels = tuple(_labels(response, match))
        yield Candidate(*match.span(), labels, _IS_CALLED.search(match[0]) is not None)


def _labels(response: str, marker: re.Match[str]) -> Iterator[str]:
    """The labels in a marker, a range expanded; none if the range is too long."""
    hidden = _NO_LABELS.sub(lambda match: " " * len(match[0]), marker[0])
    labels: list[str] = []
    for match in _LABELLED.finditer(hidden):
        if match["name"]:
            start, end = match.span("name")
            labels.append(" ".join(response[marker.start() + start : marker.start() + end].split()))
            continue
        first, last = int(match["first"]), int(match["last"] or match["first"])
        if not first <= last <= first + _MAX_RANGE:
            return iter(())
        labels += map(str, range(first, last + 1))
    return iter(labels)


def _masked(response: str, known: KnownLabels) -> str:
    """The response with placeholders of equal length for the prompt's own labels."""
    names = frozenset(label for label in known.documents if not _is_number(label))
    pattern = _written(names, known.words, known.in_parentheses)
    return pattern.sub(
        lambda match: (
            {"name": _NAME, "clear": _CLEAR_NAME, "word": _WORD}[match.lastgroup or ""]
            * len(match[0])
        ),
        response,
    )


@lru_cache(maxsize=16)
def _written(
    names: frozenset[str], words: frozenset[str], in_parentheses: frozenset[str]
) -> re.Pattern[str]:
    """A pattern of the prompt's labels, the longest first."""
    clear = {name for name in names if name in in_parentheses or _CLEAR.fullmatch(name)}
    numbers = filter(_is_number, in_parentheses)
    return re.compile(
        rf"(?<!\w)(?:(?P<clear>{_any_of(clear)}|(?<=[(（]){_any_of(numbers)}(?=[)）]))"
        rf"|(?P<name>{_any_of(names - clear)}))(?!\w)"
        rf"|(?<!\w)(?P<word>{_any_of(words)})(?=[.:：#\s]*\d)",
        re.IGNORECASE,
    )


def _any_of(labels: Iterable[str]) -> str:
    """A pattern of labels, the longest first; without labels it matches nothing."""
    ordered = sorted(labels, key=lambda label: (-len(label), label))
    patterns = (r"\s+".join(map(re.escape, label.split())) for label in ordered)
    return rf"(?:{'|'.join(patterns) or '(?!)'})"


def _is_number(label: str) -> bool:
    return label.isdecimal() and len(label) <= 3
