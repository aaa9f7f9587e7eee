"""The words of an answer's sentence, and of the retrieved passages that may have them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from math import log

import Stemmer

from attribot_rag.cached_property import cached_property
from attribot_rag.context.document import Document, Source
from attribot_rag.context.splitting.blocks import heading_before
from attribot_rag.context.text import (
    LEAST_LETTERS,
    SYLLABLES,
    UNSPACED_LETTERS,
    number_values,
    number_words,
    same_word,
)

# A number with its separators, a character of a script without spaces, or letters in a row.
_WORD = re.compile(
    r"\d+(?:[.,:'’٫٬\u00a0\u202f]\d+)*"
    rf"|[{UNSPACED_LETTERS}]|[^\W\d_{UNSPACED_LETTERS}]+"
)
_BREAK = re.compile(r"[.!?:;。！？\n•*|\"“”„«»(]")
_AMID = re.compile(r"(?<=[^\W\d_] )([^\W\d_])")
_MOST_CAPITALS = 0.22  # share of words with a capital if capitals mark names
_FEW = 10  # words: too few to tell
_RARE = 0.2  # share of the retrieved sentences that have a rare word
_NUM_RARE = 2  # or so many of few sentences
_MOST_ARTICLE = 2  # letters of a word that is no subject
_TELLING = 0.6  # share of the weight of the most informative word

# Pronouns: a sentence that begins with one does not say enough alone.
_PRONOUN = re.compile(
    "it|he|she|they|this|that|these|those|its|his|her|their"
    "|es|er|sie|dies|diese|dieser|dieses|ihre?|seine?|il|elle|ils|elles|ce|cela|ceci|ça"
    "|él|ella|ellos|ellas|esto|eso|esso|essa|el[ea]s?|isso|isto|hij|zij|dit|dat|deze"
    "|он|она|оно|они|это|[它他她这那此]"
)


@dataclass(frozen=True)
class Word:
    """A word at the characters [start, end) of a text.

    Two words are the same if their keys are equal: a stem in lower case, or a number in digits.
    """

    start: int
    end: int
    text: str
    key: str
    is_number: bool = False
    is_name: bool = False
    """Whether it has a capital that ordinary words do not have."""

    @cached_property
    def is_content(self) -> bool:
        """Whether it is a number, a name, or a word of four letters or more."""
        return (
            self.is_number
            or self.is_name
            or len(self.text) >= LEAST_LETTERS
            or self.text[0] >= SYLLABLES
        )

    @property
    def length_share(self) -> float:
        """Its length, from 0 to 1 for a name, a number, or a word of six letters or more."""
        if self.is_number or self.is_name or self.text[0] >= SYLLABLES:
            return 1.0
        return min(1.0, max(0, len(self.text) - 2) / 4)


class Wording:
    """Reads the words of texts in one language, and weighs them.

    A word that most of the `retrieved` sentences have says little about any of them.
    """

    def __init__(self, language: str, retrieved: Sequence[str] = ()) -> None:
        self._language = language
        self._stem = _stemmer(language)
        # Each of these is computed once for a text, or for a word.
        self.words, self.content = cache(self._words), cache(self._content)
        self.keys, self.weight = cache(self._keys), cache(self._weight)
        self._num_sentences = len(retrieved)
        self._has_names = _tells_names(retrieved)
        self._holders = Counter(key for text in retrieved for key in self.keys(text))

    def _words(self, text: str) -> Sequence[Word]:
        """The words of a text in order. A number in words has the key of its digits."""
        spelled = {number.start: number for number in number_words(text, self._language)}
        words: list[Word] = []
        end = 0
        for match in _WORD.finditer(text):
            if match.start() < end:  # within a number in several words
                continue
            start, end = match.span()
            if match[0][0].isdecimal():
                words.append(Word(start, end, match[0], _canonical(match[0]), is_number=True))
            elif number := spelled.get(start):
                end = number.end
                value = _digits(number.value)
                words.append(Word(start, end, text[start:end], value, is_number=True))
            else:
                begins = not words or _BREAK.search(text, words[-1].end, start) is not None
                is_name = self._has_names and match[0] != match[0].lower() and not begins
                words.append(Word(start, end, match[0], self._key(match[0]), is_name=is_name))
        return words

    def _content(self, text: str) -> Sequence[Word]:
        """The content words of a text."""
        return [word for word in self.words(text) if word.is_content]

    def _keys(self, text: str) -> frozenset[str]:
        """The keys of all words of a text."""
        first, *lines = text.split("\n")  # several texts share the lines
        return frozenset(word.key for word in self.words(first)).union(*map(self.keys, lines))

    def keys_for(self, passage: Passage) -> frozenset[str]:
        """The keys of a passage, with those of its title and heading.

        If it begins with a pronoun, the words of the sentence before it count, too.
        """
        before = passage.before if self.begins_with_pronoun(passage.text) else ""
        return self.keys(f"{passage.around}\n{before}\n{passage.text}")

    def begins_with_pronoun(self, text: str) -> bool:
        """Whether a sentence does not say enough alone, because a pronoun is its first word."""
        words = self.words(text)
        return bool(words) and _PRONOUN.fullmatch(words[0].text.casefold()) is not None

    def _weight(self, word: Word) -> float:
        """How informative a word is, in nats; 0 for a word that every retrieved sentence has.

        A short word has less weight, unless it is a name or a number: frequent words are short
        (Zipf).
        """
        rarity = log((self._num_sentences + 1) / (self._holders[word.key] + 0.5))
        return max(0.0, rarity) * word.length_share

    def is_rare_and_short(self, word: Word) -> bool:
        """Whether it is no content word, and few retrieved sentences have it, such as "not"."""
        is_rare = self._holders[word.key] <= max(_NUM_RARE, _RARE * self._num_sentences)
        return is_rare and not word.is_content

    def rarest(self, words: Iterable[Word]) -> list[Word]:
        """The words that fewest of the retrieved sentences have, without those that none has."""
        counts = {word: self._holders[word.key] for word in words if len(word.text) > _MOST_ARTICLE}
        least = min(filter(None, counts.values()), default=0)
        return [word for word, count in counts.items() if count == least > 0]

    def covered(self, words: Iterable[Word], keys: Collection[str]) -> float:
        """The share, from 0 to 1, of the words' weight that these keys have; 1 without words."""
        weights = {word.key: self.weight(word) for word in words}
        total = sum(weights.values())
        held = sum(weight for key, weight in weights.items() if self.has(keys, key))
        return held / total if total else 1.0

    def telling(self, words: Sequence[Word], sentence: Sequence[Word]) -> list[Word]:
        """The words with much weight, compared with all words of their sentence."""
        most = max(map(self.weight, sentence), default=0.0)
        return [word for word in words if self.weight(word) > _TELLING * most]

    def lacking(self, words: Iterable[Word], keys: Collection[str]) -> list[Word]:
        """The words that these keys lack."""
        return [word for word in words if not self.has(keys, word.key)]

    def has(self, keys: Collection[str], key: str) -> bool:
        """Whether the keys have this key. In a language without a stemmer, endings are ignored."""
        if key in keys:
            return True
        return self._stem is None and any(same_word(key, other) for other in keys)

    def _key(self, word: str) -> str:
        folded = word.casefold()
        return folded if self._stem is None else str(self._stem.stemWord(folded))


