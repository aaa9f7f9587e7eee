"""Intervals [start, end) of characters or positions."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
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
    """The rest of an interval without the removed intervals, which are sorted."""
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


def overlapping(intervals: Sequence[Interval], interval: Interval) -> Sequence[Interval]:
    """The intervals, of sorted and disjoint ones, that overlap with this one."""
    start, end = interval
    first = bisect_left(intervals, (start, start))
    if first and intervals[first - 1][1] > start:
        first -= 1
    return intervals[first : bisect_left(intervals, (end, end))]


def at(intervals: Sequence[Interval], position: int) -> Sequence[Interval]:
    """The interval, of sorted and disjoint ones, with this position; empty without one."""
    return overlapping(intervals, (position, position + 1))


def add(intervals: list[Interval], interval: Interval) -> None:
    """Add an interval to sorted and disjoint intervals, and join it with its neighbours."""
    start, end = interval
    first = bisect_left(intervals, (start, start))
    if first and intervals[first - 1][1] >= start:
        first -= 1
    last = bisect_right(intervals, (end, end))
    while last < len(intervals) and intervals[last][0] <= end:
        last += 1
    intervals[first:last] = merge([interval, *intervals[first:last]])
