"""Normal forms of a text: its letters and digits only, or with its characters unified.

`Normalised` ignores white space, case, mark-up, punctuation and typography; `folded` keeps the
text's length.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy

from attribot_rag.context.intervals import Interval
from attribot_rag.context.locating.text_index import TextIndex

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
        kept: list[str] = []
        origins = array("q")
        between = last = ""
        for piece in _meaningful(source):
            shown, index = piece[0], piece.start()
            if piece.lastgroup == "plain":
                kept.append(shown.translate(_WITHOUT_DROPPED).lower())
                letters = _IS_LETTER[numpy.frombuffer(shown.encode(), numpy.uint8)]
                origins.frombytes((letters.nonzero()[0] + index).tobytes())
                between, last = "", "a"
                continue
            if piece.lastgroup == "dropped":
                between += shown.translate(_DROPPED_ASCII)
                continue
            for letter in _letters(shown):
                if letter in _DROPPED:
                    between += letter
                    continue
                if between:
                    if letter.isdigit():
                        sign = _sign(last, between)
                        kept.append(sign)
                        origins.extend([max([index - 1, *origins[-1:]])] * len(sign))
                    between = ""
                kept.append(letter)
                origins.append(index)
                last = letter
        return cls(source, "".join(kept), origins)

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


def _meaningful(source: str) -> Iterator[re.Match[str]]:
    """The words and characters of a text, without link targets, rules and line marks."""
    done = 0
    for silent in _SILENT.finditer(source):
        yield from _PIECE.finditer(source, done, silent.start())
        done = silent.end()
    yield from _PIECE.finditer(source, done)


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


@cache
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


def _separator(character: str) -> str:
    if character.isspace():
        return " "
    return character if character in _DROPPED else "."


# Most text is letters, and characters that are dropped unless digits stand around them.
_DROPPED_ASCII = {
    code: _letters(chr(code)) for code in range(128) if _DROPPED.issuperset(_letters(chr(code)))
}
_WITHOUT_DROPPED = dict.fromkeys(_DROPPED_ASCII)
_DROPPED_CLASS = re.escape("".join(map(chr, _DROPPED_ASCII)))
_IS_LETTER = numpy.array([chr(code).isalpha() for code in range(128)])
_PIECE = re.compile(
    rf"(?P<plain>[A-Za-z{_DROPPED_CLASS}]*[A-Za-z])|(?P<dropped>[{_DROPPED_CLASS}]+)|.", re.DOTALL
)
