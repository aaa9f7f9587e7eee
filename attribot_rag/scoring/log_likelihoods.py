"""The results of scoring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LogLikelihoods:
    """Log-probabilities in nats of each response token.

    `full` [num_response_tokens] is the baseline with nothing removed, `ablated` [num_ablations,
    num_response_tokens]; both are NaN where the budget ran out. `in_step` says for each ablation
    that was scored whether its text was removed exactly.
    """

    full: Matrix
    ablated: Matrix
    in_step: tuple[bool, ...]

    @property
    def scored(self) -> tuple[bool, ...]:
        """For each ablation whether it was scored."""
        return tuple(bool(np.isfinite(row).all()) for row in self.ablated)

    @property
    def changes(self) -> list[tuple[float, ...] | None]:
        """For each ablation the drop of each token's log-likelihood in nats, None if not scored."""
        return [
            tuple((self.full - row).tolist()) if scored else None
            for row, scored in zip(self.ablated, self.scored, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class Patch:
    """Units whose attention is patched, for each part of a response.

    `members` [num_prompt_tokens, num_units] holds 1 where a token is of a unit; `parts` are
    response tokens. With `factors`, the attention weights of all units are scaled by each in a row
    of its own, and the effect is the mean of the derivatives by a unit's own factor; without, it is
    that of removing the unit from each head.

    If it is `located`, only the whole response is differentiated: the attention with which a
    response token is predicted counts for its part, that of the question's tokens for each part.
    """

    members: Tensor
    parts: Sequence[Sequence[int]]
    factors: tuple[float, ...] = ()
    located: bool = False

    def values(self, responses: Tensor) -> list[Tensor]:
        """The sums that are differentiated, of log-likelihoods [num_rows, num_response_tokens]."""
        if self.located:
            return [responses.sum()]
        return [responses[:, list(part)].sum() for part in self.parts]

    def located_in(self, row_length: int, num_response_tokens: int) -> Tensor:
        """[num_parts, row_length]: 1 where a token's attention counts for a part."""
        first = row_length - num_response_tokens  # it predicts the response's first token
        counted = torch.zeros(len(self.parts), row_length)
        counted[:, :first] = 1.0
        for index, part in enumerate(self.parts):
            counted[index, [first + token for token in part]] = 1.0
        return counted

    @property
    def num_backward(self) -> int:
        """The number of backward passes through each row."""
        return 1 if self.located else len(self.parts)

    @property
    def num_rows(self) -> int:
        return max(1, len(self.factors))


@dataclass(frozen=True, eq=False)
class Effects:
    """The drop of each part's log-likelihood without each unit, to first order.

    `by_part` [num_parts, num_units] in nats, float32 on the CPU. `weights` [num_prompt_tokens] are
    the attention weights on the prompt's tokens in the last row: the largest from any token of the
    row, summed over heads and layers.
    """

    by_part: Tensor
    weights: Tensor


@dataclass(frozen=True, eq=False)
class Estimates:
    """Estimated effects of a scorer's units: `effects` [num_parts, num_units] in nats.

    `attention` [num_units] is the largest attention weight on each of a unit's tokens, summed over
    them, heads and layers.
    """

    effects: Tensor
    attention: list[float]
