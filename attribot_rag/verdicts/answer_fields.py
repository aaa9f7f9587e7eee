"""Structured answers: which fields of JSON hold labels, and which tags are mark-up."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from attribot_rag.context import Document
from attribot_rag.context.text import Interval, at, same_word, words
from attribot_rag.verdicts.marker_syntax import KnownLabels, WrittenMarker, is_number, labels_in

_TOKEN = re.compile(
    r'"(?P<string>(?:[^"\\]|\\.)*)"(?P<key>\s*:)?|(?P<open>[{\[])|(?P<close>[}\]])'
    r"|(?P<scalar>-?\d[\d.eE+-]*|true|false)"
)
_STATES = re.compile(r"[.!?。！？।]\W*\Z")


@dataclass
class _Container:
    """An object or a list of JSON, with the key that it is the value of."""

    start: int
    end: int
    key: str
    is_list: bool


@dataclass(frozen=True)
class _Value:
    """A string, number or truth value of JSON, at `leaf`, quotes included.

    `keys` are its own and those of what is `around` it, innermost first.
    """

    leaf: Interval
    text: str
    is_string: bool
    keys: tuple[str, ...]
    around: Sequence[_Container]

    @property
    def in_list(self) -> bool:
        return bool(self.around) and self.around[0].is_list


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
        values = _values(response, *span)
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
        marked: set[int] = set()
        for value in values:
            labels = told.get(value.leaf, ())
            if labels and (value.in_list or value.around[0].start not in marked):
                marked.add(value.around[0].start)
                scopes = ((outer.start, outer.end) for outer in value.around)
                start, end = value.leaf[0] + value.is_string, value.leaf[1] - value.is_string
                markers.append(WrittenMarker(start, end, labels, scopes=(*scopes, span)))
    return sorted(fields), markers


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


def _values(text: str, first: int, last: int) -> list[_Value]:
    values: list[_Value] = []
    opened: list[_Container] = []
    key = ""
    for token in _TOKEN.finditer(text, first, last):
        if token["open"]:
            opened.append(_Container(token.start(), last, key, token["open"] == "["))
        elif token["close"] and opened:
            opened.pop().end = token.end()
        elif token["scalar"] or (not token["key"] and (token["string"] or "").strip()):
            around = opened[::-1]
            keys = (*filter(None, (key, *(outer.key for outer in around))),)
            text_of = token["scalar"] or token["string"]
            values.append(_Value(token.span(), text_of, not token["scalar"], keys, around))
        key = token["string"] if token["key"] else ""
    return values


_MAX_OPEN = 50
_TAG = re.compile(r"<(?P<closing>/?)(?P<name>[a-z][\w.-]*)(?P<rest>[^<>]*)>", re.IGNORECASE)


def tag_pairs(
    response: str, markers: Sequence[Interval], others: Sequence[Interval]
) -> list[tuple[Interval, Interval]]:
    """The tags that open and close elements, whatever their names; none in `others`, such as code.

    None in markers either, but a marker may be the tag that closes an element.
    """
    opened: list[re.Match[str]] = []
    pairs: list[tuple[Interval, Interval]] = []
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
            pairs.append((opened[index].span(), tag.span()))
            del opened[index:]
    return pairs
