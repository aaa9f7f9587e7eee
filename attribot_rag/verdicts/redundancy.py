"""Which sources carry a sentence together, where no single one does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rapidfuzz import fuzz

from attribot_rag.attribution.verdict import Relation
from attribot_rag.context import Ablation
from attribot_rag.scoring import Scorer

_NUM_LIKELY = 5
_ADDITIVE = 0.7


@dataclass(frozen=True)
class Group:
    """Source ids with what taking all of them out costs the sentence, in nats.

    `either` of them carries the sentence alone, or all contribute a part.
    """

    source_ids: tuple[int, ...]
    effect: float
    either: bool

    @property
    def relation(self) -> Relation:
        if len(self.source_ids) == 1:
            return "each"
        return "either" if self.either else "together"


def find_group(
    scorer: Scorer,
    effects: dict[int, float],
    sentence: str,
    tokens: Sequence[int],
    *,
    needed: float,
    max_group: int,
) -> Group | None:
    """The smallest group found whose joint effect on these tokens is at least `needed` nats.

    Candidates are the sources with the largest `effects` and those most like the sentence. If all
    of them together are worth enough, the group grows by whatever adds most and loses what it does
    not need, by masked ablation where that is available; at last it is scored exactly, and must be
    worth half of `needed` then.
    """
    joint = _Joint(scorer, tokens)
    likely = sorted(effects, key=lambda one: -effects[one])[:_NUM_LIKELY]
    alike = sorted(scorer.context.present, key=lambda one: -_likeness(scorer, one, sentence))
    candidates = list(dict.fromkeys([*likely, *alike[:_NUM_LIKELY]]))
    if not any(effect >= needed for effect, _ in joint.of([candidates])):
        return None
    chosen: list[int] = []
    while len(chosen) < max_group:
        options = [[*chosen, one] for one in candidates if one not in chosen]
        found = joint.of(options)
        if not found:
            return None
        effect, chosen = max(found, key=lambda one: one[0])
        if effect >= needed:
            break
    else:
        return None
    while len(chosen) > 1:
        smaller = joint.of([[one for one in chosen if one != gone] for gone in chosen])
        effect, without = max(smaller, key=lambda one: one[0], default=(0.0, chosen))
        if effect < needed:
            break
        chosen = without
    exact = scorer.score([Ablation.of(*chosen)]).changes[0]
    if exact is None:
        return None
    effect = sum(exact[i] for i in tokens)
    if effect < needed / 2:
        return None
    alone = sum(max(0.0, one) for one, _ in joint.of([[one] for one in chosen]))
    together = max(one for one, _ in joint.of([chosen]))
    ordered = sorted(chosen, key=lambda one: -effects.get(one, 0.0))
    return Group(tuple(ordered), effect, either=alone < _ADDITIVE * together)


class _Joint:
    """Joint effects by masked ablation where that is available; each set is scored once."""

    def __init__(self, scorer: Scorer, tokens: Sequence[int]) -> None:
        self._scorer = scorer
        self._tokens = tokens
        self._known: dict[frozenset[int], float | None] = {}

    def of(self, groups: Iterable[list[int]]) -> list[tuple[float, list[int]]]:
        """Effect in nats and group, of those that the budget allowed."""
        wanted = list(groups)
        new = [one for one in wanted if frozenset(one) not in self._known]
        if new:
            masked = self._scorer.masked_refusal is None
            found = self._scorer.score(
                [Ablation.of(*one) for one in new], recompute="question" if masked else None
            )
            for one, row in zip(new, found.changes, strict=True):
                effect = None if row is None else sum(row[i] for i in self._tokens)
                self._known[frozenset(one)] = effect
        effects = ((self._known[frozenset(one)], one) for one in wanted)
        return [(effect, one) for effect, one in effects if effect is not None]


def _likeness(scorer: Scorer, source_id: int, sentence: str) -> float:
    return fuzz.token_set_ratio(scorer.context.sources[source_id].text, sentence)
