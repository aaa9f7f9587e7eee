"""The losses of one part of a response, and whether sources suffice for it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from attribot_rag.methods.base import Part, TokenScores, total
from attribot_rag.methods.evidence import Evidence
from attribot_rag.methods.limits import Limits


@dataclass(frozen=True)
class PartLosses:
    """The losses of a part, and of its content words, in rows of the evidence, in nats.

    It asks for no rows. Without a row, the part is taken to lose its whole reliance.
    """

    part: Part
    evidence: Evidence
    limits: Limits

    @property
    def reliance(self) -> float:
        return total(self.evidence.reliance, self.part.tokens)

    @property
    def may_be_cited(self) -> bool:
        """Whether the reliance is not too low, where it is limited for each token."""
        least = self.limits.min_per_token
        return not least or self.reliance >= least * len(self.part.tokens)

    @property
    def matters(self) -> bool:
        """Whether the context matters to the part, or to a word of it."""
        least, row = self.limits.min_sought, self.evidence.reliance
        return any(total(row, own) >= least for own in self.part.each)

    def of(self, row: TokenScores | None) -> float:
        """The loss of the part in a row, 0 for None."""
        return total(row, self.part.tokens)

    def with_only(self, units: Collection[int]) -> float:
        """The loss of the part with only these units."""
        return self.of(self.evidence.only(units) or self.evidence.reliance)

    def words(self, row: TokenScores | None, beside: Collection[int] = ()) -> dict[int, float]:
        """The loss of each word that the part does not keep in a row, counted from all sources.

        A word keeps `kept_word` of its reliance, or loses `min_word` at most. In the place of the
        units `beside`, it has to keep as much as a part does (`kept_share`), of what these make of
        it if that is more.
        """
        row, limits = row or self.evidence.reliance, self.limits
        other = self.evidence.only(beside) if beside else None
        share = limits.kept_share if beside else limits.kept_word
        lost = {}
        for index, word in enumerate(self.part.words):
            least = min(0.0, total(other, word))
            worth = total(self.evidence.reliance, word) - least
            loss = total(row, word) - least
            if worth >= limits.min_word and loss > max(limits.min_word, (1 - share) * worth):
                lost[index] = loss
        return lost

    def keeps(self, row: TokenScores | None, share: float | None = None) -> bool:
        """Whether the part keeps this share of its reliance, and each word its own, in a row."""
        most = 1 - (share or self.limits.kept_share)
        if self.of(row) > most * self.reliance:
            return False
        return row is None or not self.words(row)

    def irreplaceable(self, units: Iterable[int]) -> list[int]:
        """Those of the units for which all others of the prompt do not make up, by scored rows."""
        rows = {unit: self.evidence.without([unit]) for unit in units}
        return [unit for unit, row in rows.items() if row is not None and not self.keeps(row)]

    def suffice_after_nothing(self, units: Collection[int], held: Collection[str]) -> bool:
        """Whether they preserve the part alone, and each word that they do not hold as it was.

        What stands in them may still be likelier after earlier sentences, as the next of a list.
        """
        row = self.evidence.only_after_nothing(units)
        if row is None or not self.suffice(units):
            return False
        return all(self.part.texts[index] in held for index in self.words(row))

    def suffice(self, units: Collection[int], share: float | None = None) -> bool:
        """Whether these units alone preserve the part, by a scored row."""
        row = self.evidence.only(units)
        return row is not None and self.keeps(row, share)
