"""The sources that a verdict cites, and documents that might be cited if they were located."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from attribot_rag.context import Context
from attribot_rag.context.words import has_words, num_unspaced, words
from attribot_rag.methods import Scores
from attribot_rag.methods.base import Carriers, Part, total
from attribot_rag.methods.sufficiency import Sufficiency
from attribot_rag.methods.thresholds import VerdictOptions
from attribot_rag.result import Verdict

Units = Sequence[int]


class CitedSources:
    """Decides which of the sources that carry a sentence its verdict cites, and by how much."""

    def __init__(self, search: Sufficiency, scores: Scores, options: VerdictOptions) -> None:
        self._search = search
        self._likely = scores.token_log_likelihoods
        self._options = options

    def verdict(self, plain: Verdict, part: Part, carried: Carriers) -> Verdict | None:
        """The verdict that cites the sources that carry the sentence, None if there are none."""
        members = carried.members
        if not members:
            return None
        cited: Verdict | None = replace(plain, kind="grounded", source_ids=members)
        if carried.alternatives:
            group = (*members, *carried.alternatives)
            cited = replace(plain, kind="redundant", source_ids=group, relation="either")
        elif len(members) > 1:
            cited = self._of_several(plain, carried, part)
        elif self._is_close(plain.reliance or 0.0, part, carried):
            self._search.score_without([members], exact=True)  # its necessity decides
        return None if cited is None else self._measured(cited, members, part)

    def _is_close(self, reliance: float, part: Part, carried: Carriers) -> bool:
        """Whether the source may only be cited for its effect, and that is near a threshold."""
        options = self._options
        if reliance < options.min_reliance:
            return True
        effect = total(self._search.loss_without(carried.members), part.tokens)
        is_near = options.cited_share * reliance <= effect < options.min_effect
        return is_near and not carried.sufficient

    def _measured(self, cited: Verdict, members: Sequence[int], part: Part) -> Verdict:
        """The verdict with the necessity and the sufficiency of what it cites."""
        source_ids, reliance = cited.source_ids, cited.reliance or 0.0
        sets = [source_ids] if cited.kind == "redundant" else [(unit,) for unit in source_ids]
        self._search.score_without(sets)
        effect = sum(total(self._search.loss_without(units), part.tokens) for units in sets)
        alone = members if cited.relation == "either" else source_ids
        lost = total(self._search.loss_with_only(alone), part.tokens)
        kept = min(1.0, 1.0 - lost / reliance) if reliance > 0 else None
        in_part = kept is not None and kept < self._options.kept_share
        return replace(cited, effect=effect, kept=kept, in_part=in_part)

    def _of_several(self, plain: Verdict, carried: Carriers, part: Part) -> Verdict | None:
        """The sources that each decide words, if these are enough; else all, if they suffice."""
        members = carried.members
        deciding = tuple(self._deciding(members, part))
        if deciding and self._are_enough(deciding, part):
            return replace(plain, kind="grounded", source_ids=deciding)
        if not carried.sufficient:
            return None
        return replace(plain, kind="redundant", source_ids=members, relation="together")

    def _are_enough(self, deciding: Units, part: Part) -> bool:
        """Whether the sentence keeps enough with these alone, or loses the rest without them."""
        search = self._search
        most = (1 - self._options.kept_share) * total(search.reliance, part.tokens)
        search.score_only([deciding])
        row = search.loss_with_only(deciding)
        if row is not None and total(row, part.tokens) <= most:
            return True
        without = (search.loss_without([unit]) for unit in deciding)
        return sum(total(row, part.tokens) for row in without) >= most

    def _deciding(self, members: Units, part: Part) -> Iterator[int]:
        """The members that decide words of their own, which only the other members lose.

        And that matter at all with all sources in the prompt: what only makes the subject clear
        does not.
        """
        lost = [self._search.lost_by_others(part, member, members).keys() for member in members]
        for index, member in enumerate(members):
            rest = {word for i, words in enumerate(lost) if i != index for word in words}
            effect = total(self._search.loss_without([member]), part.tokens)
            if lost[index] - rest and effect >= self._options.min_word:
                yield member

    def is_needed(self, cited: Verdict, part: Part) -> bool:
        """Whether the sentence, or a word of it, loses enough without the cited sources.

        A word that the model does not expect only counts for a source that holds it.
        """
        options, effect = self._options, cited.effect or 0.0
        if cited.kind == "redundant":
            return effect >= options.min_reliance
        if effect < options.cited_share * (cited.reliance or 0.0):
            return False
        if effect >= options.min_effect:
            return True
        for unit in cited.source_ids:
            row, held = self._search.loss_without([unit]), self._search.words_of(unit)
            for word, text in zip(part.words, part.texts, strict=True):
                may_be = text in held or not self._is_unexpected(word)
                if may_be and total(row, word) >= options.min_word_effect:
                    return True
        return False

    def is_warranted(
        self, cited: Verdict, part: Part, carried: Carriers, *, least: float, is_invented: bool
    ) -> bool:
        """Whether the sentence needs the cited sources, or they suffice and it relies on them.

        It relies on them if its reliance is at least `least`; below twice that, on a single source
        only if the model expects each content word. With invented numbers, only a source that it
        needs may be cited.
        """
        is_needed, reliance = self.is_needed(cited, part), cited.reliance or 0.0
        is_single = cited.kind == "grounded"
        if is_needed and is_single:
            return True
        if is_invented or (is_single and reliance < 2 * least and self.has_unexpected(part)):
            return False
        if is_needed and cited.relation == "either":
            return True
        return carried.sufficient and reliance >= least

    def is_invented(self, figures: Sequence[Sequence[int]]) -> bool:
        """Whether the model expects these numbers neither with the context nor without.

        An invented price, for example, whose currency stands everywhere.
        """
        reliance, likely = self._search.reliance, self._likely
        least = self._options.min_figure
        unlikely = [x for x in figures if total(reliance, x) - total(likely, x) >= least]
        return bool(unlikely) and all(map(self._is_unexpected, unlikely))

    def has_unexpected(self, part: Part) -> bool:
        """Whether the model expects a content word neither with the context nor without."""
        return any(map(self._is_unexpected, part.words))

    def _is_unexpected(self, tokens: Sequence[int]) -> bool:
        """Whether tokens are unlikely, and the context is worth little to them."""
        least = self._options.min_figure
        return total(self._search.reliance, tokens) < least <= -total(self._likely, tokens)


_LEAST_STATED = 0.4
_STATEMENT_END = re.compile(r"(?<=[.!?。！？؟\n])")
_QUESTION_MARKS = ("?", "？", "؟")
_TAG = re.compile(r"<[^<>\s]{1,40}>")
_HIRAGANA = re.compile("[\u3040-\u309f]")  # endings and particles
_QUESTION_WORDS = 3
_LEAST_LETTERS = 4
_STEM = 5


def may_rest_on_unlocated(context: Context, sentence: str) -> bool:
    """Whether a document that was not located, or not as a whole, may have caused a sentence.

    Text of a document that was located in part, or was not looked for, may stand anywhere. A
    document of which nothing was located was most likely dropped, by a reranker for example. If it
    was put in other words instead, the rest of the prompt states what the sentence says: without
    its questions, it has 40 % of the sentence's numbers and longer words.
    """
    if context.unseen or not context.absent:
        return bool(context.unseen)
    stems = list(_stems(sentence))
    stated = {stem for statement in _statements(context.asked) for stem in _stems(statement)}
    return bool(stems) and sum(stem in stated for stem in stems) >= _LEAST_STATED * len(stems)


def _statements(asked: str) -> list[str]:
    """The sentences and lines that are no questions; the last of them is one if no other is."""
    pieces = [piece.strip() for piece in _STATEMENT_END.split(_TAG.sub("\n", asked))]
    statements = [piece for piece in pieces if not piece.endswith(_QUESTION_MARKS)]
    if len(statements) == len(pieces):
        long = (i for i, piece in enumerate(pieces) if has_words(piece, _QUESTION_WORDS))
        del statements[max(long, default=0)]
    return statements


def _stems(text: str) -> Iterator[str]:
    """The beginnings of the longer words of a text, its numbers, and ideographs."""
    for word in words(_HIRAGANA.sub(" ", text.casefold())):
        if len(word) >= _LEAST_LETTERS or word.isdecimal() or num_unspaced(word):
            yield word[:_STEM]
