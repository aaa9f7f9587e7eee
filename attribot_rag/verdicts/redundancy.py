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

    A source suffices if the sentence stands with it alone, all other candidates taken out: if it
    then loses at most `stands_share` of what it loses without any candidate. Several that suffice
    are `either`; where none does, the fewest that do so `together` are looked for, best first.
    What is found by masked ablation is scored exactly at last: several sources must be worth half
    of `needed` then, and each that suffices must do so by exact ablation too. None if
    nothing is found, or if the budget runs out on the way. At most two rows for each candidate and
    a few more are scored, however many sources there are.
    """
    (whole,) = joint.approximate([candidates], tokens)
    if whole is None or whole < needed:
        return None
    alone = joint.approximate([_others(candidates, [one]) for one in candidates], tokens)
    lost = {one: loss for one, loss in zip(candidates, alone, strict=True) if loss is not None}
    if len(lost) < len(candidates):
        return None
    sufficient = [one for one in candidates if lost[one] <= options.stands_share * whole]
    if sufficient:
        best = sorted(sufficient, key=lambda one: lost[one])[: options.max_group]
        return _either(joint, best, tokens, needed, options)
    # Best first: by what a source adds when it comes first, and by what is lost when it goes first.
    single = joint.approximate([[one] for one in candidates], tokens)
    effects = {one: effect or 0.0 for one, effect in zip(candidates, single, strict=True)}
    order = sorted(candidates, key=lambda one: lost[one] - effects[one])
    for size in range(2, min(options.max_group, len(order)) + 1):
        kept = order[:size]
        (loss,) = joint.approximate([_others(candidates, kept)], tokens)
        if loss is None:
            return None
        if loss <= options.stands_share * whole:
            (effect,) = joint.exact([kept], tokens)
            confirmed = effect is not None and effect >= needed / 2
            return Group(tuple(kept), effect or 0.0, "together") if confirmed else None
    return None


def _either(
    joint: JointEffects,
    members: list[int],
    tokens: Sequence[int],
    needed: float,
    options: VerdictOptions,
) -> Group | None:
    """The members that suffice alone by exact ablation too, the most effective first."""
    (effect,) = joint.exact([members], tokens)
    if effect is None:
        return None
    if len(members) == 1:
        return Group(tuple(members), effect, "each")
    losses = joint.exact([_others(members, [one]) for one in members], tokens)
    standing = [
        one
        for one, loss in zip(members, losses, strict=True)
        if loss is not None and loss <= options.stands_share * effect
    ]
    if len(standing) == len(members):
        return Group(tuple(members), effect, "either") if effect >= needed / 2 else None
    # Without the members that do not suffice, those that do may be worth less.
    return _either(joint, standing, tokens, needed, options) if standing else None


def _others(candidates: Sequence[int], kept: Sequence[int]) -> list[int]:
    return [one for one in candidates if one not in kept]
