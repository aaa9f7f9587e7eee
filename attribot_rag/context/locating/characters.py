"""The letters of each character, whatever its case, width or typography."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

# Without meaning: link targets, rules and separator rows of tables, marks before a line.
SILENT = re.compile(
    r"(?<=\])\([^()\s]*(?:\([^()\s]*\)[^()\s]*)*(?:\s+[\"'][^\"'\n]*[\"'])?\)"
    r"|^[ \t]*[|:=*_+-][ \t|:=*_+-]{2,}$"
    r"|^[ \t]*(?:(?:[-*+•‣◦]|\#{1,6}|>)[ \t]+|>)+",
    re.MULTILINE,
)
_MARKUP = frozenset("*_`~\\>[](){}\"'«»‹›„‚“”‘’´")
_DASHES = frozenset("-‐‑‒–—―−﹘﹣－")
_RAISED = ("<super>", "<sub>", "<fraction>")  # 10² is not 102
_LIKE_LETTERS = frozenset("%‰°#")
_SEPARATORS = frozenset(" -.,:;/")


def number_sign(separator: re.Match[str]) -> str:
    """The sign of the number that begins after these separators, or nothing."""
    text, start, end = separator.string, *separator.span()
    if not text[end : end + 1].isdecimal():
        return ""
    while start and text[start - 1] in _SEPARATORS:
        start -= 1
    before, between = text[start - 1 : start], text[start:end]
    if before.isdigit():
        return between.strip()[:1] or " "
    return "-" if between.endswith("-") and (not before or between != "-") else ""


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


@cache
def letters_of(character: str) -> str:
    """A character's folded letters, or a separator ("" for mark-up)."""
    if character.isspace() or character == "|":
        return " "
    if character in _DASHES:
        return "-"
    if character in _MARKUP or unicodedata.category(character) in ("Cf", "Cs"):
        return ""
    once = unicodedata.normalize("NFKD", character.casefold()).casefold()
    letters = unicodedata.normalize("NFKD", once)
    kept = "".join(letter if _is_kept(letter) else _separator(letter) for letter in letters)
    return f"^{kept}" if unicodedata.decomposition(character).startswith(_RAISED) else kept


def _is_kept(character: str) -> bool:
    category = unicodedata.category(character)
    return (
        character.isalnum()
        or category in ("Mn", "Mc", "Sc")
        or character in _LIKE_LETTERS
        or (category == "Sm" and character not in "|~<>−⁄")
    )


def _separator(character: str) -> str:
    if character.isspace():
        return " "
    return character if character in _SEPARATORS else "."
