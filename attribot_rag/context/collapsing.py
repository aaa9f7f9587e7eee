"""A text with its white space normalised."""

from __future__ import annotations

import re
from dataclasses import dataclass

_SPACE = re.compile(r"\s+")


@dataclass(frozen=True)
class Collapsed:
    """A text with its runs of white space collapsed, and where each character came from."""

    text: str
    origins: tuple[int, ...]

    @classmethod
    def of(cls, text: str) -> Collapsed:
        pieces: list[str] = []
        origins: list[int] = []
        end = 0
        for space in _SPACE.finditer(text):
            pieces += (text[end : space.start()], " ")
            origins += range(end, space.start() + 1)
            end = space.end()
        pieces.append(text[end:])
        origins += range(end, len(text) + 1)
        return cls("".join(pieces), tuple(origins))
