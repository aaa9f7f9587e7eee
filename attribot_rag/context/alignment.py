"""The alignment of two texts that differ a little, character by character."""

from __future__ import annotations

from rapidfuzz.distance import Levenshtein


def places_in(other: str, text: str) -> list[int]:
    """For each character of a text, and for its end, the place in another text.

    By the fewest edits: a replaced character maps to its replacement, a missing character to the
    next one. Time and memory grow with the product of the lengths.
    """
    places = [len(other)] * (len(text) + 1)
    for edit in Levenshtein.opcodes(text, other):
        for index in range(edit.src_start, edit.src_end):
            places[index] = min(edit.dest_start + index - edit.src_start, edit.dest_end)
    return places
