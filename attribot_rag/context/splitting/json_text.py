"""JSON within a text: where it stands, and the parts of it that a reader tells apart."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from attribot_rag.context.intervals import Interval

# Elsewhere in a line, square brackets are the text's own.
_START = re.compile(r"(?P<fence>```\w*\s*)?(?:\{|^[ \t]*\[)", re.MULTILINE)
_REST = re.compile(r"(?:\s*```)?")
_REST_OF_LINE = re.compile(r"[ \t,]*(?:\r?\n|\Z)")
_DECODER = json.JSONDecoder()
# Each reads the text up to its place; so many other brackets are code or broken.
_MAX_FAILURES = 200
_STRING = r'"(?P<string>(?:[^"\\]|\\.)*)"(?P<key>\s*:)?'
_LEAF = re.compile(_STRING + r"|-?\d[\d.eE+-]*|true|false")
_TOKEN = re.compile(_STRING + r"|(?P<open>[{\[])|(?P<close>[}\]])|(?P<comma>,\s*)")
# A longer object or list is no part but has parts, as it has if others are within it.
_MAX_RECORD = 200


def json_in(text: str, first: int, last: int) -> Iterator[Interval]:
    """Characters of the JSON objects and lists in [first, last), with the fences around them."""
    num_failures = 0
    while num_failures < _MAX_FAILURES and (start := _START.search(text, first, last)) is not None:
        begin = start.end() - 1
        try:
            value, end = _DECODER.raw_decode(text, begin)
        except json.JSONDecodeError as error:
            first = max(start.end(), error.pos)
            num_failures += 1
            continue
        except (ValueError, RecursionError):
            return
        rest = _REST.match(text, end, last)
        first = end
        if rest is not None and _is_data(value, text, end):
            first = rest.end()
            yield (begin if start["fence"] is None else start.start()), first


def _is_data(value: Any, text: str, end: int) -> bool:
    """Whether it is JSON and no text in brackets: an object, or a list that has its line alone."""
    if isinstance(value, dict):
        return True
    return bool(value) and _REST_OF_LINE.match(text, end) is not None


def json_values(text: str, first: int, last: int) -> Iterator[re.Match[str]]:
    """Strings, numbers and truth values of the JSON in [first, last); `string` is one's content."""
    for leaf in _LEAF.finditer(text, first, last):
        if leaf["key"] is None and (leaf["string"] is None or leaf["string"].strip()):
            yield leaf


@dataclass
class _Container:
    """An object or a list: where it begins, and its members."""

    start: int
    flat: bool = True
    commas: list[int] = field(default_factory=list)


def json_members(
    text: str, first: int, last: int, *, is_line: bool = False
) -> Iterator[tuple[Interval, Interval]]:
    """The members of the JSON in [first, last), and the string in each that has only one.

    Together they are the whole JSON. A short object or list without others in it is one member;
    the outermost only if it `is_line`, one of several. The string is empty if there is none.
    """
    cuts: list[int] = []
    records: list[Interval] = []
    containers: list[_Container] = []
    for token in _TOKEN.finditer(text, first, last):
        if token["open"]:
            for outer in containers[-1:]:
                outer.flat = False
            containers.append(_Container(token.start()))
        elif token["close"] and containers:
            container = containers.pop()
            is_short = token.end() - container.start <= _MAX_RECORD
            if container.flat and is_short and (containers or is_line):
                records.append((container.start, token.end()))
            else:
                cuts += container.commas
        elif token["comma"] and containers:
            containers[-1].commas.append(token.end())
    for start, end in pairwise([first, *sorted(cuts), last]):
        yield (start, end), _only_string(text, start, end, records)


def _only_string(text: str, start: int, end: int, records: Sequence[Interval]) -> Interval:
    strings = [leaf for leaf in json_values(text, start, end) if leaf["string"] is not None]
    if len(strings) != 1 or any(first < strings[0].start() < last for first, last in records):
        return end, end
    return strings[0].span("string")
