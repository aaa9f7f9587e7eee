"""Borders of words, in a text and in its normalised form, and runs that end at them."""

from __future__ import annotations

import re
import unicodedata

from attribot_rag.context.duplicates import num_unspaced
from attribot_rag.context.normalised import Normalised
from attribot_rag.context.runs import Run

# What follows a text that was cut within a word, and what precedes a text without its beginning.
_CUT_AFTER = re.compile(r"[^\S\n]*(?:\Z|\n|…|\.\.|[\[\]<>(){}|\"”»*#=~])")
_CUT_BEFORE = re.compile(r"(?:\A|\n|…|\.\.|[\[\]<>(){}|\"“«*#=~])[^\S\n]*\Z")
_MAX_SPACE = 20
_BETWEEN_DIGITS = frozenset(".,:;/-")
_WITHIN_WORDS = frozenset("'’\u00ad\u200b\u200c\u200d\u2060\ufeff")


def at_words(document: Normalised, prompt: Normalised, run: Run) -> Run:
    """The run without the incomplete words at its ends; empty if nothing is left.

    An incomplete word of the document stays if the prompt's text also ends there: at the end of
    a line, a quotation or an element, or before an ellipsis.
    """
    first, start, length = run
    while length and not _ends(document, prompt, first + length, start + length):
        length -= 1
    while length and not _begins(document, prompt, first, start):
        first, start, length = first + 1, start + 1, length - 1
    return Run(first, start, length)


def _ends(document: Normalised, prompt: Normalised, at: int, place: int) -> bool:
    if prompt.text[place - 1] == " " or not is_border(prompt, place):
        return False
    return is_border(document, at) or bool(
        _CUT_AFTER.match(prompt.source, prompt.origins[place - 1] + 1)
    )


def _begins(document: Normalised, prompt: Normalised, at: int, place: int) -> bool:
    if prompt.text[place] == " " or not is_border(prompt, place):
        return False
    origin = prompt.origins[place]
    return is_border(document, at) or bool(
        _CUT_BEFORE.search(prompt.source[max(0, origin - _MAX_SPACE) : origin])
    )


def is_border(text: Normalised, index: int) -> bool:
    """Whether this place of a normalised text is not inside a word, number or character.

    In scripts without spaces every character is a word.
    """
    if not 0 < index < len(text.text):
        return True
    if " " in text.text[index - 1 : index + 1]:
        return True
    if not _BETWEEN_DIGITS.isdisjoint(text.text[index - 1 : index + 1]):
        return False
    before, after = text.origins[index - 1], text.origins[index]
    if before == after or unicodedata.category(text.source[after])[0] == "M":
        return False
    if _WITHIN_WORDS.issuperset(text.source[before + 1 : after]):
        return num_unspaced(text.source[before] + text.source[after]) > 0
    return True


def stands_alone(text: str, start: int, end: int) -> bool:
    """Whether the characters [start, end) are not part of a longer word."""
    return not within_word(text, start) and not within_word(text, end)


def within_word(text: str, index: int) -> bool:
    """Whether the characters on both sides of this place are letters or digits."""
    return text[index - 1 : index].isalnum() and text[index : index + 1].isalnum()
