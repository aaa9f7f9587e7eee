"""Intervals [start, end) of characters or positions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Interval = tuple[int, int]


def merge(intervals: Iterable[Interval]) -> list[Interval]:
    """The intervals sorted, with overlapping and touching intervals joined."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def subtract(interval: Interval, removed: Sequence[Interval]) -> list[Interval]:
    """What is left of an interval without the removed intervals, which are sorted."""
    start, end = interval
    kept = []
    for first, last in removed:
        if first < end and last > start:
            if start < first:
                kept.append((start, first))
            start = max(start, last)
    if start < end:
        kept.append((start, end))
    return kept
