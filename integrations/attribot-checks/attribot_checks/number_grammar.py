"""Numbers in words, by the grammar of eight languages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from attribot_checks.numerals import Span
from attribot_rag.annotation import NumberWords
from attribot_rag.annotation import number_words as spelled_words

# text2num knows the grammar of these. For other languages, the CLDR has the words.
_GRAMMARS = ("da", "de", "en", "es", "fr", "it", "nl", "pt")
# Without halves of surrogate pairs, which text2num cannot read.
_TOKEN = re.compile(
    r"[\u3400-\u9fff]|[^\W\d_\u3400-\u9fff]+(?:[-‐'’][^\W\d_\u3400-\u9fff]+)*|[^\s\w\ud800-\udfff]|\d+"
)


@dataclass(frozen=True)
class _Token(Span):
    """A word of a text, in the form that text2num reads."""

    word: str

    def text(self) -> str:
        return self.word

    def nt_separated(self, previous: _Token) -> bool:
        return False

    def not_a_number_part(self) -> bool:
        return self.word.isdigit()


def number_words(text: str, language: str) -> list[NumberWords]:
    """The numbers in words of a text, in order; none in an unknown language."""
    if language not in _GRAMMARS:
        return spelled_words(text, language)
    from text_to_num import find_numbers

    tokens = [_Token(*match.span(), match[0]) for match in _TOKEN.finditer(text)]
    numbers: list[NumberWords] = []
    end = 0
    for match in find_numbers(tokens, language, threshold=0):
        value = Decimal(str(match.value))
        start, last = tokens[match.start].start, tokens[match.end - 1].end
        number = NumberWords(start, last, value, match.is_ordinal)
        if numbers and end == match.start and _is_year(numbers[-1], number):
            century = numbers.pop()
            number = NumberWords(century.start, last, 100 * century.value + value, False)
        numbers.append(number)
        end = match.end
    return numbers


def _is_year(first: NumberWords, second: NumberWords) -> bool:
    """Whether two neighbouring numbers are a year, as in 'nineteen ninety-four'."""
    is_range = 10 <= first.value <= 20 and 10 <= second.value < 100
    return is_range and not (first.ordinal or second.ordinal)
