"""Retrieved texts without what others of them say already."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from attribot_rag.context.duplicates import group_duplicates
from attribot_rag.context.splitter import sentences, split_spans
from attribot_rag.errors import InvalidInput


@dataclass(frozen=True)
class DeduplicatedText:
    """A text that stays: its index, what is left of it, and whose content it stands for.

    `merged` are the indices of texts that are gone because this one says the same, `overlapping`
    those of texts that lost a beginning or an end which stands here. What a text lost by repeating
    itself stands in itself, and is not told.
    """

    index: int
    text: str
    merged: tuple[int, ...] = ()
    overlapping: tuple[int, ...] = ()


def remove_duplicates(
    texts: Sequence[str], *, threshold: float = 0.9, min_overlap: int | None = 30
) -> list[DeduplicatedText]:
    """What is left of the texts, in their order, when nothing is said twice.

    A text is gone if it equals an earlier one, or nearly does (`threshold`, as for sources), or if
    another one holds it. Whole sentences at its beginning or end that an earlier text holds are cut
    off, as chunks that overlap have them, if they are `min_overlap` characters or more together;
    None leaves them. The same goes for what is left, until nothing more can go. Raises InvalidInput
    for other options.
    """
    if not 0 < threshold <= 1:
        raise InvalidInput(f"threshold={threshold!r}; use a similarity above 0, at most 1")
    if min_overlap is not None and min_overlap < 1:
        raise InvalidInput(f"min_overlap={min_overlap!r}; use at least 1 character, or None")
    kept = _reduced(texts, threshold, min_overlap)
    while True:
        left = [one.text for one in kept]
        again = _reduced(left, threshold, min_overlap)
        if [one.text for one in again] == left:
            return kept
        kept = [_joined(one, kept) for one in again]


def _reduced(
    texts: Sequence[str], threshold: float, min_overlap: int | None
) -> list[DeduplicatedText]:
    """What is left after each text was compared once."""
    merged: dict[int, list[int]] = defaultdict(list)
    remaining = []
    for first, *others in group_duplicates(texts, threshold=threshold):
        remaining.append(first)
        merged[first] += others
    remaining = _without_contained(texts, sorted(remaining), merged)
    overlapping: dict[int, list[int]] = defaultdict(list)
    left = {
        index: _trimmed(texts, index, remaining[:place], min_overlap, overlapping)
        for place, index in enumerate(remaining)
    }
    return [
        DeduplicatedText(index, text, tuple(sorted(merged[index])), tuple(overlapping[index]))
        for index, text in left.items()
    ]


def _joined(one: DeduplicatedText, before: Sequence[DeduplicatedText]) -> DeduplicatedText:
    """What was kept of the texts in `before`, by the indices that those have themselves."""
    here, gone = before[one.index], [before[index] for index in one.merged]
    merged = {*here.merged, *(index for text in gone for index in (text.index, *text.merged))}
    overlapping = {*here.overlapping, *(before[index].index for index in one.overlapping)}
    overlapping.update(index for text in gone for index in text.overlapping)
    others = overlapping - merged - {here.index}
    return DeduplicatedText(here.index, one.text, tuple(sorted(merged)), tuple(sorted(others)))


def _without_contained(
    texts: Sequence[str], remaining: list[int], merged: dict[int, list[int]]
) -> list[int]:
    """Those that no other one holds, the longest of which take over what the others stood for."""
    plain = {index: _plain(texts[index]) for index in remaining}
    found: list[int] = []
    for index in sorted(remaining, key=lambda one: (-len(plain[one]), one)):
        holder = next((one for one in found if plain[index] in plain[one]), None)
        if holder is None:
            found.append(index)
        else:
            merged[holder] += [index, *merged.pop(index, ())]
    return sorted(found)


def _trimmed(
    texts: Sequence[str],
    index: int,
    earlier: Sequence[int],
    min_overlap: int | None,
    overlapping: dict[int, list[int]],
) -> str:
    """The text less the sentences at its beginning and its end that an earlier one holds."""
    text = texts[index]
    if min_overlap is None or not earlier:
        return text
    plain = {one: _plain(texts[one]) for one in earlier}
    spans = split_spans(text, sentences)
    start, end = 0, len(text)
    beginnings = [text[:stop] for _, stop in spans[:-1]]
    endings = [text[begin:] for begin, _ in spans[1:]]
    for run in reversed(beginnings):
        holder = _holder(run, plain, min_overlap)
        if holder is not None:
            start = len(run)
            overlapping[holder].append(index)
            break
    for run in endings:
        holder = _holder(run, plain, min_overlap)
        if holder is not None and len(text) - len(run) > start:
            end = len(text) - len(run)
            if index not in overlapping[holder]:
                overlapping[holder].append(index)
            break
    return text if (start, end) == (0, len(text)) else text[start:end].strip()


def _holder(run: str, plain: dict[int, str], min_overlap: int) -> int | None:
    """The first text that holds this run of sentences, if it is long enough to matter."""
    wanted = _plain(run)
    if len(wanted) - 2 < min_overlap:
        return None
    return next((index for index, text in plain.items() if wanted in text), None)


def _plain(text: str) -> str:
    """Words in lower case between single spaces, so that no word is found within another."""
    return f" {' '.join(text.split()).casefold()} "
