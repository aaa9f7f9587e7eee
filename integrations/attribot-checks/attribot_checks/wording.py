"""Names and negations in a sentence that differ from its source."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rapidfuzz import fuzz

from attribot_checks.numerals import Span
from attribot_checks.reading import value_check
from attribot_checks.vocabulary import WORDS, vocabulary
from attribot_rag.annotation import Check, same_word


@dataclass(frozen=True)
class _Negation:
    """The `cues` of a language, and words that limit a cue to a part of the sentence.

    Words of `empty` come and go with a cue, such as 'does'.
    """

    cues: frozenset[str]
    limiting: frozenset[str]
    empty: frozenset[str] = frozenset()


_NEGATIONS = {
    language: _Negation(*(frozenset(words.split()) for words in lists))
    for language, lists in WORDS["negations"].items()
}
_WORD = re.compile(r"[^\W\d_]+n['’]t\b|[^\W_]+")
_PLAIN = re.compile(r"[^\W_]+(?:[\s'’-]+[^\W_]+)*")
_CONTRACTED = {"ca": "can", "wo": "will", "sha": "shall"}
_REPLY = re.compile(r"\W*(?:no|nein|non|нет|não)\s*[,.!:—–-]\s*", re.IGNORECASE)
_QUESTION = re.compile(r"[?？]\W*\Z")
_LEAST_LETTERS = 3  # shorter words are articles, prepositions and the like
_LEAST_WORDS = 2


@dataclass(frozen=True)
class _Word(Span):
    """A word in lower case."""

    word: str


@dataclass(frozen=True)
class _Statement:
    """The words of a sentence without its cues, and the positions of the cues among the words."""

    text: str
    words: tuple[_Word, ...]
    cues: tuple[tuple[int, _Word], ...]
    limited: bool

    def has(self, word: str) -> bool:
        return any(same_word(word, own.word) for own in self.words)


def negation_check(sentence: str, sources: Mapping[int, str], language: str) -> Iterator[Check]:
    """A check if a source says the same in the same words, except for one negation.

    All longer words of the sentence that denies less must be in the other one. There is no check
    if another source agrees, for questions, for double negations, for those that deny only a part,
    as in 'not only', and in unknown languages.
    """
    negation = _NEGATIONS.get(language)
    if negation is None:
        return
    statement = _statement(sentence, negation)
    contradiction: Check | None = None
    for key, text in sources.items():
        source = _statement(text, negation)
        if _QUESTION.search(text) or not _says(statement, source):
            continue
        if len(statement.cues) == len(source.cues):
            return
        contradiction = contradiction or _contradiction(statement, source, key)
    if contradiction is not None:
        yield contradiction


def _statement(text: str, negation: _Negation) -> _Statement:
    words: list[_Word] = []
    own: list[tuple[int, _Word]] = []
    limited = False
    reply = _REPLY.match(text)
    for match in _WORD.finditer(text, reply.end() if reply else 0):
        word = match[0].lower()
        place = _Word(*match.span(), word)
        limited |= word in negation.limiting
        is_contracted = word not in negation.cues and word.endswith(("n't", "n’t"))
        if word in negation.cues or is_contracted:
            own.append((len(words), place))
            word = _CONTRACTED.get(word[:-3], word[:-3]) if is_contracted else ""
        if word and word not in negation.empty:
            words.append(replace(place, word=word))
    return _Statement(text, tuple(words), tuple(own), limited)


def _says(statement: _Statement, source: _Statement) -> bool:
    """Whether a source has all longer words of a sentence."""
    content = [word.word for word in filter(_is_content, statement.words)]
    return len(content) >= _LEAST_WORDS and all(map(source.has, content))


def _is_content(word: _Word) -> bool:
    return len(word.word) >= _LEAST_LETTERS


def _contradiction(statement: _Statement, source: _Statement, key: int) -> Check | None:
    if statement.limited or source.limited or len(statement.cues) + len(source.cues) != 1:
        return None
    denying, saying = (statement, source) if statement.cues else (source, statement)
    index, cue = denying.cues[0]
    after = next(filter(_is_content, denying.words[index:]), None)
    before = next(filter(_is_content, denying.words[:index][::-1]), None)
    around = [word for word in (before, after) if word is not None]
    if not around or not all(saying.has(word.word) for word in around):
        return None
    if before and after and not _is_joined(before.word, after.word, saying, denying):
        return None
    denied = around[-1]
    start, end = min(cue.start, denied.start), max(cue.end, denied.end)
    if not _PLAIN.fullmatch(denying.text, start, end):  # mark-up between the two
        start, end = cue.start, cue.end
    counterpart = next(word for word in saying.words if same_word(word.word, denied.word))
    places = (start, end), counterpart.span
    own, other = places if statement.cues else reversed(places)
    return value_check("negation", statement.text, own, key, source.text[slice(*other)])


def _is_joined(before: str, after: str, saying: _Statement, denying: _Statement) -> bool:
    """Whether, in the sentence without the cue, no own word stands between the two words.

    As in 'stopped paying' and 'does not pay'.
    """
    first = next(i for i, word in enumerate(saying.words) if same_word(word.word, before))
    last = next(i for i, word in enumerate(saying.words) if same_word(word.word, after))
    between = saying.words[first + 1 : last]
    return all(denying.has(word.word) for word in filter(_is_content, between))


_LANGUAGES = ("de", "en", "es", "fr", "it", "ru")
_NOUNS_TOO = ("de",)  # nouns have capitals, too: only names of two words are recognized
_NAME_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_SENTENCE_END = re.compile(r"[.!?:;\n«»„“”\"(]\s*\Z")
_ALIKE = 70.0
_LEAST_SHARED = 0.7
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
    for match in _NAME_WORD.finditer(text):
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
        for other in map(str.lower, _NAME_WORD.findall(text))
    )


def _share(sentence: str, source: str, names: Sequence[_Name]) -> float:
    """The share of a sentence's longer words, without names, that a source has."""
    words = [
        match[0].lower()
        for match in _NAME_WORD.finditer(sentence)
        if len(match[0]) >= _LEAST_LETTERS
        and not any(name.start <= match.start() < name.end for name in names)
    ]
    source_words = [other.lower() for other in _NAME_WORD.findall(source)]
    shared = sum(any(same_word(word, other) for other in source_words) for word in words)
    return shared / len(words) if words else 0.0
