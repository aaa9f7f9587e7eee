"""Ablations: what is removed from a prompt."""

from __future__ import annotations

from dataclasses import dataclass

from attribot_rag.context.intervals import Interval


@dataclass(frozen=True)
class Ablation:
    """Sources by id, and other characters [start, end) of the decoded prompt."""

    source_ids: frozenset[int] = frozenset()
    characters: tuple[Interval, ...] = ()

    @classmethod
    def of(cls, *source_ids: int) -> Ablation:
        return cls(frozenset(source_ids))

    def __or__(self, other: Ablation) -> Ablation:
        """Both at once."""
        return Ablation(self.source_ids | other.source_ids, self.characters + other.characters)

    def __str__(self) -> str:
        parts = [f"sources {sorted(self.source_ids)}"] if self.source_ids else []
        parts += [f"characters {start} to {end} of the prompt" for start, end in self.characters]
        return " and ".join(parts) or "nothing"
