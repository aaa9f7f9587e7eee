"""The values of an answer in JSON, each of which is a sentence of its own."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from attribot_rag.context.intervals import Interval

_START = re.compile(r"(?:```\w*\s*)?(?P<json>\{|\[\s*\{)")
_REST = re.compile(r"(?:\s*```)?")
_LEAF = re.compile(r'"(?P<string>(?:[^"\\]|\\.)*)"(?P<key>\s*:)?|-?\d[\d.eE+-]*|true|false')

Split = Callable[[int, int], Sequence[Interval]]


def pieces(text: str, first: int, last: int, split: Split) -> Iterator[tuple[Interval, bool]]:
    """All of [first, last) in pieces, and whether each is a sentence.

    `split` gives the sentences of an interval. Of the first JSON object, or list of objects, the
    strings, numbers and truth values are sentences, and what stands between them is none.
    """
    found = _json_in(text, first, last)
    if found is None:
        yield from ((sentence, True) for sentence in split(first, last))
        return
    done, end = found
    yield from ((sentence, True) for sentence in split(first, done))
    for leaf in _LEAF.finditer(text, *found):
        if leaf["key"] is None and (leaf["string"] is None or leaf["string"].strip()):
            yield (done, leaf.start()), False
            yield from ((sentence, True) for sentence in _sentences(leaf, split))
            done = leaf.end()
    yield (done, end), False
    yield from ((sentence, True) for sentence in split(end, last))


def _json_in(text: str, first: int, last: int) -> Interval | None:
    """Characters of the first JSON object, or list of objects, with the fence around it."""
    found = _START.search(text, first, last)
    if found is None:
        return None
    try:
        _, end = json.JSONDecoder().raw_decode(text, found.start("json"))
    except (ValueError, RecursionError):
        return None
    rest = _REST.match(text, end, last)
    return None if rest is None else (found.start(), rest.end())


def _sentences(leaf: re.Match[str], split: Split) -> Iterator[Interval]:
    """Those of a string, with its quotes; nothing is split within quotes."""
    if leaf["string"] is None:
        return iter([leaf.span()])
    later = [start for start, _ in split(*leaf.span("string"))[1:]]
    return pairwise([leaf.start(), *later, leaf.end()])
