"""The tokens of a response on the text that was shown of it."""

from __future__ import annotations

from rapidfuzz.distance import Indel

from attribot_rag.context.tokens import TokenizedText


def align(decoded: TokenizedText, response: str | None) -> tuple[str, tuple[tuple[int, int], ...]]:
    """The text as it was shown, and the tokens' characters in it."""
    text = decoded.text.strip() if response is None else response
    start = decoded.text.find(text.strip())
    if start >= 0:
        start -= len(text) - len(text.lstrip())
        places = [min(max(index - start, 0), len(text)) for index in range(len(decoded.text) + 1)]
    else:
        places = _matched(decoded.text, text)
    return text, tuple((places[first], places[last]) for first, last in decoded.spans)


def _matched(decoded: str, shown: str) -> list[int]:
    """For each character that was decoded its place in what was shown, which differs a little."""
    places = [len(shown)] * (len(decoded) + 1)
    for step in Indel.opcodes(decoded, shown):
        for index in range(step.src_start, step.src_end):
            places[index] = min(step.dest_start + index - step.src_start, step.dest_end)
    return places
