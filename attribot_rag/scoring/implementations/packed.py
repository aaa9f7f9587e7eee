"""Scores many rows in a single forward pass that shares the prefix cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import ClassVar

import torch
from torch import Tensor
from transformers import PreTrainedModel

from attribot_rag.scoring.attention.attention import (
    Attended,
    Observer,
    PackedLayout,
    View,
    packed_layout,
)
from attribot_rag.scoring.attention.patching import GatedAttention
from attribot_rag.scoring.base import ATTENTION_LAYERS, PACKED_ATTENTION, Reduction, Unsupported
from attribot_rag.scoring.implementations.cropped import CachedImplementation
from attribot_rag.scoring.log_likelihoods import Effects, Patch
from attribot_rag.scoring.row import Row


@dataclass(eq=False)
class KeyWeights:
    """Collects attention weights on each position of the cache: `values` [num_prompt_tokens].

    Sums, over heads and layers, the 'largest' weight from any token of the rows, or the 'total'
    over them.
    """

    values: Tensor
    reduction: Reduction
    differentiable = False

    def gate(self, view: View) -> None:
        return None

    def see(self, attended: Attended) -> None:
        for keys in attended.view.cached:
            weights = attended.weights(keys)
            reduced = weights.amax(1) if self.reduction == "largest" else weights.sum(1)
            self.values[slice(*keys.interval)] += reduced.sum(0).to(self.values.device)

    def pass_on(self, output: Tensor) -> Tensor:
        return output


class Packed(CachedImplementation):
    """Rows end to end in a sequence: large matrices for the linear layers, no padding."""

    name: ClassVar[str] = "packed"
    attention: ClassVar[str | None] = PACKED_ATTENTION
    sees_weights: ClassVar[bool] = True
    packs_rows: ClassVar[bool] = True

    @classmethod
    def refusal(cls, model: PreTrainedModel, num_tokens: int) -> str | None:
        config = model.config.get_text_config(decoder=True)
        if not getattr(model, "_supports_attention_backend", False):
            return "its attention cannot be replaced through transformers' AttentionInterface"
        recurrent = set(getattr(config, "layer_types", None) or ()) - ATTENTION_LAYERS
        if recurrent:
            return f"it has layers of the types {', '.join(sorted(recurrent))}"
        limit = getattr(config, "floor_scale", None)  # Llama 4 tunes queries by their index
        if getattr(config, "attn_temperature_tuning", False) and limit and num_tokens > limit:
            return f"its queries depend on their place in the input beyond {limit} tokens"
        return super().refusal(model, num_tokens)

    def _on_cache(self, rows: Sequence[Row], observer: Observer | None = None) -> Tensor:
        ends = list(accumulate(row.num_tokens for row in rows))
        scored = torch.arange(-len(self._targets), 0) + torch.tensor(ends)[:, None]
        return self._target_log_probabilities(self._run(rows, observer, scored.flatten()))

    def weights(self, row: Row, reduction: Reduction) -> Tensor:
        weights = KeyWeights(torch.zeros(len(self.generation.prompt_ids)), reduction)
        self._run([row], weights, torch.tensor([row.num_tokens - 1]))
        return weights.values

    def effects(self, row: Row, patch: Patch) -> Effects:
        with torch.inference_mode(False), torch.enable_grad():
            patch = replace(patch, members=patch.members.to(self.device))
            rows = [row] * patch.num_rows
            observer = GatedAttention.of(patch, row.num_tokens)
            responses = self._on_cache(rows, observer)
            return observer.effects(responses, patch)

    def _run(self, rows: Sequence[Row], observer: Observer | None, scored: Tensor) -> Tensor:
        """The logits at some tokens of the sequence."""
        layout = PackedLayout.of(rows, self.prompt_cache, observer)
        ids = [token_id for row in rows for token_id in row.token_ids]
        with packed_layout(layout):
            logits = self._logits(
                scored.to(self.device),
                attention_mask=torch.ones(1, len(ids)).long().to(self.device),
                use_cache=False,
                **self._inputs(ids, layout.positions.tolist()),
            )
        num_layers = self.twin.config.get_text_config(decoder=True).num_hidden_layers
        if len(layout.layers_seen) != num_layers:
            raise Unsupported(
                f"{len(layout.layers_seen)} of its {num_layers} layers attend through "
                "transformers' AttentionInterface"
            )
        self.scored_tokens += len(ids)
        return logits
