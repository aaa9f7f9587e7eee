"""Which retrieved passages say a sentence that another model wrote, by its words alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import log

from attribot_rag.support.estimate import FULL, Signals, estimate
from attribot_rag.support.support import Passage, Retrieved
from attribot_rag.support.wording import Word

MIN_NEW = 0.5
"""The least share of a sentence's new words, by weight, that a passage has which says it."""
MIN_ASKED = 0.4
"""The least share of the question's words, by weight, that it has with the text around it."""
ENOUGH_ASKED = 1.6
"""Or the weight of these words, where 1 is a long word that one passage alone has."""


@dataclass(frozen=True)
class SentenceWords:
    """The content words of a sentence, and those of the question that it answers.

    `new` are those that neither the question nor the instructions have; all, if these have all.
    """

    all: Sequence[Word]
    new: Sequence[Word]
    asked: Sequence[Word]

    @classmethod
    def of(cls, text: str, question: str, told: str, retrieved: Retrieved) -> SentenceWords:
        """`told` is what the prompt says besides documents: the question and the instructions."""
        wording = retrieved.wording
        words = wording.content(text)
        new = wording.lacking(words, wording.keys(told))
        return cls(words, new or words, wording.content(question))


def passages_saying(words: SentenceWords, retrieved: Retrieved) -> list[tuple[Passage, ...]]:
    """The passages that say a sentence, the best first, each with those that say it alike.

    A passage that says it has all its new numbers and names, and half of its new words. It is about
    what was asked, or has so many words of the sentence that its estimate is that of full support.
    """
    said = sorted(_ranked(words, retrieved), key=lambda ranked: -ranked[0])
    groups = groupby(said, key=lambda ranked: ranked[0])
    return [tuple(passage for _, passage in group) for _, group in groups]


def word_weight(word: Word, retrieved: Retrieved) -> float:
    """How much a word tells, where 1 is a long word that one of the passages has."""
    return retrieved.wording.weight(word) / log((len(retrieved.passages) + 1) / 1.5)


def _ranked(words: SentenceWords, retrieved: Retrieved) -> Iterator[tuple[float, Passage]]:
    """The passages that say a sentence, each with the weight of what it has."""
    wording = retrieved.wording
    facts = [word for word in words.new if word.is_number or word.is_name]
    new, asked, said = (
        {word.key: word_weight(word, retrieved) for word in of}
        for of in (words.new, words.asked, words.all)
    )

    def held(weights: Mapping[str, float], keys: frozenset[str]) -> float:
        return sum(weight for key, weight in weights.items() if wording.has(keys, key))

    def covered(weights: Mapping[str, float], keys: frozenset[str]) -> float:
        total = sum(weights.values())
        return held(weights, keys) / total if total else 1.0

    for passage in retrieved.passages if words.all else ():
        own, known = wording.keys(passage.text), wording.keys(passage.read)
        if wording.lacking(facts, known) or covered(new, own) < MIN_NEW:
            continue
        asked_about = held(asked, known)
        signals = Signals(
            sentence_covered=covered(said, known), question_covered=covered(asked, known)
        )
        is_asked = asked_about >= ENOUGH_ASKED or signals.question_covered >= MIN_ASKED
        if is_asked or estimate(signals) >= FULL:
            yield round(held(new, own) + asked_about + held(asked, own) / 2, 6), passage
