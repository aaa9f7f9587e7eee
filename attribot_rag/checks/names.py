"""Names in a sentence in whose place its source has other names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rapidfuzz import fuzz

from attribot_rag.attribution.verdict import Check
from attribot_rag.checks.stems import same_word

_LANGUAGES = ("de", "en", "es", "fr", "it", "ru")
_NOUNS_TOO = ("de",)  # capital letters begin nouns: only names of two words can be told
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_SENTENCE_END = re.compile(r"[.!?:;\n«»„“”\"(]\s*\Z")
_ALIKE = 70.0
_LEAST_SHARED = 0.6
_LEAST_LETTERS = 3


@dataclass(frozen=True)
class _Name:
    """Words with capitals at the characters [start, end), and the word before them."""

    start: int
    end: int
    words: tuple[str, ...]
    before: str


def name_check(
    sentence: str, sources: Mapping[int, str], prompt: str, language: str
) -> Iterator[Check]:
    """Checks of names after a word that has another name after it in the only source that has it.

    Both have as many words, and the sentence shares most of its other words with the source.
    Declined names and adjectives made of names count as the name, and names that begin a sentence
    are left out. Nothing is told of names that the `prompt` has elsewhere, or in other languages.
    """
    if language not in _LANGUAGES:
        return
    least = 2 if language in _NOUNS_TOO else 1
    own = _names(sentence)
    for name in own:
        if len(name.words) < least or not name.before or sentence[name.start : name.end] in prompt:
            continue
        if any(_has(text, word) for text in sources.values() for word in name.words):
            continue
        others = [
            (key, other)
            for key, text in sources.items()
            if _share(sentence, text, own) >= _LEAST_SHARED
            for other in _names(text)
            if other.before == name.before
            and (len(other.words) > 1) == (len(name.words) > 1)
            and not any(_has(sentence, word) for word in other.words)
        ]
        if len(others) == 1:
            key, other = others[0]
            yield Check(
                start=name.start, end=name.end, kind="name",
                value=sentence[name.start : name.end],
                source_value=sources[key][other.start : other.end], source=key,
            )  # fmt: skip


def _names(text: str) -> list[_Name]:
    """Runs of words with a capital letter, without those that begin a sentence."""
    names: list[_Name] = []
    run: list[re.Match[str]] = []
    previous: re.Match[str] | None = None
    before = ""
    for match in _WORD.finditer(text):
        gap = text[previous.end() if previous else 0 : match.start()]
        if run and (gap.strip() or not _is_capital(match[0])):
            names += _name(run, before)
            run = []
        if _is_capital(match[0]):
            if not run:
                begins = previous is None or _SENTENCE_END.search(gap) is not None
                before = "" if begins or previous is None else previous[0].lower()
            run.append(match)
        previous = match
    return names + _name(run, before)


def _name(run: Sequence[re.Match[str]], before: str) -> list[_Name]:
    if not run:
        return []
    return [_Name(run[0].start(), run[-1].end(), tuple(word[0] for word in run), before)]


def _is_capital(word: str) -> bool:
    """Whether it begins with a capital and is no abbreviation."""
    return word[0].isupper() and word[1:2].islower()


def _has(text: str, name: str) -> bool:
    """Whether a text has a word that is like the name."""
    word = name.lower()
    return any(
        same_word(word, other) or fuzz.ratio(word, other) >= _ALIKE
        for other in map(str.lower, _WORD.findall(text))
    )


def _share(sentence: str, source: str, names: Sequence[_Name]) -> float:
    """The share of a sentence's longer words, names aside, that a source has."""
    words = [
        match[0].lower()
        for match in _WORD.finditer(sentence)
        if len(match[0]) >= _LEAST_LETTERS
        and not any(name.start <= match.start() < name.end for name in names)
    ]
    others = [other.lower() for other in _WORD.findall(source)]
    shared = sum(any(same_word(word, other) for other in others) for word in words)
    return shared / len(words) if words else 0.0
