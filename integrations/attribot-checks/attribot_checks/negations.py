"""Negations: sentences that deny what their source says, or say what it denies."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from attribot_checks.numerals import Span
from attribot_checks.statements import value_check
from attribot_checks.vocabulary import WORDS
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

    All longer words of the sentence that denies less must stand in the other one. There is no check
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
