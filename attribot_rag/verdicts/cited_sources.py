"""The sources that a verdict cites, and documents that might be cited if they were located."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf

from attribot_rag.context import Context
from attribot_rag.context.words import has_words, num_unspaced, words
from attribot_rag.methods import Scores
from attribot_rag.methods.base import Carriers, Part, TokenScores, total
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
            cited = self._of_several(replace(plain, kind="grounded"), members, part)
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

    def _of_several(
        self, grounded: Verdict, members: tuple[int, ...], part: Part
    ) -> Verdict | None:
        """The sources that each decide words, if these are enough; else a group of them, or one.

        A group has the members that add to what the others make of the sentence, or all if these
        are not enough; None if all are not. Where other sources make up for it, the best member is
        cited instead, if it keeps enough alone.
        """
        deciding = tuple(self._deciding(members, part))
        if deciding and self._is_enough(deciding, part, without=[(unit,) for unit in deciding]):
            return replace(grounded, source_ids=deciding)
        self._search.score_without([members])
        if total(self._search.loss_without(members), part.tokens) < self._may_lose(part):
            best = min(members, key=lambda unit: self._loss_with_only([unit], part))
            if self._loss_with_only([best], part) <= self._may_lose(part):
                return replace(grounded, source_ids=(best,))
        strong = tuple(unit for unit in members if self._adds(unit, members, part))
        groups = (units for units in (strong, members) if units)
        group = next((x for x in groups if self._is_enough(x, part, without=[x])), ())
        if len(group) < 2:
            return replace(grounded, source_ids=group) if group else None
        return replace(grounded, kind="redundant", source_ids=group, relation="together")

    def _may_lose(self, part: Part) -> float:
        return (1 - self._options.kept_share) * total(self._search.reliance, part.tokens)

    def _loss_with_only(self, units: Units, part: Part) -> float:
        """The sentence's loss with only these sources; infinite beyond the budget."""
        self._search.score_only([units])
        row = self._search.loss_with_only(units)
        return inf if row is None else total(row, part.tokens)

    def _adds(self, unit: int, members: Units, part: Part) -> bool:
        """Whether a member is worth `min_word` nats beside the others alone."""
        rest = [other for other in members if other != unit]
        added = self._loss_with_only(rest, part) - self._loss_with_only(members, part)
        return not added < self._options.min_word

    def _is_enough(self, cited: Units, part: Part, *, without: Sequence[Units]) -> bool:
        """Whether the sentence keeps enough with these alone, or loses enough without the sets."""
        if self._loss_with_only(cited, part) <= self._may_lose(part):
            return True
        self._search.score_without(without)
        rows = [self._search.loss_without(units) for units in without]
        return sum(total(row, part.tokens) for row in rows) >= self._may_lose(part)

    def _deciding(self, members: Units, part: Part) -> Iterator[int]:
        """The members that decide words of their own.

        These are words that only the other members lose, if the member matters at all with all
        sources in the prompt: what only makes the subject clear does not. Or the member is worth
        `min_own` nats there to words to which no other is worth more.
        """
        lost = [self._search.lost_by_others(part, member, members).keys() for member in members]
        nothing = (0.0,) * len(self._search.reliance)
        without = [self._search.loss_without([member]) or nothing for member in members]
        for index, member in enumerate(members):
            rest = {word for i, words in enumerate(lost) if i != index for word in words}
            is_worth = total(without[index], part.tokens) >= self._options.min_word
            own = self._own(index, without, part)
            if (lost[index] - rest and is_worth) or own >= self._options.min_own:
                yield member

    def _own(self, index: int, rows: Sequence[TokenScores], part: Part) -> float:
        """The worth of row `index` to words that rely on the context, and to no other row more."""
        own = 0.0
        for word in part.words:
            worth = [total(row, word) for row in rows]
            if total(self._search.reliance, word) >= self._options.min_word:
                own += max(0.0, worth[index]) * (worth[index] == max(worth))
        return own

    def is_needed(self, cited: Verdict, part: Part) -> bool:
        """Whether the sentence, or one of its words, loses enough without the cited sources."""
        options, effect = self._options, cited.effect or 0.0
        if cited.kind == "redundant":
            return effect >= options.min_reliance
        if effect < options.cited_share * (cited.reliance or 0.0):
            return False
        if effect >= options.min_effect:
            return True
        rows = [self._search.loss_without([unit]) for unit in cited.source_ids]
        of_words = (total(row, word) for row in rows for word in part.words)
        return any(of_word >= options.min_word_effect for of_word in of_words)

    def is_warranted(
        self, cited: Verdict, part: Part, carried: Carriers, *, least: float, is_invented: bool
    ) -> bool:
        """Whether the sentence needs the cited sources, or they suffice and it relies on them.

        It relies on them if its reliance is at least `least`; below twice that, only if the model
        expects each content word. With invented numbers, only a source that it needs may be cited.
        """
        is_needed, reliance = self.is_needed(cited, part), cited.reliance or 0.0
        if is_needed and cited.kind == "grounded":
            return True
        if is_invented or (reliance < 2 * least and any(map(self._is_unexpected, part.words))):
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
