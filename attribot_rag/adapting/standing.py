"""Whether a text stands in a prompt, before anything is located."""

from __future__ import annotations

from collections.abc import Collection


def standing_in(prompt: str, texts: Collection[str]) -> frozenset[str]:
    """Those of the texts that the prompt holds, whatever became of their white space.

    It only tells whose prompt is whose; where a document stands is found by the core, which also
    knows texts that a template changed a little.
    """
    plain = _plain(prompt)
    return frozenset(text for text in texts if _plain(text) in plain)


def _plain(text: str) -> str:
    return " ".join(text.split())
