"""Normal forms of a text: its letters and digits only, what is seen of it, or unified characters.

`Normalised` ignores white space, case, mark-up, punctuation and typography; `Visible` only
characters that are not seen; `folded` keeps the text's length.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy

from attribot_rag.context.intervals import Interval
from attribot_rag.context.locating.text_index import TextIndex, character_codes

# Without meaning: link targets, rules and separator rows of tables, marks before a line.
_SILENT = re.compile(
    r"(?<=\])\([^()\s]*(?:\([^()\s]*\)[^()\s]*)*(?:\s+[\"'][^\"'\n]*[\"'])?\)"
    r"|^[ \t]*[|:=*_+-][ \t|:=*_+-]{2,}$"
    r"|^[ \t]*(?:(?:[-*+•‣◦]|\#{1,6}|>)[ \t]+|>)+",
    re.MULTILINE,
)
_MARKUP = frozenset("*_`~\\>[](){}\"'«»‹›„‚“”‘’´")
_DASHES = frozenset("-‐‑‒–—―−﹘﹣－")
_RAISED = ("<super>", "<sub>", "<fraction>")  # 10² is not 102
_LIKE_LETTERS = frozenset("%‰°#")
_DROPPED = frozenset(" -.,:;/")
_DROPPED_CODES = character_codes("".join(_DROPPED))
_BEFORE_DIGIT = re.compile(r"[ .,:;/-]+(?=\d)")


@dataclass(frozen=True)
class Normalised:
    """`text` holds the casefolded (NFKD) letters and digits of `source`, nothing between them.

    Between two digits a separator is kept (1.5 is not 15), and so are minus, per cent and currency
    signs. `origins[i]` is the index in `source` of character `i`; a letter that folds to several
    characters (ß) is the origin of each.
    """

    source: str
    text: str
    origins: Sequence[int]

    @classmethod
    def of(cls, source: str) -> Normalised:
        """In time linear in the length of the text."""
        letters = [*map(_LETTERS.__getitem__, source)]
        for silent in _SILENT.finditer(source):
            letters[slice(*silent.span())] = [""] * len(silent[0])
        lengths = numpy.fromiter(map(len, letters), numpy.int8, len(source))
        origins = numpy.arange(len(source)).repeat(lengths)
        text = "".join(letters)
        codes = character_codes(text).copy()
        is_kept = ~numpy.isin(codes, _DROPPED_CODES)
        for gap in _BEFORE_DIGIT.finditer(text):
            before = text[gap.start() - 1 : gap.start()]
            if sign := _sign(before, gap[0]):
                place = gap.end() - 1
                is_kept[place], codes[place] = True, ord(sign)
                last = origins[gap.start() - 1] if before else 0
                origins[place] = max(origins[gap.end()] - 1, last)
        kept = codes[is_kept].tobytes().decode("utf-32-le", "surrogatepass")
        return cls(source, kept, array("q", origins[is_kept].tobytes()))

    def find_each(self, needles: Sequence[str]) -> list[Iterator[int]]:
        """For each needle the starts of all places in `text` that do not overlap."""
        return self._index.find_each(needles)

    @cached_property
    def _index(self) -> TextIndex:
        return TextIndex(self.text)

    def interval(self, start: int, end: int) -> Interval:
        """The characters of `source` for which [start, end) of `text`, not empty, stands."""
        return self.origins[start], self.origins[end - 1] + 1

    def gap(self, index: int) -> str:
        """The characters of `source` between those before and at this place of `text`."""
        start = self.origins[index - 1] + 1 if index else 0
        return self.source[start : self.origins[index] if index < len(self.origins) else None]

    def whole_characters(self, start: int, end: int) -> bool:
        """Whether [start, end) of `text` cuts through no character of `source`."""
        edges = (place for place in (start, end) if 0 < place < len(self.text))
        return all(self.origins[place - 1] != self.origins[place] for place in edges)


# Zero-width spaces, soft hyphens, marks of direction and the like, but for joiners, which change
# letters of Indian and Persian scripts.
_UNSEEN = re.compile("[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")


@dataclass(frozen=True)
class Visible:
    """The `text` without characters that are not seen, which part no word and no number."""

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
        """The characters of `source` for which [start, end) of `text`, not empty, stands."""
        return self._origins[start], self._origins[end - 1] + 1


def unified(character: str) -> str:
    """A character without case, with a single kind each of white space, dashes and quotes.

    Several characters where it stands for several (an ellipsis, a ligature).
    """
    if character.isspace():
        return " "
    if character in _DASHES:
        return "-"
    if character in "«»„“”":
        return '"'
    if character in "‹›‚‘’´`":
        return "'"
    return unicodedata.normalize("NFKC", character).casefold()


def folded(text: str) -> str:
    """The text with every character unified for which a single character stands."""
    return text.translate(_FOLDED)


class _Folded(dict[int, str]):
    """Unified characters by their codes, made at first use."""

    def __missing__(self, code: int) -> str:
        alike = unified(chr(code))
        self[code] = alike if len(alike) == 1 else chr(code)
        return self[code]


_FOLDED = _Folded()


def _sign(before: str, between: str) -> str:
    """The separator or minus sign to keep before a digit, or nothing."""
    if before.isdigit():
        return between.strip()[:1] or " "
    return "-" if between.endswith("-") and (not before or between != "-") else ""


def _keeps(character: str) -> bool:
    category = unicodedata.category(character)
    return (
        character.isalnum()
        or category in ("Mn", "Mc", "Sc")
        or character in _LIKE_LETTERS
        or (category == "Sm" and character not in "|~<>−⁄")
    )


def _letters(character: str) -> str:
    """A character's folded letters, or a separator ("" for mark-up)."""
    if character.isspace() or character == "|":
        return " "
    if character in _DASHES:
        return "-"
    if character in _MARKUP or unicodedata.category(character) in ("Cf", "Cs"):
        return ""
    once = unicodedata.normalize("NFKD", character.casefold()).casefold()
    letters = unicodedata.normalize("NFKD", once)
    kept = "".join(letter if _keeps(letter) else _separator(letter) for letter in letters)
    return f"^{kept}" if unicodedata.decomposition(character).startswith(_RAISED) else kept


class _Letters(dict[str, str]):
    """Letters by their characters, made at first use."""

    def __missing__(self, character: str) -> str:
        self[character] = _letters(character)
        return self[character]


_LETTERS = _Letters()


def _separator(character: str) -> str:
    if character.isspace():
        return " "
    return character if character in _DROPPED else "."
