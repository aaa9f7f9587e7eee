"""The pieces of an answer that are judged: sentences, blocks of code, the values of JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from attribot_rag.attribution.markdown import markdown
from attribot_rag.context.intervals import Interval, overlapping
from attribot_rag.context.splitting.json_text import json_in, json_values

_SPACE = re.compile(r"\s*")

Split = Callable[[int, int], Sequence[Interval]]


def pieces(
    text: str, first: int, last: int, split: Split, markers: Sequence[Interval] = ()
) -> Iterator[tuple[Interval, bool]]:
    """All of [first, last) in pieces, and whether each is a sentence.

    `split` gives the sentences of an interval. A block of code is one sentence, and none ends
    within inline code. Of JSON objects and lists, the strings, numbers and truth values are
    sentences, and what stands between them is none. One of the `markers` is no list.
    """
    done = first
    for start, end, is_json in _wholes(text, first, last, markers):
        yield from _sentences(text, done, start, split)
        if is_json:
            yield from _values(text, start, end, split)
        else:
            yield (start, end), True
        done = end
    yield from _sentences(text, done, last, split)


def _sentences(text: str, first: int, last: int, split: Split) -> Iterator[tuple[Interval, bool]]:
    """Those of running text."""
    code = overlapping(markdown(text).inline_code, (first, last))
    spans = split(first, last) if first < last else ()
    starts = [
        start
        for start, _ in spans
        if all(not begin < start < end for begin, end in _at(code, start))
    ]
    return (((start, end), True) for start, end in pairwise([*starts, last]))


def _at(intervals: Sequence[Interval], position: int) -> Sequence[Interval]:
    return overlapping(intervals, (position, position + 1))


def _wholes(
    text: str, first: int, last: int, markers: Sequence[Interval]
) -> Iterator[tuple[int, int, bool]]:
    """[start, end) of JSON and of blocks of code, which are not split as text; True for JSON.

    The white space after a block belongs to it.
    """
    found = json_in(text, first, last)
    values = [(start, end) for start, end in found if not _at(markers, start)]
    spans = [(start, end, True) for start, end in values]
    for start, end in markdown(text).code_blocks:
        space = _SPACE.match(text, end, last)
        end = space.end() if space else end
        if first <= start and end <= last and not overlapping(values, (start, end)):
            spans.append((start, end, False))
    return iter(sorted(spans))


def _values(text: str, first: int, last: int, split: Split) -> Iterator[tuple[Interval, bool]]:
    done = first
    for leaf in json_values(text, first, last):
        yield (done, leaf.start()), False
        yield from ((sentence, True) for sentence in _of_leaf(leaf, split))
        done = leaf.end()
    yield (done, last), False


def _of_leaf(leaf: re.Match[str], split: Split) -> Iterator[Interval]:
    """The sentences of a string, with its quotes; nothing is split within quotes."""
    if leaf["string"] is None:
        return iter([leaf.span()])
    later = [start for start, _ in split(*leaf.span("string"))[1:]]
    return pairwise([leaf.start(), *later, leaf.end()])
