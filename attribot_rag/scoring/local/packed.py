"""Many rows in a single forward pass that shares the prefix cache; what its attention shows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, chain
from typing import ClassVar

import torch
from torch import Tensor
from transformers import PreTrainedModel

from attribot_rag.scoring.backend import Attention, Effects, Patch, Unsupported
from attribot_rag.scoring.local.cropped import CachedPrefix
from attribot_rag.scoring.local.packed_attention import (
    Attended,
    Observer,
    PackedLayout,
    View,
    packed_layout,
)
from attribot_rag.scoring.local.prefix import PACKED_ATTENTION
from attribot_rag.scoring.memory import ATTENTION_LAYERS
from attribot_rag.scoring.row import Row

_MOST_AT_ONCE = 1 << 22  # pairs of a token and a key: its mask takes memory
_LEAST = 1e-4  # of the weight; where a token attends to nothing else, the estimate stays finite


class GatedAttention:
    """Observes attention with its gradients, while the cache's keys are gated row by row.

    `gates` [num_prompt_tokens] are the logarithms of the factors of each key's weight, one for each
    of the rows, which have `row_length` tokens; without gates there is one row.
    """

    def __init__(self, row_length: int, gates: Sequence[Tensor] = ()) -> None:
        self._row_length = row_length
        self._gates = gates
        self._attended: list[Attended] = []
        # of each layer, with a zero that was added to its output, for its gradient
        self._layers: list[tuple[list[Attended], Tensor]] = []

    @classmethod
    def of(cls, patch: Patch, row_length: int) -> GatedAttention:
        """With the keys of all units gated by the patch's factors."""
        units = patch.members.any(1)
        return cls(row_length, [units * math.log(factor) for factor in patch.factors])

    def gate(self, view: View) -> Tensor | None:
        return self._gates[self._row(view)] if self._gates else None

    def _row(self, view: View) -> int:
        return view.queries[0] // self._row_length

    def see(self, attended: Attended) -> None:
        self._attended.append(
            replace(
                attended,
                query=attended.query.detach(),
                output=attended.output.detach(),
                log_sum=attended.log_sum.detach(),
            )
        )

    def pass_on(self, output: Tensor) -> Tensor:
        added = torch.zeros_like(output, requires_grad=True)
        self._layers.append((self._attended, added))
        self._attended = []
        return output + added

    def effects(self, responses: Tensor, patch: Patch) -> Effects:
        """The drop of each part's log-likelihood without each unit's keys.

        `responses` [num_rows, num_response_tokens] are log-likelihoods. To first order: a head's
        output at a token is o = sum of w v over all keys, with weights w and values v. A factor on
        the weights of a unit's keys, which are normalised again, moves it along `moved` = the sum
        of w (v - o) over these keys. With g the gradient by the output, that is
        g·(sum of w v) - share (g·o), with `share` the unit's part of the weight. Without the keys,
        o moves by as much divided by the others' weight, 1 - share (attribution patching with the
        softmax as it is: AtP*, section 3.1, arXiv 2403.00745). With gates, factors on all units at
        once, it is the derivative by the factor, averaged over them.
        """
        values = patch.values(responses)
        added = [zero for _, zero in self._layers]
        gradients = [
            torch.autograd.grad(value, added, retain_graph=index + 1 < len(values))
            for index, value in enumerate(values)
        ]
        num_keys, num_units = patch.members.shape
        by_part = patch.members.new_zeros(len(patch.parts), num_units)
        located = patch.located_in(self._row_length, responses.shape[1]).to(by_part)
        largest = patch.members.new_zeros(num_keys)
        for index, (layer, _) in enumerate(self._layers):
            gradient = torch.cat([of_value[index] for of_value in gradients]).transpose(1, 2)
            for attended in layer:
                queries = slice(*attended.view.queries)
                effect = self._effect(attended, gradient[:, :, queries].float(), patch, largest)
                if patch.located:
                    first = attended.view.queries[0] % self._row_length
                    by_part += located[:, first : first + effect.shape[1]] @ effect[0]
                else:
                    by_part += effect.sum(1)
        return Effects(by_part.cpu(), largest.cpu())

    def _effect(
        self, attended: Attended, gradient: Tensor, patch: Patch, largest: Tensor
    ) -> Tensor:
        """Effects of units through each token, summed over heads: [values, tokens, units].

        `gradient` [values, heads, tokens, value_dim]. Adds the last row's largest weights to
        `largest`.
        """
        num_values, num_heads, num_tokens, width = gradient.shape
        num_units, row = patch.members.shape[1], self._row(attended.view)
        share = gradient.new_zeros(num_heads, num_tokens, num_units)
        moved = gradient.new_zeros(num_values, num_heads, num_tokens, num_units)
        for keys in attended.view.cached:
            weights = attended.weights(keys)
            value = attended.value[0, :, slice(*keys.interval)].float()
            grouped = gradient.reshape(num_values, len(value), -1, width)
            along = (grouped @ value.transpose(-1, -2)).view(num_values, *weights.shape)
            of_keys = patch.members[slice(*keys.interval)].to(weights)
            share += weights @ of_keys
            moved += along.mul_(weights) @ of_keys
            if row == patch.num_rows - 1:
                largest[slice(*keys.interval)] += weights.amax(1).sum(0)
        output = (gradient * attended.output[0].float()).sum(-1, keepdim=True)
        effect = moved - share * output
        if not patch.factors:
            effect = effect / (1.0 - share).clamp_min(_LEAST)
            return effect.sum(1)
        return effect.sum(1) / (patch.factors[row] * len(patch.factors))


