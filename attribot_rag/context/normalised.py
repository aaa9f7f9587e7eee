"""A text as its letters and digits only, which survive changes of case, mark-up and typography."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

# What says nothing: link targets, rules and the separator rows of tables, marks before a line.
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


@dataclass(frozen=True)
class Normalised:
    """`text` holds the casefolded (NFKD) letters and digits of `source`, nothing between them.

    Between two digits one character tells what stood there (1.5 is not 15), and a minus sign, per
    cent and currency signs stay. `origins[i]` is the index in `source` of the character that `i` is
    from; several are from one where a letter folds to more (ß).
    """

    source: str
    text: str
    origins: tuple[int, ...]

    @classmethod
    def of(cls, source: str) -> Normalised:
        """In one pass, linear in the length of the text."""
        kept: list[str] = []
        origins: list[int] = []
        between = ""
        for index, character in _telling(source):
            for one in _LETTERS[character]:
                if one in _DROPPED:
                    between += one
                    continue
                if between:
                    if one.isdigit():
                        sign = _sign(kept[-1] if kept else "", between)
                        kept += sign
                        origins += [max([index - 1, *origins[-1:]])] * len(sign)
                    between = ""
                kept.append(one)
                origins.append(index)
        return cls(source, "".join(kept), tuple(origins))

    def whole_characters(self, start: int, end: int) -> bool:
        """Whether [start, end) of `text` cuts through no character of `source`."""
        edges = (place for place in (start, end) if 0 < place < len(self.text))
        return all(self.origins[place - 1] != self.origins[place] for place in edges)


def unified(character: str) -> str:
    """A character without its case, and with one kind of white space, dash and quote each.

    More than one character where it stands for several (an ellipsis, a ligature).
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


class _Unified(dict[str, str]):
    """What each character counts as in a text that keeps its length."""

    def __missing__(self, character: str) -> str:
        alike = unified(character)
        self[character] = alike if len(alike) == 1 else character
        return self[character]


def folded(text: str) -> str:
    """The text with all its characters unified that one character can stand for."""
    return "".join(map(_UNIFIED.__getitem__, text))


def _telling(source: str) -> list[tuple[int, str]]:
    """The characters of a text with their places, less what is silent."""
    found: list[tuple[int, str]] = []
    done = 0
    for silent in _SILENT.finditer(source):
        found += enumerate(source[done : silent.start()], done)
        done = silent.end()
    found += enumerate(source[done:], done)
    return found


def _sign(before: str, between: str) -> str:
    """What parts a digit from what was kept before it: a unified separator, a minus, or nothing."""
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


class _Letters(dict[str, str]):
    """What each character adds: folded letters, or what parts them ("" if it is mark-up)."""

    def __missing__(self, character: str) -> str:
        self[character] = letters = self._letters(character)
        return letters

    def _letters(self, character: str) -> str:
        if character.isspace() or character == "|":
            return " "
        if character in _DASHES:
            return "-"
        if character in _MARKUP or unicodedata.category(character) in ("Cf", "Cs"):
            return ""
        once = unicodedata.normalize("NFKD", character.casefold()).casefold()
        letters = unicodedata.normalize("NFKD", once)
        kept = "".join(one if _keeps(one) else _parting(one) for one in letters)
        return f"^{kept}" if unicodedata.decomposition(character).startswith(_RAISED) else kept


def _parting(character: str) -> str:
    if character.isspace():
        return " "
    return character if character in _DROPPED else "."


_DROPPED = frozenset(" -.,:;/")
_LETTERS = _Letters()
_UNIFIED = _Unified()
