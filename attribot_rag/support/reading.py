"""Which retrieved passages say a sentence that another model wrote, by its words alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from math import log

from attribot_rag.support.support import Passage, Retrieved, Stated, says
from attribot_rag.support.wording import Word

MIN_NEW = 0.5
"""The least share of a sentence's new words, by weight, that a passage has which says it."""
MIN_ASKED = 0.4
"""The least share of the question's words, by weight, that it has with the text around it."""
ENOUGH_ASKED = 1.6
"""Or the weight of these words, where 1 is a long word that one passage alone has."""
ENOUGH_NEW = 5.0
"""Or that of the sentence's new words, so many that they can hardly be about something else."""


def passages_saying(stated: Stated, told: str, retrieved: Retrieved) -> list[tuple[Passage, ...]]:
    """The passages that say a sentence, the best first, each with those that say it alike.

    A passage that says it has half of its new words, with all numbers and names among them, and is
    about what was asked, or has very many of them. New words are those that the prompt does not
    have besides its documents, where it `told` the question and the instructions; all, if it has
    all. Without such a passage, those that say the sentence by the estimate of support.
    """
    said = sorted(_ranked(stated, told, retrieved), key=lambda ranked: -ranked[0])
    groups = groupby(said, key=lambda ranked: ranked[0])
    found = [tuple(passage for _, passage in group) for _, group in groups]
    return found or list(filter(None, [says(stated, retrieved)[0]]))


def word_weight(word: Word, retrieved: Retrieved) -> float:
    """How much a word tells, where 1 is a long word that one of the passages has."""
    return retrieved.wording.weight(word) / log((len(retrieved.passages) + 1) / 1.5)


def _ranked(stated: Stated, told: str, retrieved: Retrieved) -> Iterator[tuple[float, Passage]]:
    """The passages that say a sentence, each with the weight of what it has."""
    wording = retrieved.wording
    words = wording.content(stated.text)
    words = wording.lacking(words, wording.keys(told)) or words
    facts = [word for word in words if word.is_number or word.is_name]
    new, asked = (
        {word.key: word_weight(word, retrieved) for word in of}
        for of in (words, wording.content(stated.question))
    )

    def held(weights: Mapping[str, float], keys: frozenset[str]) -> float:
        return sum(weight for key, weight in weights.items() if wording.has(keys, key))

    for passage in retrieved.passages if words else ():
        own, known = wording.keys(passage.text), wording.keys(passage.read)
        if wording.lacking(facts, known) or held(new, own) < MIN_NEW * sum(new.values()):
            continue
        about = held(asked, known)
        is_asked = about >= min(ENOUGH_ASKED, MIN_ASKED * sum(asked.values()))
        if is_asked or held(new, known) >= ENOUGH_NEW:
            yield round(held(new, own) + about + held(asked, own) / 2, 6), passage
