"""Whether a text stands in a prompt, before anything is located."""

from __future__ import annotations

from collections.abc import Collection

from attribot_rag.context.splitting import sentences, split_spans

_MIN_PART = 20


def standing_in(prompt: str, texts: Collection[str]) -> frozenset[str]:
    """Those of the texts that the prompt holds, whatever became of their white space.

    It only tells whose prompt is whose; where a document stands is found by the core, which also
    knows texts that a template changed a little.
    """
    plain = _plain(prompt)
    return frozenset(text for text in texts if _plain(text) in plain)


def part_standing_in(prompt: str, text: str) -> str:
    """The text, or the longest run of its sentences that the prompt holds; '' without any.

    Frameworks cut texts that are too long for one prompt.
    """
    plain = _plain(prompt)
    if _plain(text) in plain:
        return text
    spans = split_spans(text, sentences)
    best, first = "", 0
    for last, (_, end) in enumerate(spans):
        while first <= last and _plain(text[spans[first][0] : end]) not in plain:
            first += 1
        part = text[spans[first][0] : end] if first <= last else ""
        best = max(best, part, key=len)
    return best if len(best.strip()) >= _MIN_PART else ""


def _plain(text: str) -> str:
    return " ".join(text.split())
