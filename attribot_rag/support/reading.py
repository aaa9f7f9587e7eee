"""What retrieved passages say of another model's answer, by its words alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import log

from attribot_rag.result.verdict import Verdict
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
MIN_OWN = 0.25
"""The least share of a sentence's words, by weight, that sources have on which a reader relies."""


@dataclass(frozen=True)
class ByWords:
    """Compares the sentences of another model's answer with the retrieved passages.

    `question` is what was asked, `told` the prompt without its documents.
    """

    retrieved: Retrieved
    question: str
    told: str

    def passages_saying(self, start: int, text: str) -> list[tuple[Passage, ...]]:
        """The passages that say a sentence, the best first, each with those that say it alike.

        `start` is the sentence's first character in the response. A passage that says it has half
        of its new words, with all numbers and names among them, and is about what was asked, or has
        very many of them. New words are those that the prompt lacks without its documents; all, if
        it has all. Without such a passage, those that say the sentence by the estimate of support.
        """
        stated = Stated(start=start, text=text, question=self.question)
        said = sorted(self._ranked(stated), key=lambda ranked: -ranked[0])
        groups = groupby(said, key=lambda ranked: ranked[0])
        found = [tuple(passage for _, passage in group) for _, group in groups]
        return found or list(filter(None, [says(stated, self.retrieved)[0]]))

    @staticmethod
    def cited(verdict: Verdict, groups: Sequence[Sequence[Passage]]) -> Verdict | None:
        """The verdict on a sentence that passages say: the best are cited, each enough by itself.

        None without any.
        """
        best = (passage for group in groups[:1] for passage in group)
        source_ids = tuple(dict.fromkeys(passage.source for passage in best))
        if len(source_ids) > 1:
            return replace(verdict, kind="redundant", relation="either", source_ids=source_ids)
        return replace(verdict, kind="grounded", source_ids=source_ids) if source_ids else None

    def may_say(self, source_ids: Iterable[int], text: str) -> bool:
        """Whether sources have enough words of a sentence to say it."""
        wording = self.retrieved.wording
        known = wording.keys("\n".join(passage.read for passage in self.retrieved.of(source_ids)))
        return wording.covered(wording.content(text), known) >= MIN_OWN

    def weight(self, word: Word) -> float:
        """How much a word tells, where 1 is a long word that one of the passages has."""
        return self.retrieved.wording.weight(word) / log((len(self.retrieved.passages) + 1) / 1.5)

    def _ranked(self, stated: Stated) -> Iterator[tuple[float, Passage]]:
        """The passages that say a sentence, each with the weight of what it has."""
        wording = self.retrieved.wording
        words = wording.content(stated.text)
        words = wording.lacking(words, wording.keys(self.told)) or words
        facts = [word for word in words if word.is_number or word.is_name]
        new, asked = (
            {word.key: self.weight(word) for word in of}
            for of in (words, wording.content(stated.question))
        )

        def held(weights: Mapping[str, float], keys: frozenset[str]) -> float:
            return sum(weight for key, weight in weights.items() if wording.has(keys, key))

        for passage in self.retrieved.passages if words else ():
            own, known = wording.keys(passage.text), wording.keys(passage.read)
            if wording.lacking(facts, known) or held(new, own) < MIN_NEW * sum(new.values()):
                continue
            about = held(asked, known)
            is_asked = about >= min(ENOUGH_ASKED, MIN_ASKED * sum(asked.values()))
            if is_asked or held(new, known) >= ENOUGH_NEW:
                yield round(held(new, own) + about + held(asked, own) / 2, 6), passage
