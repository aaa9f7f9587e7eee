"""What retrieved passages say of another model's answer, by its words alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest
from itertools import chain, combinations, groupby
from math import log
from operator import itemgetter

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
MIN_REPEATED = 0.75
"""Or the least share of the words that the sentence itself has from the prompt."""
VERBATIM = 0.8
"""The share of all its words, by weight, with which passages say a sentence whatever was asked."""
MIN_WORDS = (4, 2)
"""The least number of words of such a sentence, and of those that state something."""
MIN_ADDED = 0.25
"""The least share that each of two passages has alone which say a sentence together."""
_MOST_PAIRED = 12  # passages that are compared two by two
MIN_SHARED = 0.2
"""The least share of a sentence's new words, by weight, in sources that may say it otherwise."""


@dataclass(frozen=True)
class ByWords:
    """Compares the sentences of another model's answer with the retrieved passages.

    `question` is what was asked, `told` the prompt without its documents.
    """

    retrieved: Retrieved
    question: str
    told: str

    def verdict(self, verdict: Verdict, text: str) -> tuple[Verdict | None, tuple[int, ...]]:
        """The verdict on a sentence that passages say, and all sources that say it, best first.

        It cites the best ones: each enough by itself, or else two that say it together. None and
        no sources if no passage says it.
        """
        stated = Stated(start=verdict.start, text=text, question=self.question)
        if groups := self._groups(stated):
            best, *others = ([passage.source for passage in group] for group in groups)
            source_ids = tuple(dict.fromkeys(best))
            if len(source_ids) > 1:
                verdict = replace(verdict, kind="redundant", relation="either")
            else:
                verdict = replace(verdict, kind="grounded")
        elif source_ids := tuple(passage.source for passage in self._together(stated)):
            verdict, others = replace(verdict, kind="grounded"), []
        else:
            return None, ()
        every = tuple(dict.fromkeys(chain(source_ids, *others)))
        return replace(verdict, source_ids=source_ids), every

    def _groups(self, stated: Stated) -> list[tuple[Passage, ...]]:
        """The passages that each say a sentence, the best first, with those that say it alike.

        Such a passage has all new numbers and names of the sentence and half of its new words, and
        is about what was asked or what the sentence repeats of the prompt; or it has nearly all
        words of the sentence. Else, those that say the sentence by the estimate of support.
        """
        said = sorted(self._ranked(stated), key=lambda ranked: -ranked[0])
        groups = groupby(said, key=lambda ranked: ranked[0])
        found = [tuple(passage for _, passage in group) for _, group in groups]
        return found or list(filter(None, [says(stated, self.retrieved)[0]]))

    def _ranked(self, stated: Stated) -> Iterator[tuple[float, Passage]]:
        """The passages that say a sentence, each with the weight of what it has."""
        wording = self.retrieved.wording
        every = wording.content(stated.text)
        words = self._new(every)
        facts = [word for word in words if word.is_number or word.is_name]
        new, asked, repeated = (
            {word.key: self.weight(word) for word in of}
            for of in (
                words,
                wording.content(stated.question),
                [word for word in every if word not in words],
            )
        )

        def held(weights: Mapping[str, float], keys: frozenset[str]) -> float:
            return sum(weight for key, weight in weights.items() if wording.has(keys, key))

        for passage in self.retrieved.passages if words else ():
            own, known = wording.keys(passage.text), wording.keys(passage.read)
            if wording.lacking(facts, known) or held(new, own) < MIN_NEW * sum(new.values()):
                continue
            about = held(asked, known)
            is_about = (
                about >= min(ENOUGH_ASKED, MIN_ASKED * sum(asked.values()))
                or held(new, known) >= ENOUGH_NEW
                or (repeated and held(repeated, known) >= MIN_REPEATED * sum(repeated.values()))
                or self._has_all(stated.text, known)
            )
            if is_about:
                yield round(held(new, own) + about + held(asked, own) / 2, 6), passage

    def _together(self, stated: Stated) -> tuple[Passage, ...]:
        """Two passages that say a sentence only together."""
        wording = self.retrieved.wording
        words = wording.content(stated.text)
        keys = [(wording.keys(passage.read), passage) for passage in self.retrieved.passages]
        facts = [word for word in words if word.is_number or word.is_name]
        shares = [(wording.covered(words, known), known, passage) for known, passage in keys]
        best = nlargest(_MOST_PAIRED, shares, key=itemgetter(0))
        in_order = (each for each in shares if each in best)
        for (one, first, passage), (two, second, other) in combinations(in_order, 2):
            both = first | second
            whole = wording.covered(words, both)
            is_shared = min(whole - one, whole - two) >= MIN_ADDED
            if is_shared and self._has_all(stated.text, both) and not wording.lacking(facts, both):
                return passage, other
        return ()

    def _has_all(self, text: str, keys: frozenset[str]) -> bool:
        """Whether nearly all words of a sentence are there, which tells what it is about."""
        wording = self.retrieved.wording
        words, content = wording.words(text), wording.content(text)
        least, least_content = MIN_WORDS
        is_sentence = len(words) >= least and len({word.key for word in content}) >= least_content
        return is_sentence and wording.covered(content, keys) >= VERBATIM

    def may_say(self, source_ids: Iterable[int], text: str) -> bool:
        """Whether sources have enough new words of a sentence to say it in other words."""
        wording = self.retrieved.wording
        known = wording.keys("\n".join(passage.read for passage in self.retrieved.of(source_ids)))
        return wording.covered(self._new(wording.words(text)), known) >= MIN_SHARED

    def _new(self, words: Sequence[Word]) -> Sequence[Word]:
        """The words that the prompt lacks without its documents; all, if it has all."""
        wording = self.retrieved.wording
        return wording.lacking(words, wording.keys(self.told)) or words

    def weight(self, word: Word) -> float:
        """How much a word tells, where 1 is a long word that one of the passages has."""
        return self.retrieved.wording.weight(word) / log((len(self.retrieved.passages) + 1) / 1.5)
