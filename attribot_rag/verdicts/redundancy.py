"""Which sources carry a sentence where no single one explains what the context is worth to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from attribot_rag.attribution.verdict import Relation
from attribot_rag.verdicts.joint import JointEffects
from attribot_rag.verdicts.options import VerdictOptions


@dataclass(frozen=True)
class Group:
    """Source ids with what taking all of them out costs the sentence, in nats.

    `either`: with any one of them alone the sentence stands; `together`: only with all of them;
    `each`: the only source that suffices alone.
    """

    source_ids: tuple[int, ...]
    effect: float
    relation: Relation


def find_group(
    joint: JointEffects,
    candidates: Sequence[int],
    tokens: Sequence[int],
    *,
    needed: float,
    options: VerdictOptions,
) -> Group | None:
    """The candidates that carry these tokens, if all of them together are worth `needed` nats.

    Members are the sources that give most back when they alone are left of the candidates, as few
    as together are worth `needed`. A member suffices if the sentence stands with it alone, the
    other members taken out: if it then loses at most `stands_share` of what it loses without any.
    Several that suffice are `either`; where none does, all are needed `together`. Members are found
    by masked ablation; what they are worth is scored exactly, and must be half of `needed`, and
    twice `min_reliance` where all are needed: several that set the tone are no cause.

    None if nothing is found, or if the budget runs out on the way. At most one row for each
    candidate and a few for each member are scored, however many sources there are.
    """
    members = _members(joint, candidates, tokens, needed, options.max_group)
    while members:
        (effect,) = joint.exact([members], tokens)
        losses = joint.exact([_others(members, [one]) for one in members], tokens)
        if effect is None or None in losses:
            return None
        if len(members) == 1:
            return Group(tuple(members), effect, "each")
        most = options.stands_share * effect
        sufficient = [
            one
            for one, loss in zip(members, losses, strict=True)
            if loss is not None and loss <= most
        ]
        if len(sufficient) == len(members):
            return Group(tuple(members), effect, "either") if effect >= needed / 2 else None
        if not sufficient:
            least = max(needed / 2, 2 * options.min_reliance)
            return Group(tuple(members), effect, "together") if effect >= least else None
        # Without the members that do not suffice, those that do may be worth less.
        members = sufficient
    return None


def _members(
    joint: JointEffects,
    candidates: Sequence[int],
    tokens: Sequence[int],
    needed: float,
    max_group: int,
) -> list[int]:
    """The fewest of the candidates that are worth so much together, best first; none if unknown."""
    (whole,) = joint.approximate([candidates], tokens)
    if whole is None or whole < needed:
        return []
    kept = joint.approximate([_others(candidates, [one]) for one in candidates], tokens)
    lost = {one: loss for one, loss in zip(candidates, kept, strict=True) if loss is not None}
    order = sorted(lost, key=lambda one: lost[one])
    for size in range(1, max_group + 1):
        (effect,) = joint.approximate([order[:size]], tokens)
        if effect is None:
            return []
        if effect >= needed:
            return _pruned(joint, order[:size], tokens, needed)
    return []


def _pruned(
    joint: JointEffects, members: list[int], tokens: Sequence[int], needed: float
) -> list[int]:
    """Without the members that are not needed to be worth so much."""
    for one in reversed(members):
        (effect,) = joint.approximate([_others(members, [one])], tokens)
        if effect is not None and effect >= needed:
            members = _others(members, [one])
    return members


def _others(candidates: Sequence[int], kept: Sequence[int]) -> list[int]:
    return [one for one in candidates if one not in kept]
