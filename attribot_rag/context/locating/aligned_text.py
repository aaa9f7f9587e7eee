"""Forms of a text, aligned with the text character by character."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy

from attribot_rag.cached_property import cached_property
from attribot_rag.context.intervals import Interval
from attribot_rag.context.locating.characters import SILENT, letters_of, number_sign
from attribot_rag.context.locating.escapes import ESCAPE, MAX_DEPTH, meaning
from attribot_rag.context.locating.text_index import Integers, TextIndex

_SPACE = re.compile(r"\s{2,}|[^\S ]|\A\s|\s\Z")
# The last one of a run apart: it may be the sign of a number.
_SEPARATORS = re.compile(r"[ .,:;/-]+(?=[ .,:;/-])|[ .,:;/-]")


@dataclass(frozen=True, eq=False)
class AlignedText:
    """A form of the text `source`, in which characters are replaced or left out.

    `origins` [characters of `text`, 2] has for each character the characters [start, end) of
    `source` for which it stands, ascending. Several may stand for one (ss for ß), or one for
    several (é for an escape sequence).
    """

    source: str
    text: str
    origins: Integers

    @classmethod
    def of(cls, source: str) -> AlignedText:
        """The text as it is."""
        starts = numpy.arange(len(source))
        return cls(source, source, numpy.stack([starts, starts + 1], axis=1))

    def unescaped(self) -> AlignedText:
        """The text without any escaping, however deep, to be compared with another text.

        A document that holds escape sequences of its own loses them, too, so both are unescaped.
        """
        form = self
        for _ in range(MAX_DEPTH):
            outer, form = form, form._replaced(ESCAPE, meaning)
            if outer.text == form.text:
                break
        return form

    def single_spaced(self) -> AlignedText:
        """The text with one space between its words, and none around them."""

        def space(match: re.Match[str]) -> str:
            return " " if match.start() and match.end() < len(self.text) else ""

        return self._replaced(_SPACE, space)

    def letters(self) -> AlignedText:
        """The casefolded (NFKD) letters and digits, nothing between them.

        White space, case, mark-up, punctuation and typography are left out. Between two digits a
        separator is kept (1.5 is not 15), and so are minus, per cent and currency signs.
        """
        letters = [*map(letters_of, self.text)]
        for silent in SILENT.finditer(self.text):
            letters[slice(*silent.span())] = [""] * len(silent[0])
        lengths = numpy.fromiter(map(len, letters), numpy.int64, len(letters))
        form = AlignedText(self.source, "".join(letters), self.origins.repeat(lengths, axis=0))
        return form._replaced(_SEPARATORS, number_sign)

    def _replaced(
        self, pattern: re.Pattern[str], value: Callable[[re.Match[str]], str]
    ) -> AlignedText:
        lengths = numpy.ones(len(self.text), numpy.int64)
        starts, ends = self.origins.T.copy()
        pieces, done = list[str](), 0
        for match in pattern.finditer(self.text):
            first, last = match.span()
            if (new := value(match)) != match[0]:
                pieces += self.text[done:first], new
                lengths[first:last] = 0
                lengths[first] = len(new)
                ends[first] = ends[last - 1]
                done = last
        text = "".join([*pieces, self.text[done:]])
        return AlignedText(
            self.source, text, numpy.stack([starts, ends], axis=1).repeat(lengths, axis=0)
        )

    @cached_property
    def index(self) -> TextIndex:
        return TextIndex(self.text)

    def source_span(self, start: int, end: int) -> Interval:
        """The characters of `source` behind the characters [start, end) of `text`, not empty."""
        return int(self.origins[start, 0]), int(self.origins[end - 1, 1])

    def span_of(self, interval: Interval) -> Interval:
        """The characters of `text` made of these characters of `source`."""
        start, end = self.origins[:, 0].searchsorted(interval).tolist()
        return start, end

    def gap(self, index: int) -> str:
        """The characters of `source` between those before and at this place of `text`."""
        start = self.origins[index - 1, 1] if index else 0
        return self.source[start : self.origins[index, 0] if index < len(self.text) else None]

    def is_whole(self, start: int, end: int) -> bool:
        """Whether [start, end) of `text` cuts through no character of `source`."""
        edges = (place for place in (start, end) if 0 < place < len(self.text))
        return all(self.origins[place - 1, 0] != self.origins[place, 0] for place in edges)
