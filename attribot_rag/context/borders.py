"""Where the words of a normalised text begin and end, and runs of text that keep to that."""

from __future__ import annotations

import re
import unicodedata

from attribot_rag.context.duplicates import num_unspaced
from attribot_rag.context.normalised import Normalised
from attribot_rag.context.runs import Run

# What stands after a text that was cut within a word, and before one whose beginning was cut off.
_CUT_AFTER = re.compile(r"[^\S\n]*(?:\Z|\n|…|\.\.|[\[\]<>(){}|\"”»*#=~])")
_CUT_BEFORE = re.compile(r"(?:\A|\n|…|\.\.|[\[\]<>(){}|\"“«*#=~])[^\S\n]*\Z")
_MAX_SPACE = 20
_BETWEEN_DIGITS = frozenset(".,:;/-")
_WITHIN_WORDS = frozenset("'’\u00ad\u200b\u200c\u200d\u2060\ufeff")


def at_words(document: Normalised, prompt: Normalised, run: Run) -> Run:
    """The run without the broken words at its ends; empty if nothing is left.

    A word of the document that was cut off within stays, if the prompt's text ends there too: at
    the end of a line, a quotation or an element, or before an ellipsis.
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
    """Whether this place of a normalised text parts no word, number or character.

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
    if all(one in _WITHIN_WORDS for one in text.source[before + 1 : after]):
        return num_unspaced(text.source[before] + text.source[after]) > 0
    return True
