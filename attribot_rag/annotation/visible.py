"""Texts without invisible characters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from attribot_rag.cached_property import cached_property
from attribot_rag.context.text import Interval

# Zero-width spaces, soft hyphens, marks of direction and the like, but for joiners, which change
# letters of Indian and Persian scripts.
_UNSEEN = re.compile("[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")


@dataclass(frozen=True)
class Visible:
    """The `text` without invisible characters, which separate no word and no number."""

    source: str
    text: str

    @classmethod
    def of(cls, source: str) -> Visible:
        return cls(source, _UNSEEN.sub("", source))

    @cached_property
    def _origins(self) -> Sequence[int]:
        """The index in `source` of each character of `text`."""
        unseen = {match.start() for match in _UNSEEN.finditer(self.source)}
        return [index for index in range(len(self.source)) if index not in unseen]

    def interval(self, start: int, end: int) -> Interval:
        """The characters of `source` behind [start, end) of `text`, not empty."""
        return self._origins[start], self._origins[end - 1] + 1
