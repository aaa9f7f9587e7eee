"""The retrieved text of a prompt: its documents with the labels around them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise

from rapidfuzz.distance import Prefix

from attribot_rag.context.intervals import Interval

# Documents of the same retrieval are separated by titles and separators, not by a conversation.
_MAX_GAP = 300


def with_labels(
    prompt: str, regions: Sequence[Interval], turns: Sequence[Interval]
) -> tuple[Interval, ...]:
    """The documents' regions with the text between them, such as titles and metadata lines.

    Unless one of the earlier `turns` begins or ends there. A label on the line before each document
    ("Title: ...") also belongs to the first document.
    """
    joined: list[Interval] = []
    labels: set[str] = set()
    bounds = [*chain.from_iterable(turns)]
    for start, end in regions:
        first, last = joined[-1] if joined else (0, -_MAX_GAP - 1)
        is_near = start - last <= _MAX_GAP
        if is_near and not any(last <= bound <= start for bound in bounds):
            labels.add(_label(prompt, last, start))
            joined[-1] = first, end
        else:
            joined.append((start, end))
    if "" in labels or not labels:
        return tuple(joined)
    return tuple((start - len(_label(prompt, 0, start)), end) for start, end in joined)


def _label(prompt: str, first: int, start: int) -> str:
    """The text on the same line before a document, from `first` on."""
    return prompt[max(first, prompt.rfind("\n", first, start) + 1) : start]


def separator(prompt: str, regions: Sequence[Interval]) -> str:
    """The separator of documents: the beginning common to the texts between them.

    If these are not the same, it ends with a line, so that it is no part of a label; with white
    space where there is only one.
    """
    gaps = [prompt[end:start] for (_, end), (start, _) in pairwise(regions)]
    common = gaps[0][: min(Prefix.similarity(gaps[0], gap) for gap in gaps)]
    if len(gaps) > 1 and all(gap == common for gap in gaps):
        return common
    lines = common.rfind("\n") + 1 if len(gaps) > 1 else 0
    return common[: lines or len(common) - len(common.lstrip())]
