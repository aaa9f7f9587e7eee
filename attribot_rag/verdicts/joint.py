"""Joint ablations of sources, each scored once for all sentences of an answer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from attribot_rag.context import Ablation
from attribot_rag.methods.base import TokenScores
from attribot_rag.scoring import Scorer

Ids = frozenset[int]


class JointEffects:
    """The effects of removing several sources at once on the response tokens, in nats.

    Groups are searched by masked ablation, where the architecture allows it, and confirmed by exact
    ablation. A scored row serves every sentence. `known` are exact rows of single sources, by id.
    """

    def __init__(self, scorer: Scorer, known: Mapping[int, TokenScores]) -> None:
        self._scorer = scorer
        self._masked = scorer.masked_refusal is None
        self._exact_rows: dict[Ids, TokenScores] = {
            frozenset([source]): row for source, row in known.items()
        }
        self._masked_rows: dict[Ids, TokenScores] = {}

    def approximate(
        self, groups: Iterable[Collection[int]], tokens: Sequence[int]
    ) -> list[float | None]:
        """The effect of each group on some tokens, by masked ablation where it is available.

        None for a group that the budget did not allow. An empty group has no effect.
        """
        rows = self._masked_rows if self._masked else self._exact_rows
        return self._effects(groups, tokens, rows, masked=self._masked)

    def exact(self, groups: Iterable[Collection[int]], tokens: Sequence[int]) -> list[float | None]:
        """The same, by exact ablation."""
        return self._effects(groups, tokens, self._exact_rows, masked=False)

    def _effects(
        self,
        groups: Iterable[Collection[int]],
        tokens: Sequence[int],
        rows: dict[Ids, TokenScores],
        *,
        masked: bool,
    ) -> list[float | None]:
        wanted = [frozenset(group) for group in groups]
        new = [group for group in dict.fromkeys(wanted) if group and group not in rows]
        if new:
            ablations = [Ablation(group) for group in new]
            scored = self._scorer.score(ablations, recompute="question" if masked else None)
            rows.update(
                (group, row)
                for group, row in zip(new, scored.changes, strict=True)
                if row is not None
            )
        return [_total(rows, group, tokens) for group in wanted]


def _total(rows: Mapping[Ids, TokenScores], group: Ids, tokens: Sequence[int]) -> float | None:
    if not group:
        return 0.0
    row = rows.get(group)
    return None if row is None else sum(row[i] for i in tokens)
