"""The results of scoring."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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
