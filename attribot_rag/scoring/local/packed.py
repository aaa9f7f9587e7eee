"""Many rows in a single forward pass that shares the prefix cache; what its attention shows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, chain
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import PreTrainedModel

from attribot_rag.scoring.backend import Attention, Batching, Effects, Patch, Unsupported
from attribot_rag.scoring.local.cropped import CachedPrefix
from attribot_rag.scoring.local.observed_attention import Observer
from attribot_rag.scoring.local.packed_attention import (
    PackedLayout,
    most_tokens_at_once,
    packed_layout,
)
from attribot_rag.scoring.local.prefix import PACKED_ATTENTION
from attribot_rag.scoring.row import Row

_LEAST = 1e-4  # of the weight; where a token attends to nothing else, the estimate stays finite


class PatchedAttention:
    """Observes the effects of a patch's units, and the attention weights on the prompt.

    `num_rows` rows of `row_length` tokens follow `num_cached` tokens of the prompt. `gates`
    [tokens, keys] are the logarithms of the factors of each key's weight.
    """

    def __init__(
        self, patch: Patch, row_length: int, num_response_tokens: int, num_cached: int
    ) -> None:
        members = patch.members[:num_cached]
        factors = members.new_tensor(patch.factors)
        counted = patch.located_in(row_length, num_response_tokens).to(members)
        self._patch, self._row_length, self._num_cached = patch, row_length, num_cached
        self._members = pad(members, (0, 0, 0, row_length * patch.num_rows))
        self.leaf = members.new_zeros((), requires_grad=True)
        self.gates: Tensor | None = None
        if patch.factors:
            of_rows = factors.log()[:, None] * self._members.any(1)
            self.gates = of_rows.repeat_interleave(row_length, 0)
            shares = 1.0 / (factors * len(factors))
            counted = (counted[:, None] * shares[:, None]).flatten(1)
        self._counted = counted
        self._by_part = members.new_zeros(len(patch.parts), members.shape[1])
        self._largest = members.new_zeros(len(self._members))

    def see(self, weights: Tensor) -> None:
        self._largest += weights[:, -self._row_length :].amax(1).sum(0)

    def see_gradient(self, weights: Tensor, moved: Tensor, mean: Tensor) -> None:
        """Add the effects of units in a layer.

        To first order: a head's output at a token is o = sum of w v over all keys, with weights w
        and values v. A factor on the weights of a unit's keys, which are normalised again, moves it
        along the sum of w (v - o) over these keys. With g the gradient by the output, that is
        g·(sum of w v) - share (g·o), with `share` the unit's part of the weight. Without the keys,
        o moves by as much divided by the others' weight, 1 - share (attribution patching with the
        softmax as it is: AtP*, section 3.1, arXiv 2403.00745). With gates, factors on all units at
        once, it is the derivative by the factor, averaged over them.
        """
        share = weights @ self._members
        effect = moved @ self._members - share * mean
        if not self._patch.factors:
            effect = effect / (1.0 - share).clamp_min(_LEAST)
        self._of_value.addmm_(self._counted_of_value, effect.sum(0))

    def effects(self, responses: Tensor) -> Effects:
        """By a pass back for each value of the log-likelihoods [num_rows, num_response_tokens]."""
        values = self._patch.values(responses)
        for index, value in enumerate(values):
            parts = slice(None) if self._patch.located else slice(index, index + 1)
            self._of_value, self._counted_of_value = self._by_part[parts], self._counted[parts]
            is_last = index + 1 == len(values)
            torch.autograd.grad(value, self.leaf, retain_graph=not is_last, allow_unused=True)
        weights = self._largest.new_zeros(len(self._patch.members))
        weights[: self._num_cached] = self._largest[: self._num_cached]
        return Effects(self._by_part.cpu(), weights.cpu())


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
        limit = getattr(config, "floor_scale", None)  # Llama 4 tunes queries by their index
        if getattr(config, "attn_temperature_tuning", False) and limit and num_tokens > limit:
            return f"its queries depend on their place in the input beyond {limit} tokens"
        return super().refusal(model, num_tokens)

    def score(self, rows: Sequence[Row], observer: Observer | None = None) -> Tensor:
        ends = accumulate(row.num_tokens for row in rows)
        counts = (len(row.targets(self.generation)) for row in rows)
        spans = (range(end - count, end) for end, count in zip(ends, counts, strict=True))
        scored = torch.tensor([*chain.from_iterable(spans)])
        return self.target_log_probabilities(self._run(rows, observer, scored), rows)

    def attend_at_once(self, pass_tokens: int) -> None:
        """Let a pass be worth so many tokens, as far as layers can attend to all keys at once."""
        self.pass_tokens = min(pass_tokens, self._most_at_once)

    def batching(self, token_budget: int | None) -> Batching:
        batching = super().batching(token_budget)
        if not self.pass_tokens:
            return batching
        share, cost = batching.budget / self._most_at_once, batching.cost
        return replace(
            batching, cost=lambda row: max(cost(row), math.ceil(self.num_tokens(row) * share))
        )

    @property
    def _most_at_once(self) -> int:
        config = self.twin.config.get_text_config(decoder=True)
        num_heads = config.num_attention_heads
        num_groups = num_heads // (getattr(config, "num_key_value_heads", None) or num_heads)
        return most_tokens_at_once(len(self.generation.prompt_ids), num_groups)

    @property
    def attention(self) -> Attention | None:
        return None if self.masked_refusal else self

    def effects(self, row: Row, patch: Patch) -> Effects:
        self.read()
        with torch.inference_mode(False), torch.enable_grad():
            patch = replace(patch, members=patch.members.to(self.device))
            observer = self.patched(row, patch)
            return observer.effects(self.score([row] * patch.num_rows, observer))

    def patched(self, row: Row, patch: Patch) -> PatchedAttention:
        """What observes the rows of a patch."""
        num_cached = self.prompt_cache[0].keys.shape[2] if self.prompt_cache else 0
        num_response = len(self.generation.response_ids)
        return PatchedAttention(patch, row.num_tokens, num_response, num_cached)

    def _run(self, rows: Sequence[Row], observer: Observer | None, scored: Tensor) -> Tensor:
        """The logits at some tokens of the sequence."""
        ids = [token_id for row in rows for token_id in row.token_ids]
        at_once = self.pass_tokens > 0
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
