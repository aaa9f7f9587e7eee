"""Names in a sentence where its source has other names."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rapidfuzz import fuzz

from attribot_checks.numerals import Span
from attribot_checks.statements import value_check
from attribot_checks.vocabulary import vocabulary
from attribot_rag.annotation import Check, same_word

_LANGUAGES = ("de", "en", "es", "fr", "it", "ru")
_NOUNS_TOO = ("de",)  # nouns have capitals, too: only names of two words are recognized
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_SENTENCE_END = re.compile(r"[.!?:;\n«»„“”\"(]\s*\Z")
_ALIKE = 70.0
_LEAST_SHARED = 0.7
_LEAST_LETTERS = 3
_MOST = 20  # names of a sentence


@dataclass(frozen=True)
class _Name(Span):
    """Words with capitals, and the two words before them."""

    words: tuple[str, ...]
    before: tuple[str, ...]

    def is_alike(self, other: _Name) -> bool:
        """Whether both follow the same words, and both have one word or both have several."""
        return self.before == other.before and (len(self.words) > 1) == (len(other.words) > 1)


def name_check(
    sentence: str, sources: Mapping[int, str], prompt_texts: Sequence[str], language: str
) -> Iterator[Check]:
    """Checks of names where a source has one other name after the same two words.

    The sentence must share most of its other words with the source. Inflected names and adjectives
    made from names count as the name. Names that begin a sentence and names in `prompt_texts` are
    left out.
    """
    if language not in _LANGUAGES:
        return
    least = 2 if language in _NOUNS_TOO else 1
    months = vocabulary(language).months
    own = _names(sentence)
    alike = {
        key: _names(text)
        for key, text in sources.items()
        if _share(sentence, text, own) >= _LEAST_SHARED
    }
    for name in own[:_MOST] if alike else ():
        shown = sentence[slice(*name.span)]
        is_month = any(word.lower() in months for word in name.words)
        is_given = any(shown in text for text in prompt_texts)
        if is_month or is_given or len(name.words) < least or not name.before:
            continue
        matches = [
            (key, other)
            for key, names in alike.items()
            for other in names
            if name.is_alike(other) and not any(_has(sentence, word) for word in other.words)
        ]
        is_said = any(_has(text, word) for text in sources.values() for word in name.words)
        if len(matches) == 1 and not is_said:
            key, other = matches[0]
            yield value_check("name", sentence, name.span, key, sources[key][slice(*other.span)])


def _names(text: str) -> list[_Name]:
    """Neighbouring words with a capital.

    At the beginning of a sentence, they have no words before.
    """
    names: list[_Name] = []
    latest: deque[str] = deque(maxlen=2)
    end = 0
    for match in _WORD.finditer(text):
        gap = text[end : match.start()]
        goes_on = bool(names) and names[-1].end == end and not gap.strip()
        if _is_capital(match[0]) and goes_on:
            names[-1] = replace(names[-1], end=match.end(), words=(*names[-1].words, match[0]))
        elif _is_capital(match[0]):
            begins = not latest or _SENTENCE_END.search(gap) is not None
            before = () if begins else tuple(latest)
            names.append(_Name(*match.span(), (match[0],), before))
        end = match.end()
        latest.append(match[0].lower())
    return names


def _is_capital(word: str) -> bool:
    """Whether it begins with a capital and is no abbreviation."""
    return word[0].isupper() and word[1:2].islower()


def _has(text: str, name: str) -> bool:
    word = name.lower()
    return any(
        same_word(word, other) or fuzz.ratio(word, other) >= _ALIKE
        for other in map(str.lower, _WORD.findall(text))
    )


def _share(sentence: str, source: str, names: Sequence[_Name]) -> float:
    """The share of a sentence's longer words, without names, that a source has."""
    words = [
        match[0].lower()
        for match in _WORD.finditer(sentence)
        if len(match[0]) >= _LEAST_LETTERS
        and not any(name.start <= match.start() < name.end for name in names)
    ]
    source_words = [other.lower() for other in _WORD.findall(source)]
    shared = sum(any(same_word(word, other) for other in source_words) for word in words)
    return shared / len(words) if words else 0.0
