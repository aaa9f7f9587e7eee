"""The sources that carry a sentence where no single source explains its context reliance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from attribot_rag.attribution.verdict import Relation
from attribot_rag.verdicts.joint import JointEffects
from attribot_rag.verdicts.options import VerdictOptions


@dataclass(frozen=True)
class Group:
    """Source ids and their joint effect on the sentence, in nats.

    `either`: any of the sources alone suffices; `together`: only all of them do; `each`: the only
    source that suffices alone.
    """

    source_ids: tuple[int, ...]
    effect: float
    relation: Relation


def find_group(
    joint: JointEffects,
    candidates: Sequence[int],
    tokens: Sequence[int],
    figures: Sequence[int] = (),
    *,
    needed: float,
    options: VerdictOptions,
) -> Group | None:
    """The candidates that carry these tokens, if their joint effect is at least `needed` nats.

    Members are the sources that restore most when they alone are left of the candidates, as few as
    have a joint effect of `needed`. A member suffices if the sentence loses at most `stands_share`
    of the joint effect when all other members are removed; and so do its numbers, whose tokens are
    `figures`, because a unit may stand in sources that say something else. Members that suffice are
    `either`; if no member suffices, all are needed `together`. Members are chosen by masked
    ablation. Their joint effect is scored exactly and must be half of `needed`, and twice
    `min_reliance` where all are needed, because sources that only set the tone are no cause.

    None if no group has this effect, or if the budget runs out. Scores at most one row for each
    candidate and a few for each member, however many sources there are.
    """
    members = _members(joint, candidates, tokens, needed, options.max_group)
    while members:
        (effect,) = joint.exact([members], tokens)
        others = [_others(members, [member]) for member in members]
        losses = joint.exact(others, tokens)
        if effect is None or None in losses:
            return None
        if len(members) == 1:
            return Group(tuple(members), effect, "each")
        of_figures = joint.exact([members], figures)[0] or 0.0
        lost_figures = joint.exact(others, figures)
        sufficient = [
            member
            for member, loss, lost in zip(members, losses, lost_figures, strict=True)
            if loss is not None
            and loss <= options.stands_share * effect
            and (lost or 0.0) <= options.stands_share * max(0.0, of_figures)
        ]
        if len(sufficient) == len(members):
            return Group(tuple(members), effect, "either") if effect >= needed / 2 else None
        if not sufficient:
            least = max(needed / 2, 2 * options.min_reliance)
            return Group(tuple(members), effect, "together") if effect >= least else None
        # The joint effect may be smaller without the members that do not suffice.
        members = sufficient
    return None


def _members(
    joint: JointEffects,
    candidates: Sequence[int],
    tokens: Sequence[int],
    needed: float,
    max_group: int,
) -> list[int]:
    """The fewest candidates with the needed joint effect, best first; empty beyond the budget."""
    (whole,) = joint.approximate([candidates], tokens)
    if whole is None or whole < needed:
        return []
    losses = joint.approximate([_others(candidates, [kept]) for kept in candidates], tokens)
    lost = {
        source: loss for source, loss in zip(candidates, losses, strict=True) if loss is not None
    }
    order = sorted(lost, key=lambda source: lost[source])
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
    """The members without those that the needed joint effect does not depend on."""
    for member in reversed(members):
        (effect,) = joint.approximate([_others(members, [member])], tokens)
        if effect is not None and effect >= needed:
            members = _others(members, [member])
    return members


def _others(candidates: Sequence[int], kept: Sequence[int]) -> list[int]:
    return [source for source in candidates if source not in kept]
