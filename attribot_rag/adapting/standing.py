"""Whether a text stands in a prompt, before anything is located."""

from __future__ import annotations

from collections.abc import Collection

from attribot_rag.context.locator import Locator
from attribot_rag.context.parts import find_parts


def standing_in(prompt: str, texts: Collection[str]) -> frozenset[str]:
    """Those of the texts that the prompt holds, or a part of, whatever became of their form.

    It tells whose prompt is whose: a text of which nothing stands there but what another one of
    them holds as a whole does not. Where a document stands is found by the core, which also knows
    texts that a template changed a little.
    """
    plain = _plain(prompt)
    whole = {text for text in texts if _plain(text) in plain}
    rest = sorted(set(texts) - whole)
    if not rest:
        return frozenset(whole)
    locator = Locator(prompt, threshold=1)
    places = {text: locator.locate(text) for text in texts}
    covered = [(one.start, one.end) for found in places.values() for one in found]
    absent = {index: text for index, text in enumerate(rest) if not places[text]}
    parts = find_parts(locator.normalised, absent, covered)
    here = {text for index, text in enumerate(rest) if places[text] or index in parts}
    return frozenset(whole | here)


def _plain(text: str) -> str:
    return " ".join(text.split())
