"""Prompts with many or long documents, and inputs that are made to take long to locate."""

from __future__ import annotations

import random
import textwrap
from collections.abc import Callable
from functools import partial

_SYLLABLES = [
    *("ta", "re", "mi", "lo", "ku", "sen", "da", "vor", "ni", "pel"),
    *("ga", "rit", "os", "um", "ba", "tel", "fin", "or", "ash", "el"),
]
_PROMPT = "Answer from the context.\n\n{context}\n\nQuestion: who signed it?"


class Texts:
    """Random prose: words as frequent as in a language, in sentences and documents."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._words = [
            "".join(self._random.choices(_SYLLABLES, k=self._random.choice([1, 2, 2, 3, 3, 4])))
            for _ in range(8_000)
        ]
        self._weights = [1 / (rank + 2.7) for rank in range(1, len(self._words) + 1)]

    def sentence(self) -> str:
        chosen = self._random.choices(self._words, self._weights, k=self._random.randint(7, 18))
        if not self._random.randrange(4):
            chosen[3] = str(self._random.randint(2, 2_000))
        return " ".join(chosen).capitalize() + "."

    def document(self, length: int) -> str:
        """About this number of characters, at most."""
        sentences = [self.sentence()]
        while sum(map(len, sentences)) + len(sentences) < length - 60:
            sentences.append(self.sentence())
        return " ".join(sentences)

    def misspelled(self, text: str, every: int = 150) -> str:
        letters = list(text)
        for start in range(0, len(letters) - every, every):
            at = start + self._random.randrange(every)
            if letters[at].isalpha():
                letters[at] = "x"
        return "".join(letters)


def retrieval(length: int, number: int) -> tuple[str, list[str]]:
    """A prompt of about this length with documents: a tenth is changed in it, a tenth is absent."""
    texts = Texts()
    changes: list[Callable[[str], str]] = [
        texts.misspelled,
        str.lower,
        partial(textwrap.fill, width=60),
        lambda text: text[: 2 * len(text) // 3],
        lambda text: text.replace(". ", ".\n\n* "),
    ]
    documents = [texts.document(length // (number * 9 // 10)) for _ in range(number)]
    shown = [
        changes[index // 10 % len(changes)](text) if index % 10 == 5 else text
        for index, text in enumerate(documents)
        if index % 10
    ]
    context = "\n\n".join(f"[{index}] {text}" for index, text in enumerate(shown, 1))
    return _PROMPT.format(context=context), documents


def near_equal(length: int) -> tuple[str, list[str]]:
    """A document of about this length, with misspellings in the prompt."""
    document = Texts().document(length)
    return _PROMPT.format(context=Texts(1).misspelled(document, 700)), [document]


def absent() -> tuple[str, list[str]]:
    """999 documents that the prompt lacks, and one that it has."""
    texts = Texts()
    documents = [texts.document(950) for _ in range(999)]
    shown = [texts.document(950) for _ in range(8)]
    return _PROMPT.format(context="\n\n".join(shown)), [*documents, shown[0]]
