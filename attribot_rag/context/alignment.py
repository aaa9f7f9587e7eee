"""The tokens of a response aligned with the text that was shown to the user."""

from __future__ import annotations

from rapidfuzz.distance import Indel

from attribot_rag.context.tokens import TokenizedText


def align(decoded: TokenizedText, response: str | None) -> tuple[str, tuple[tuple[int, int], ...]]:
    """The shown text, and each token's characters [start, end) in it.

    Without a `response`, the decoded text is shown without the white space around it.
    """
    text = decoded.text.strip() if response is None else response
    start = decoded.text.find(text.strip())
    if start >= 0:
        start -= len(text) - len(text.lstrip())
        places = [min(max(index - start, 0), len(text)) for index in range(len(decoded.text) + 1)]
    else:
        places = _matched(decoded.text, text)
    return text, tuple((places[first], places[last]) for first, last in decoded.spans)


def _matched(decoded: str, shown: str) -> list[int]:
    """For each decoded character its place in the shown text, which differs slightly."""
    places = [len(shown)] * (len(decoded) + 1)
    for step in Indel.opcodes(decoded, shown):
        for index in range(step.src_start, step.src_end):
            places[index] = min(step.dest_start + index - step.src_start, step.dest_end)
    return places
