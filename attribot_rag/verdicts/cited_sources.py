"""The sources that a verdict cites: each of them, either of them, or all together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from attribot_rag.methods import Scores
from attribot_rag.methods.base import Carriers, Part, TokenScores, total
from attribot_rag.methods.sufficiency import Sufficiency
from attribot_rag.methods.thresholds import VerdictOptions
from attribot_rag.result import Verdict


class CitedSources:
    """Decides which of the sources that carry a sentence its verdict cites, and by how much."""

    def __init__(self, search: Sufficiency, scores: Scores, options: VerdictOptions) -> None:
        self._search = search
        self._likely = scores.token_log_likelihoods
        self._options = options

    def verdict(self, plain: Verdict, part: Part, carried: Carriers) -> Verdict | None:
        """The verdict that cites the sources that carry the sentence, None if there are none."""
        members, tokens, reliance = carried.members, part.tokens, plain.reliance or 0.0
        if not members:
            return None
        grounded = replace(plain, kind="grounded", source_ids=members)
        if carried.alternatives:
            group = (*members, *carried.alternatives)
            self._search.score_without([group])
            grounded = replace(grounded, kind="redundant", source_ids=group, relation="either")
        elif len(members) > 1:
            cited = tuple(self._deciding(members, part))
            if cited:
                self._search.score_only([cited])
            if cited and self._is_enough(cited, part, reliance):
                grounded = replace(grounded, source_ids=cited)
            else:
                grounded = self._joint(grounded, part)
        elif reliance < self._options.min_reliance:
            self._search.score_without([members], exact=True)  # its necessity decides
        cited = grounded.source_ids
        sets = [cited] if grounded.kind == "redundant" else [(unit,) for unit in cited]
        effect = sum(total(self._search.loss_without(units), tokens) for units in sets)
        alone = members if grounded.relation == "either" else cited
        lost = total(self._search.loss_with_only(alone), tokens)
        kept = min(1.0, 1.0 - lost / reliance) if reliance > 0 else None
        in_part = kept is not None and kept < self._options.kept_share
        return replace(grounded, effect=effect, kept=kept, in_part=in_part)

    def _joint(self, grounded: Verdict, part: Part) -> Verdict:
        """The group of these sources; the best of them, where others make up for the group."""
        members, reliance = grounded.source_ids, grounded.reliance or 0.0
        self._search.score_without([members])
        if not self.is_fair(total(self._search.loss_without(members), part.tokens), reliance):
            self._search.score_only([[unit] for unit in members])
            rows = {unit: self._search.loss_with_only([unit]) for unit in members}
            lost = {unit: total(row, part.tokens) for unit, row in rows.items() if row}
            best = min(lost, key=lambda unit: lost[unit], default=members[0])
            if lost and lost[best] <= self._may_lose(reliance):
                return replace(grounded, source_ids=(best,))
        return replace(grounded, kind="redundant", relation="together")

    def _may_lose(self, reliance: float) -> float:
        return (1 - self._options.kept_share) * reliance

    def is_fair(self, effect: float | None, reliance: float) -> bool:
        """Whether a group is worth what a sentence may lose with sources that suffice."""
        return (effect or 0.0) >= self._may_lose(reliance)

    def _is_enough(self, cited: Sequence[int], part: Part, reliance: float) -> bool:
        """Whether the sentence keeps enough with these alone, or loses enough without them."""
        kept = reliance - total(self._search.loss_with_only(cited), part.tokens)
        lost = sum(total(self._search.loss_without([unit]), part.tokens) for unit in cited)
        return kept >= self._options.kept_share * reliance or lost >= self._may_lose(reliance)

    def _deciding(self, members: Sequence[int], part: Part) -> Iterator[int]:
        """The members that decide words of their own.

        These are words that only the other members lose, if the member matters at all with all
        sources in the prompt: what only makes the subject clear does not. Or the member is worth
        `min_own` nats there to words to which no other is worth more.
        """
        sets = [[other for other in members if other != member] for member in members]
        self._search.score_only(sets)
        lost = [self._search.lost(part, rest).keys() for rest in sets]
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
        rows = [self._search.loss_without([unit]) for unit in cited.source_ids]
        of_words = [max(total(row, word) for row in rows) for word in part.words]
        if effect >= options.min_effect:
            return max(of_words, default=effect) >= options.min_word_effect / 2
        return any(
            of_word >= max(options.min_word_effect, options.cited_share * surprise)
            for of_word, surprise in zip(of_words, self._surprises(part), strict=True)
        )

    def most_reliant(self, part: Part) -> float:
        """The largest reliance of a content word; that of a sentence without any."""
        return max(total(self._search.reliance, own) for own in part.words or (part.tokens,))

    def _surprises(self, part: Part) -> list[float]:
        """The surprise of each content word without the context, in nats."""
        reliance, likely = self._search.reliance, self._likely
        return [total(reliance, word) - total(likely, word) for word in part.words]
