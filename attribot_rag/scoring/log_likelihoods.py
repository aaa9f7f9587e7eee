"""What scoring gives back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LogLikelihoods:
    """Log-probabilities in nats of each response token.

    `full` [num_response_tokens] with nothing removed, `ablated` [num_ablations,
    num_response_tokens], both NaN for what the budget left undone; `in_step` says of each
    ablation whether its text was removed exactly.
    """

    full: Matrix
    ablated: Matrix
    in_step: tuple[bool, ...]

    @property
    def scored(self) -> tuple[bool, ...]:
        """Which ablations were scored."""
        return tuple(bool(np.isfinite(row).all()) for row in self.ablated)

    @property
    def changes(self) -> list[tuple[float, ...] | None]:
        """For each ablation how much more likely each token is without it being taken out."""
        return [
            tuple((self.full - row).tolist()) if scored else None
            for row, scored in zip(self.ablated, self.scored, strict=True)
        ]
