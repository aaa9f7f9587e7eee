"""What attribution patching is asked for, and what it finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True, eq=False)
class Patch:
    """Units whose attention is patched, for each part of a response.

    `members` [num_prompt_tokens, num_units] holds 1 where a token is of a unit; `parts` are
    response tokens. With `factors`, the attention weights of all units are scaled by each in a row
    of its own, and the effect is the mean of the derivatives by a unit's own factor; without, it is
    that of removing the unit from each head.
    """

    members: torch.Tensor
    parts: Sequence[Sequence[int]]
    factors: tuple[float, ...] = ()

    @property
    def num_rows(self) -> int:
        return max(1, len(self.factors))


@dataclass(frozen=True, eq=False)
class Effects:
    """How much less likely each part would be without each unit, to first order.

    `by_part` [num_parts, num_units] in nats, float32 on the CPU. `weights` [num_prompt_tokens] are
    the attention weights on the prompt's tokens in the last row: the largest from any token of the
    row, summed over heads and layers.
    """

    by_part: torch.Tensor
    weights: torch.Tensor


@dataclass(frozen=True, eq=False)
class Estimates:
    """Estimated effects of a scorer's units: `effects` [num_parts, num_units] in nats.

    `attention` [num_units] is the largest attention weight on each of a unit's tokens, summed over
    them, heads and layers.
    """

    effects: torch.Tensor
    attention: list[float]
