"""Which passages say the sentences of another model's answer, by words, numbers and names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest
from itertools import chain, combinations, groupby
from math import log
from operator import itemgetter

from attribot_rag.result.verdict import Verdict
from attribot_rag.support.rivals import MIN_WORDS
from attribot_rag.support.support import (
    VERBATIM,
    best_passages,
    is_row,
)
from attribot_rag.support.wording import Claim, Passage, RetrievedText, Word

MIN_NEW = 0.5
"""The least share of a sentence's new words, by weight, in a passage that says it.

The passage must also be about the question, by one of the next four limits."""
MIN_ASKED = 0.4
"""The least share of the question's words, by weight, in the passage and the text around it."""
ENOUGH_ASKED = 1.6
"""The weight of the question's words that is always enough for that; 1 is the weight of a long word
that only one passage has."""
ENOUGH_NEW = 5.0
"""The weight of the sentence's new words that is enough: so many are not about something else."""
MIN_REPEATED = 0.75
"""The share of the words that the sentence repeats from the prompt that is enough."""
MIN_ADDED = 0.25
"""The least share that both passages must add if they say a sentence together."""
MIN_SHARED = 0.2
"""The least share of a sentence's new words, by weight, in a source that may contradict it."""
_MOST_PAIRED = 12  # passages that are compared in pairs


@dataclass(frozen=True)
class ByWords:
    """Compares the sentences of another model's answer with the retrieved passages.

    `rest_of_prompt` is the prompt without its documents.
    """

    retrieved: RetrievedText
    question: str
    rest_of_prompt: str

    def verdict(self, verdict: Verdict, text: str) -> tuple[Verdict | None, tuple[int, ...]]:
        """The verdict on a sentence that passages say, and all sources that say it, best first.

        It cites the best passages, if each is enough alone, or two passages that say it together.
        If no passage says it, it returns None and no sources.
        """
        claim = Claim(start=verdict.start, text=text, question=self.question)
        if groups := self._groups(claim):
            best, *others = ([passage.source for passage in group] for group in groups)
            source_ids = tuple(dict.fromkeys(best))
            if len(source_ids) > 1:
                verdict = replace(verdict, kind="redundant", relation="either")
            else:
                verdict = replace(verdict, kind="grounded")
        elif source_ids := tuple(passage.source for passage in self._together(claim)):
            verdict, others = replace(verdict, kind="grounded"), []
        else:
            return None, ()
        every = tuple(dict.fromkeys(chain(source_ids, *others)))
        return replace(verdict, source_ids=source_ids), every

    def _groups(self, claim: Claim) -> list[tuple[Passage, ...]]:
        """Groups of passages that each say a sentence, best first.

        Passages of a group are equally good.

        A passage says a sentence if it has all its new numbers and names and half of its new words.
        It must also be about the question, or about words that the sentence repeats from the
        prompt. A passage with nearly all words of the sentence says it too. If there is none, the
        estimate of support decides.
        """
        said = sorted(self._ranked(claim), key=lambda ranked: -ranked[0])
        groups = groupby(said, key=lambda ranked: ranked[0])
        found = [tuple(passage for _, passage in group) for _, group in groups]
        return found or list(filter(None, [best_passages(claim, self.retrieved)[0]]))

    def _ranked(self, claim: Claim) -> Iterator[tuple[float, Passage]]:
        """The passages that say a sentence, each with the weight of its words."""
        wording = self.retrieved.wording
        content = wording.content(claim.text)
        words = self._new(content)
        facts = [word for word in words if word.is_number or word.is_name]
        new, asked, repeated = (
            {word.key: self.weight(word) for word in group}
            for group in (
                words,
                wording.content(claim.question),
                [word for word in content if word not in words],
            )
        )

        def weight_in(keys: frozenset[str], weights: Mapping[str, float]) -> float:
            return sum(weight for key, weight in weights.items() if wording.has(keys, key))

        least_repeated = MIN_REPEATED * sum(repeated.values())
        for passage in self.retrieved.passages if words else ():
            own, known = wording.keys(passage.text), wording.keys(passage.with_context)
            if wording.lacking(facts, known) or weight_in(own, new) < MIN_NEW * sum(new.values()):
                continue
            about = weight_in(known, asked)
            is_about = (
                about >= min(ENOUGH_ASKED, MIN_ASKED * sum(asked.values()))
                or weight_in(known, new) >= ENOUGH_NEW
                or (repeated and weight_in(known, repeated) >= least_repeated)
                or self._has_all(claim.text, known)
                or is_row(claim.text, passage, wording)
            )
            if is_about:
                yield round(weight_in(own, new) + about + weight_in(own, asked) / 2, 6), passage

    def _together(self, claim: Claim) -> tuple[Passage, ...]:
        """Two passages that say a sentence only together."""
        wording = self.retrieved.wording
        words = wording.content(claim.text)
        facts = [word for word in words if word.is_number or word.is_name]
        shares = [
            (wording.covered(words, wording.keys(passage.text)), passage)
            for passage in self.retrieved.passages
        ]
        best = nlargest(_MOST_PAIRED, shares, key=itemgetter(0))
        in_order = (each for each in shares if each in best)
        for (one, passage), (two, other) in combinations(in_order, 2):
            own = wording.keys(passage.text) | wording.keys(other.text)
            both = wording.keys(passage.with_context) | wording.keys(other.with_context)
            is_shared = wording.covered(words, own) - max(one, two) >= MIN_ADDED
            if is_shared and self._has_all(claim.text, both) and not wording.lacking(facts, both):
                return passage, other
        return ()

    def _has_all(self, text: str, keys: frozenset[str]) -> bool:
        """Whether nearly all words of a sentence are in a text, and these say what it is about."""
        wording = self.retrieved.wording
        words, content = wording.words(text), wording.content(text)
        least, least_content = MIN_WORDS
        is_sentence = len(words) >= least and len({word.key for word in content}) >= least_content
        return is_sentence and wording.covered(content, keys) >= VERBATIM

    def repeats(self, text: str, earlier: str) -> bool:
        """Whether an earlier text has nearly all words of a sentence, and its numbers and names."""
        wording = self.retrieved.wording
        keys = wording.keys(earlier)
        facts = [word for word in wording.content(text) if word.is_number or word.is_name]
        return self._has_all(text, keys) and not wording.lacking(facts, keys)

    def may_say(self, source_ids: Iterable[int], text: str) -> bool:
        """Whether sources have enough new words of a sentence to say it in other words."""
        wording = self.retrieved.wording
        passages = self.retrieved.passages_of(source_ids)
        known = wording.keys("\n".join(passage.with_context for passage in passages))
        return wording.covered(self._new(wording.words(text)), known) >= MIN_SHARED

    def _new(self, words: Sequence[Word]) -> Sequence[Word]:
        """The words that the rest of the prompt lacks; all words if it lacks none."""
        wording = self.retrieved.wording
        return wording.lacking(words, wording.keys(self.rest_of_prompt)) or words

    def weight(self, word: Word) -> float:
        """How informative a word is: 1 for a long word that only one passage has."""
        return self.retrieved.wording.weight(word) / log((len(self.retrieved.passages) + 1) / 1.5)
