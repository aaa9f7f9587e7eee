"""Notes that more than one module has to know word by word."""

from __future__ import annotations

from collections.abc import Iterable


def not_found_note(not_located: Iterable[int]) -> str:
    """Which documents are not in the prompt, by their index in the result's `documents`."""
    missing = ", ".join(f"documents[{index}]" for index in not_located)
    return f"Not found in the prompt, and not scored: {missing}."