class Packed(CachedPrefix):
    """Rows end to end in a sequence: large matrices for the linear layers, no padding.

    Where a pass is worth tokens, small ones attend to all keys in one operation a layer.
    """

    name: ClassVar[str] = "packed"
    attention_function: ClassVar[str | None] = PACKED_ATTENTION
    packs_rows: ClassVar[bool] = True

    @classmethod
    def refusal(cls, model: PreTrainedModel, num_tokens: int) -> str | None:
        config = model.config.get_text_config(decoder=True)
        if not getattr(model, "_supports_attention_backend", False):
            return "its attention cannot be replaced through transformers' AttentionInterface"
        others = set(getattr(config, "layer_types", None) or ()) - ATTENTION_LAYERS
        if others:
            return f"it has layers of the types {', '.join(sorted(others))}"
        limit = getattr(config, "floor_scale", None)  # Llama 4 tunes queries by their index
        if getattr(config, "attn_temperature_tuning", False) and limit and num_tokens > limit:
            return f"its queries depend on their place in the input beyond {limit} tokens"
        return super().refusal(model, num_tokens)

    def on_cache(self, rows: Sequence[Row], observer: Observer | None = None) -> Tensor:
        ends = accumulate(row.num_tokens for row in rows)
        counts = (len(row.targets(self.generation)) for row in rows)
        spans = (range(end - count, end) for end, count in zip(ends, counts, strict=True))
        scored = torch.tensor([*chain.from_iterable(spans)])
        return self.target_log_probabilities(self._run(rows, observer, scored), rows)

    @property
    def attention(self) -> Attention | None:
        return None if self.masked_refusal else self

    def effects(self, row: Row, patch: Patch) -> Effects:
        self.read()
        with torch.inference_mode(False), torch.enable_grad():
            patch = replace(patch, members=patch.members.to(self.device))
            rows = [row] * patch.num_rows
            observer = GatedAttention.of(patch, row.num_tokens)
            responses = self.on_cache(rows, observer)
            return observer.effects(responses, patch)

    def _run(self, rows: Sequence[Row], observer: Observer | None, scored: Tensor) -> Tensor:
        """The logits at some tokens of the sequence."""
        ids = [token_id for row in rows for token_id in row.token_ids]
        num_pairs = len(ids) * (len(self.generation.prompt_ids) + len(ids))
        at_once = self.pass_tokens > 0 and num_pairs <= _MOST_AT_ONCE
        layout = PackedLayout.of(rows, self.prompt_cache, observer, at_once=at_once)
        with packed_layout(layout):
            logits = self._logits(
                scored.to(self.device),
                attention_mask=torch.ones(1, len(ids), dtype=torch.long, device=self.device),
                use_cache=False,
                **self._inputs(ids, layout.positions.tolist()),
            )
        num_layers = self.twin.config.get_text_config(decoder=True).num_hidden_layers
        if len(layout.layers_seen) != num_layers:
            raise Unsupported(
                f"{len(layout.layers_seen)} of its {num_layers} layers attend through "
                "transformers' AttentionInterface"
            )
        return logits


class PackedAtOnce(Packed):
    """Packed where passes are dear, for probes."""

    name: ClassVar[str] = "packed at once"
    pass_tokens = 1
