"""The cited sources of a sentence, with their measured effects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from attribot_rag.methods.base import Carriers, total
from attribot_rag.methods.order import Order
from attribot_rag.methods.part_losses import PartLosses
from attribot_rag.result.verdict import Relation

Units = Sequence[int]


@dataclass(frozen=True, kw_only=True)
class Citation:
    """The sources that carry a sentence, best first, with their measured effects in nats.

    `effect` is what the sentence loses without them: each by itself, in the sum, or with another
    relation than `each` all at once. `word_effects` are the largest losses of each content word
    without one of them that holds it, and without any. `kept` is the share of the reliance that it
    keeps with them alone, with the first of `either`; None without a reliance. It is shown, and
    decides nothing: `sufficient` says whether they are enough, for each word, too.
    """

    source_ids: tuple[int, ...]
    relation: Relation = "each"
    effect: float
    word_effects: tuple[tuple[float, float], ...] = ()
    kept: float | None = None
    sufficient: bool = True


class Citing:
    """Measures the candidates for the citations of one sentence, and fetches the rows for it."""

    def __init__(self, losses: PartLosses, order: Order) -> None:
        self._losses = losses
        self._evidence = losses.evidence
        self._part = losses.part
        self._words_of = order.words_of
        self._limits = losses.limits

    def citation(self, carriers: Carriers) -> Citation | None:
        """The citation of these carriers, None if there is none."""
        members = carriers.members
        if not members:
            return None
        if carriers.alternatives:
            return self._measured(carriers, (*members, *carriers.alternatives), "either")
        if len(members) == 1:
            if self._is_close(carriers):  # its necessity decides
                self._evidence.fetch_without([members], exact=True)
            return self._measured(carriers, (*members, *carriers.further))
        deciding = tuple(self._deciding(carriers))
        if deciding and self._are_enough(deciding):
            return self._measured(carriers, (*deciding, *carriers.further))
        return self._measured(carriers, members, "together") if carriers.sufficient else None

    def _is_close(self, carriers: Carriers) -> bool:
        """Whether the effect alone decides on the citation, and is near its threshold."""
        limits, reliance = self._limits, self._losses.reliance
        if reliance < limits.min_reliance:
            return True
        effect = self._losses.of(self._evidence.without(carriers.members))
        is_near = limits.cited_share * reliance <= effect < limits.min_effect
        return is_near and not carriers.sufficient

    def _measured(
        self, carriers: Carriers, source_ids: Units, relation: Relation = "each"
    ) -> Citation:
        """The necessity and the sufficiency of the cited sources."""
        evidence = self._evidence
        sets = [(unit,) for unit in source_ids] if relation == "each" else [tuple(source_ids)]
        alone = carriers.members if relation == "either" else source_ids
        evidence.fetch([*map(evidence.ablating, sets), evidence.keeping(alone)])
        return Citation(
            source_ids=tuple(source_ids),
            relation=relation,
            effect=sum(self._losses.of(evidence.without(units)) for units in sets),
            word_effects=tuple(self._word_effects(source_ids)),
            kept=self._kept(alone),
            sufficient=carriers.sufficient,
        )

    def _kept(self, units: Units) -> float | None:
        row, reliance = self._evidence.only(units), self._losses.reliance
        if row is None or reliance <= 0:
            return None
        return min(1.0, max(0.0, 1.0 - self._losses.of(row) / reliance))

    def _word_effects(self, source_ids: Units) -> Iterator[tuple[float, float]]:
        rows = {unit: self._evidence.without([unit]) for unit in source_ids}
        for word, text in zip(self._part.words, self._part.texts, strict=True):
            effects = {unit: total(row, word) for unit, row in rows.items()}
            held = (effects[unit] for unit in source_ids if text in self._words_of(unit))
            yield max(held, default=0.0), max(effects.values())

    def _are_enough(self, deciding: Units) -> bool:
        """Whether the sentence keeps enough with these alone, or loses the rest without them."""
        losses, evidence = self._losses, self._evidence
        most = (1 - self._limits.kept_share) * losses.reliance
        evidence.fetch([evidence.keeping(deciding)])
        row = evidence.only(deciding)
        if row is not None and losses.of(row) <= most:
            return True
        return sum(losses.of(evidence.without([unit])) for unit in deciding) >= most

    def _deciding(self, carriers: Carriers) -> Iterator[int]:
        """The members with words of their own: words that the other members alone lose.

        And that matter at all with all sources in the prompt: what only makes the subject clear
        does not.
        """
        members = carriers.members
        lost = [self._lost_by_others(carriers, member).keys() for member in members]
        for index, member in enumerate(members):
            rest = {word for i, words in enumerate(lost) if i != index for word in words}
            effect = self._losses.of(self._evidence.without([member]))
            if lost[index] - rest and effect >= self._limits.min_word:
                yield member

    def _lost_by_others(self, carriers: Carriers, member: int) -> dict[int, float]:
        """The words that the other members alone lose, with the losses in nats.

        If no search asked for that row, it is the row with the units beside which the member is
        needed, or with all other units: more units cannot lose what fewer keep.
        """
        only = self._evidence.only_as_asked
        others = tuple(unit for unit in carriers.members if unit != member)
        row = only(others) or only(carriers.beside.get(member, others))
        return self._losses.words(row or self._evidence.without([member]))
