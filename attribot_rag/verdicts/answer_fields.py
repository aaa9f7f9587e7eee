"""Structured answers: which fields of JSON hold labels, and which tags are mark-up."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from attribot_rag.context import Document
from attribot_rag.context.intervals import Interval, at
from attribot_rag.context.words import same_word, words
from attribot_rag.verdicts.marker_syntax import KnownLabels, WrittenMarker, is_number, labels_in

_TOKEN = re.compile(
    r'"(?P<string>(?:[^"\\]|\\.)*)"(?P<key>\s*:)?|(?P<open>[{\[])|(?P<close>[}\]])'
    r"|(?P<scalar>-?\d[\d.eE+-]*|true|false)"
)
_STATES = re.compile(r"[.!?。！？।]\W*\Z")


@dataclass(frozen=True)
class _Value:
    """A string or number of JSON: its characters, quotes aside, and how it is reached.

    `keys` are those of what it is in, and `around` these objects and lists, innermost first.
    """

    leaf: Interval
    text: str
    is_string: bool
    keys: tuple[str, ...]
    around: tuple[Interval, ...]
    in_list: bool


def json_fields(
    response: str, spans: Sequence[Interval], known: KnownLabels, documents: Sequence[Document]
) -> tuple[list[Interval], list[WrittenMarker]]:
    """The values of JSON that state nothing, and the markers among them.

    A key that is called a source, or the like, holds labels if one of its values is one; so does
    any key of which all values are names of documents, or marked as labels, or lists of their
    numbers, unless a document speaks of the key. What stands beside a label in its object is no
    statement, but for sentences. JSON that has nothing but labels, and no key that says so, states
    them.
    """
    fields: list[Interval] = []
    markers: list[WrittenMarker] = []
    for span in spans:
        by_key: dict[str, list[_Value]] = defaultdict(list)
        values = list(_values(response, *span))
        for value in values:
            called = next((key for key in reversed(value.keys) if known.is_called(key)), None)
            by_key[called or next(iter(value.keys), "")].append(value)
        told = {
            value.leaf: _labels(value, known)
            for key, of_key in by_key.items()
            if _hold_labels(key, of_key, known, documents)
            for value in of_key
            if not _STATES.search(value.text) or _labels(value, known)
        }
        if len(told) == len(values) and not any(map(known.is_called, by_key)):
            continue
        fields += told
        marked: set[Interval] = set()
        for value in values:
            labels = told.get(value.leaf, ())
            if labels and (value.in_list or value.around[0] not in marked):
                marked.add(value.around[0])
                markers.append(WrittenMarker(*_inner(value), labels, scopes=(*value.around, span)))
    return sorted(fields), markers


def _inner(value: _Value) -> Interval:
    start, end = value.leaf
    return (start + 1, end - 1) if value.is_string else (start, end)


def _hold_labels(
    key: str, values: Sequence[_Value], known: KnownLabels, documents: Sequence[Document]
) -> bool:
    labels = [_labels(value, known) for value in values]
    are_known = [bool(of) and any(map(known.has, of)) for of in labels]
    are_numbers = [not value.is_string for value in values]
    if known.is_called(key):
        is_count = known.is_count(key) and not any(value.in_list for value in values)
        return not is_count if all(are_numbers) else any(are_known)
    if not all(are_known):
        return False
    if not any(are_numbers):
        return not any(is_number(value.text.strip()) for value in values)
    asked = (word for document in documents for word in words(document.text.casefold()))
    spoken = any(same_word(word, part) for word in set(asked) for part in words(key.casefold()))
    return all(value.in_list for value in values) and not spoken


def _labels(value: _Value, known: KnownLabels) -> tuple[str, ...]:
    if value.is_string:
        return labels_in(value.text, known)
    return (value.text,) if is_number(value.text) else ()


def _values(text: str, first: int, last: int) -> Iterator[_Value]:
    """The strings, numbers and truth values of JSON, with the ends of what they are in."""
    found: list[tuple[re.Match[str], tuple[int, ...], tuple[str, ...], bool]] = []
    opened: list[tuple[int, str, bool]] = []
    ends: dict[int, int] = {}
    key = ""
    for token in _TOKEN.finditer(text, first, last):
        if token["key"]:
            key = token["string"]
        elif token["open"]:
            opened.append((token.start(), key, token["open"] == "["))
            key = ""
        elif token["close"]:
            if opened:
                ends[opened.pop()[0]] = token.end()
            key = ""
        elif token["string"] is None or token["string"].strip():
            around = tuple(start for start, _, _ in reversed(opened))
            keys = tuple(filter(None, [key, *(each for _, each, _ in reversed(opened))]))
            found.append((token, around, keys, bool(opened) and opened[-1][2]))
            key = ""
        else:
            key = ""
    for token, around, keys, in_list in found:
        yield _Value(
            (token.start(), token.end()),
            token["string"] if token["string"] is not None else token[0],
            token["string"] is not None,
            keys,
            tuple((start, ends.get(start, last)) for start in around),
            in_list,
        )


_MAX_OPEN = 50
_TAG = re.compile(r"<(?P<closing>/?)(?P<name>[a-z][\w.-]*)(?P<rest>[^<>]*)>", re.IGNORECASE)


@dataclass(frozen=True)
class TagPairs:
    """The tags of an answer that are opened and closed, in order."""

    opening: tuple[Interval, ...] = ()
    closing: tuple[Interval, ...] = ()
    elements: tuple[Interval, ...] = ()

    def around(self, span: Interval) -> tuple[Interval, ...]:
        """The elements around some characters, the innermost first."""
        around = (x for x in self.elements if x[0] < span[0] and span[1] < x[1])
        return tuple(sorted(around, key=lambda x: x[1] - x[0]))


def tag_pairs(response: str, markers: Sequence[Interval], others: Sequence[Interval]) -> TagPairs:
    """The tags of elements, whatever their names; none in markers, nor in `others`, such as code.

    A marker may be the tag that closes an element.
    """
    opened: list[re.Match[str]] = []
    pairs: list[tuple[re.Match[str], re.Match[str]]] = []
    for tag in _TAG.finditer(response):
        inside = at(markers, tag.start())
        is_within = at(others, tag.start()) or (inside and inside[0][0] != tag.start())
        if is_within or tag["rest"].endswith("/"):
            continue
        if not tag["closing"]:
            opened = [*opened[-_MAX_OPEN:], tag] if not inside else opened
            continue
        index = next(
            (i for i in reversed(range(len(opened))) if opened[i]["name"] == tag["name"]), None
        )
        if index is not None:
            pairs.append((opened[index], tag))
            del opened[index:]
    return TagPairs(
        tuple(sorted(first.span() for first, _ in pairs)),
        tuple(sorted(last.span() for _, last in pairs if not at(markers, last.start()))),
        tuple((first.start(), last.end()) for first, last in pairs),
    )
