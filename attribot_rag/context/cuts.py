"""Where text is cut out of a prompt, and what is left around each cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from attribot_rag.context.tokens import Interval, TokenizedText


@dataclass(frozen=True)
class Cut:
    """Neighbouring removals: tokens [first, last) are touched, [left, right) are looked at."""

    removed: tuple[Interval, ...]
    left: int
    first: int
    last: int
    right: int


def find_cuts(
    prompt: TokenizedText,
    removed: Sequence[Interval],
    window: int,
    boundary_ids: frozenset[int],
) -> Iterator[Cut]:
    """The removals (disjoint, ascending), joined where their windows meet.

    A window reaches as many tokens to either side, less at a boundary token, more where it would
    part the tokens of one character.
    """
    pending: Cut | None = None
    for interval in removed:
        touched = prompt.tokens_touching(interval)
        first, last = touched.start, max(touched.start, touched.stop)
        left, right = first, last
        while left > 0 and prompt.ids[left - 1] not in boundary_ids:
            if first - left >= window and prompt.spans[left - 1] != prompt.spans[left]:
                break
            left -= 1
        while right < len(prompt.ids) and prompt.ids[right] not in boundary_ids:
            if right - last >= window and prompt.spans[right] != prompt.spans[right - 1]:
                break
            right += 1
        if pending is not None and left <= pending.right:
            pending = Cut((*pending.removed, interval), pending.left, pending.first, last, right)
        else:
            if pending is not None:
                yield pending
            pending = Cut((interval,), left, first, last, right)
    if pending is not None:
        yield pending


def kept_pieces(
    prompt: TokenizedText, cut: Cut, boundary_ids: frozenset[int]
) -> Iterator[str | int]:
    """What is left between the tokens: runs of text, and boundary tokens by their ids."""
    run = ""
    done = 0
    for index in range(cut.left, cut.right):
        start, end = prompt.spans[index]
        kept = without(max(start, done), end, cut.removed)
        text = "".join(prompt.text[a:b] for a, b in kept)
        done = max(done, end)
        if prompt.ids[index] in boundary_ids and text == prompt.text[start:end]:
            if run:
                yield run
            run = ""
            yield prompt.ids[index]
        else:
            run += text
    if run:
        yield run


def without(start: int, end: int, removed: Sequence[Interval]) -> list[Interval]:
    """The characters [start, end) less the removed intervals."""
    kept = []
    for first, last in removed:
        if first < end and last > start:
            if start < first:
                kept.append((start, first))
            start = max(start, last)
    if start < end:
        kept.append((start, end))
    return kept