def _tells_names(texts: Sequence[str]) -> bool:
    """Whether capitals mark names. In German, most of them mark nouns."""
    letters: list[str] = [match[1] for text in texts for match in _AMID.finditer(text)]
    num_capitals = sum(letter != letter.lower() for letter in letters)
    return len(letters) < _FEW or num_capitals <= _MOST_CAPITALS * len(letters)


def _stemmer(language: str) -> Stemmer.Stemmer | None:
    """A stemmer for one thread; None for a language without one."""
    try:
        return Stemmer.Stemmer(language)
    except KeyError:
        return None


def _canonical(text: str) -> str:
    """The digits of a number, without separators of thousands.

    A time or a version stays as it is.
    """
    values = frozenset() if ":" in text else number_values(text)
    return _digits(max(values)) if values else text


def _digits(value: Decimal) -> str:
    return f"{value.normalize():f}"


@dataclass(frozen=True)
class Passage:
    """A source in one document: the characters [start, end) of it.

    `around` is other text that a reader knows: the document's title and the heading above the
    passage. `before` is the sentence before it.
    """

    source: int
    document: int
    start: int
    end: int
    text: str
    around: str = ""
    before: str = ""

    @cached_property
    def with_context(self) -> str:
        """The passage with the text around and before it."""
        return f"{self.around}\n{self.before}\n{self.text}"


class RetrievedText:
    """The passages of the documents that a model read, with their words."""

    def __init__(
        self, documents: Sequence[Document], sources: Sequence[Source], language: str
    ) -> None:
        self.passages = tuple(_passages(documents, sources))
        self.wording = Wording(language, [passage.text for passage in self.passages])

    def passages_of(self, source_ids: Iterable[int]) -> tuple[Passage, ...]:
        """The places of these sources, in the order of the ids."""
        return tuple(
            passage
            for source in source_ids
            for passage in self.passages
            if passage.source == source
        )

    def keys_of_documents(self, passages: Iterable[Passage]) -> frozenset[str]:
        """The keys of all words in the documents of these passages."""
        documents = {passage.document for passage in passages}
        of_them = (passage for passage in self.passages if passage.document in documents)
        return self.wording.keys("\n".join(passage.with_context for passage in of_them))

    @cached_property
    def keys(self) -> frozenset[str]:
        """The keys of all words that the model read."""
        return self.wording.keys("\n".join(passage.with_context for passage in self.passages))


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A sentence of the answer, which begins at character `start` of the response.

    `text` has white space in place of its markers. The sentence answers the `question`. `earlier`
    is the sentence that it follows from.
    """

    start: int
    text: str
    question: str
    earlier: str = ""


def _passages(documents: Sequence[Document], sources: Sequence[Source]) -> Iterator[Passage]:
    """The places of all sources in the documents, in the order of the documents' text."""
    places = {
        (span.document, span.start, span.end): source.id
        for source in sources
        for occurrence in source.occurrences
        for span in occurrence.spans
    }
    before: Passage | None = None
    for (index, start, end), source in sorted(places.items()):
        document = documents[index]
        is_next = before is not None and before.document == index
        previous = before.text if before is not None and is_next else ""
        heading = heading_before(document.text, start) or document.section
        around = "\n".join(filter(None, [document.title, heading]))
        before = Passage(source, index, start, end, document.text[start:end], around, previous)
        yield before
