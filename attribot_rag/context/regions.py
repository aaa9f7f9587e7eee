"""Regions of a prompt: the retrieved context, and the earlier turns of a conversation."""

from __future__ import annotations

from collections.abc import Sequence

from attribot_rag.context.intervals import Interval

# Documents of the same retrieval are separated by titles and separators, not by a conversation.
_MAX_GAP = 300


def whole_context(prompt: str, regions: Sequence[Interval]) -> tuple[Interval, ...]:
    """The documents' regions with the text between them, such as titles and metadata lines.

    A label on the line before each document ("Title: ...") also belongs to the first document.
    """
    joined: list[Interval] = []
    labels: set[str] = set()
    for start, end in regions:
        if joined and start - joined[-1][1] <= _MAX_GAP:
            labels.add(_label(prompt[joined[-1][1] : start]))
            joined[-1] = joined[-1][0], end
        else:
            joined.append((start, end))
    if "" in labels or not labels:
        return tuple(joined)
    return tuple((start - len(_label(prompt[:start])), end) for start, end in joined)


def _label(before: str) -> str:
    """The text on the same line before a document."""
    return before[before.rfind("\n") + 1 :]


def find_turns(prompt: str, turns: Sequence[str]) -> tuple[Interval, ...]:
    """The characters of these texts in the prompt, in their order, without absent texts."""
    places = []
    done = 0
    for turn in turns:
        text = turn.strip()
        start = prompt.find(text, done) if text else -1
        if start >= 0:
            done = start + len(text)
            places.append((start, done))
    return tuple(places)
