"""Which characters of a prompt were retrieved, and which were said before."""

from __future__ import annotations

from collections.abc import Sequence

from attribot_rag.context.intervals import Interval

# Between two documents of one retrieval stand titles and separators, not a conversation.
_MAX_GAP = 300


def whole_context(prompt: str, regions: Sequence[Interval]) -> tuple[Interval, ...]:
    """The documents' regions with what stands between them, titles and metadata lines included.

    A label on the line before each document ("Title: ...") goes with the first one too.
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
    """What stands on the same line before a document."""
    return before[before.rfind("\n") + 1 :]


def find_turns(prompt: str, turns: Sequence[str]) -> tuple[Interval, ...]:
    """Where these texts stand in the prompt, one after the other; what is not found is left out."""
    found = []
    done = 0
    for turn in turns:
        text = turn.strip()
        start = prompt.find(text, done) if text else -1
        if start >= 0:
            done = start + len(text)
            found.append((start, done))
    return tuple(found)
