"""The labels that markers can have in answers to a prompt, and the forms of markers."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

from attribot_rag.context import Context
from attribot_rag.context.words import UNSPACED

# What a label in brackets is called where the prompt has no word for it.
_NAMES = (
    *("sources?", "documents?", "docs?", "passages?", "chunks?", "contexts?", "references?"),
    *("refs?", "citations?", "quellen?", "fuentes?", "fontes?", "источники?", "来源", "來源"),
    *("文档", "文件", "资料", "引用", "出典", "資料"),
)
_AND = r"\s*(?:[,;，；、&]|\band\b)\s*"
# A place in the document, after its label: ", p. 3", " § 4", ", section 2.1", "，第3页".
_COMMA = r"\s*[,，:]\s*"
_UNSPACED = f"[{UNSPACED}-\U0003ffff]"
_PLACE = (
    rf"(?:(?:{_COMMA}|\s+)(?:[^\W\d_]+\.|§+)\s*\w|{_COMMA}[^\W\d_]+\s+\d"
    rf"|(?:{_COMMA}{_UNSPACED}*|{_UNSPACED}+)\d+{_UNSPACED})[\w.:–—-]*"
)
_LINK = r"(?:\((?:<[^<>\n]*>|[^()\s]*)(?:\s+\"[^\"\n]*\")?\))?"
_NO_LABELS = re.compile(r"†[^】］〕\]]*|\]\([^()]*\)|</?sup>", re.IGNORECASE)
# In parentheses, words of a text are no label: a file's name or an id is, and what has its key.
_CLEAR = re.compile(r"(?=.*[^\w\s-]|.*[\d_])\S+|.*: .*")
_MAX_RANGE = 20


@dataclass(frozen=True)
class KnownLabels:
    """The labels of a prompt's documents, each with its documents, by its text in lower case.

    A document that the prompt gives no number has its place among all, if no other has that number.
    `words` stand before numbers in the prompt; it writes `in_parentheses` so.
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
class Syntax:
    """The forms of markers: `marker` finds what may be one, `item` the labels in it.

    `called` finds a word that says that it is one.
    """

    marker: re.Pattern[str]
    item: re.Pattern[str]
    called: re.Pattern[str]

    @classmethod
    def of(cls, known: KnownLabels) -> Syntax:
        names = frozenset(label for label in known.documents if not _is_number(label))
        return _syntax(names, known.words, known.in_parentheses)


def labels_in(marker: str, syntax: Syntax) -> tuple[str, ...]:
    """The labels in a marker, those of a range one by one; none if the range is too long."""
    labels: list[str] = []
    for match in syntax.item.finditer(_NO_LABELS.sub("]", marker)):
        if match["name"]:
            labels.append(" ".join(match["name"].split()))
            continue
        first, last = int(match["first"]), int(match["last"] or match["first"])
        if not first <= last <= first + _MAX_RANGE:
            return ()
        labels += map(str, range(first, last + 1))
    return tuple(labels)


@lru_cache(maxsize=16)
def _syntax(names: frozenset[str], words: frozenset[str], in_parentheses: frozenset[str]) -> Syntax:
    called = "|".join((*_NAMES, *map(re.escape, sorted(words))))
    label = rf"(?:(?:{called}|ids?)[.:：#\s]*)"
    name = _any_of(names)
    begins = rf"{label}?(?:{name}|#?\d{{1,3}}(?!\w))"
    place = rf"(?:(?!{_AND}{begins}){_PLACE}){{0,3}}"
    number = r"#?{}\d{{1,3}}{}(?:\s*[-–—]\s*{}\d{{1,3}}{})?"
    item = rf"{label}?(?:{name}|{number.format('', '', '', '')}){place}"
    items = rf"{item}(?:{_AND}{item})*"
    clear = _any_of(in_parentheses.union(filter(_CLEAR.fullmatch, names)))
    unit = (
        rf"\[\^?{items}(?:†[^\[\]\n]*)?\]{_LINK}"
        rf"|[【［〔]\^?{items}(?:†[^】］〕\n]*)?[】］〕]"
        rf"|[(（](?:see\s+)?(?={called}){items}[)）]"
        rf"|[(（]{clear}(?:{_AND}{clear})*{place}[)）](?!\s*\w)"
        rf"|<sup>\s*{items}\s*</sup>"
    )
    units = rf"(?:{unit})(?:[\s,;，；、]*(?:{unit}))*"
    # Markers in brackets of their own are one marker: nothing of it stays when it is taken out.
    marker = (
        rf"[(（](?:see\s+)?{label}?{units}[)）]|\[(?:{unit})\]{_LINK}"
        rf"|[\[【［]{label}{units}[\]】］]|{unit}"
    )
    first_and_last = number.format("(?P<first>", ")", "(?P<last>", ")")
    return Syntax(
        re.compile(marker, re.IGNORECASE),
        re.compile(rf"{label}?(?:(?P<name>{name})|{first_and_last}){place}", re.IGNORECASE),
        re.compile(rf"{'|'.join(_NAMES)}|†|(?<!\w)(?:{called})[.:：#\s]*\d", re.IGNORECASE),
    )


def _any_of(labels: Collection[str]) -> str:
    """A pattern of labels, the longest first; one that matches nothing without any."""
    ordered = sorted(labels, key=lambda label: (-len(label), label))
    patterns = (r"\s+".join(map(re.escape, label.split())) for label in ordered)
    return rf"(?:{'|'.join(patterns) or '(?!)'})"


def _is_number(label: str) -> bool:
    return label.isdecimal() and len(label) <= 3
