"""The attention of a question and its answer to a scorer's units, and what follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from attribot_rag.context import Ablation, Context
from attribot_rag.context.context import Unit
from attribot_rag.scoring.backend import Patch
from attribot_rag.scoring.engine import Engine
from attribot_rag.scoring.row import masked_row


@dataclass(frozen=True, eq=False)
class Estimates:
    """Estimated effects of a scorer's units: `effects` [num_parts, num_units] in nats.

    `attention` [num_units] is the largest attention weight on each of a unit's tokens, summed over
    them, heads and layers.
    """

    effects: Tensor
    attention: list[float]


@dataclass(frozen=True, eq=False)
class UnitAttention:
    """The effects of units on the response by gradients, and the attention weights on them."""

    engine: Engine
    context: Context
    units: Sequence[Unit]

    def patched(
        self, parts: Sequence[Sequence[int]], gates: int = 1, *, located: bool = False
    ) -> Estimates | None:
        """Estimated effects of each unit on each part of the response; parts are response tokens.

        The attention of question and response to a unit is removed from each attention head, and
        the log-likelihood follows to first order (attribution patching): a forward pass, and a
        backward pass for each part. With several `gates` the attention to all units is scaled
        by as many factors between 0 and 1, in rows of one pass, and derivatives are averaged along
        that way (integrated gradients, arXiv 1703.01365), which sees effects that saturate. If they
        are `located`, there is one backward pass: an effect counts for the part whose tokens attend
        to the unit, one through the question's tokens for each part; the ranks are nearly the same.
        None beyond the budget, and if it does not fit into memory.
        """
        progress = self.engine.session.progress
        progress.expect(gates)
        row = masked_row(self.context, self.engine.generation, Ablation(), "question")
        num_prompt = len(self.engine.generation.prompt_ids)
        members = np.zeros((num_prompt, len(self.units)), dtype=np.float32)
        for index, unit in enumerate(self.units):
            members[self.context.hidden_tokens(Ablation.of(*unit)), index] = 1.0
        members[row.positions[0] :] = 0.0  # tokens that are encoded again are in no cache
        factors = tuple((2 * i + 1) / (2 * gates) for i in range(gates)) if gates > 1 else ()
        patch = Patch(torch.from_numpy(members), parts, factors, located)
        effects = self.engine.observed(
            lambda seen: seen.effects(row, patch),
            patch.num_rows * row.num_tokens,
            patch.num_backward,
        )
        if effects is None:
            return None
        progress.advance(gates)
        return Estimates(effects.by_part, (effects.weights @ patch.members).tolist())
