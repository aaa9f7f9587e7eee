"""Attention with its log-sum-exp, by the best kernel for the device."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from attribot_rag.context.text import Interval

Attention = tuple[Tensor, Tensor]
"""The output [1, heads, queries, value_dim] and the log-sum-exp [1, heads, queries]."""


@dataclass(frozen=True, eq=False)
class Keys:
    """An interval of keys; with `causal` each query sees a key more than the query before it.

    `mask` [queries, keys] says which query sees which key, None if all see all, and `blind`
    [queries] which sees none, None if each sees any.
    """

    interval: Interval
    causal: bool = False
    mask: Tensor | None = None
    blind: Tensor | None = None

    @classmethod
    def visible(cls, visible: Tensor, first: int, device: torch.device) -> Keys | None:
        """The smallest interval of all keys that any query sees, with masks on the device.

        `visible` [queries, keys] is on the CPU.
        """
        columns = np.flatnonzero(visible.numpy().any(0))
        if not len(columns):
            return None
        start, end = int(columns[0]), int(columns[-1]) + 1
        inside = visible[:, start:end]
        blind = ~inside.numpy().any(1)
        return cls(
            (first + start, first + end),
            mask=None if inside.numpy().all() else inside.to(device),
            blind=torch.from_numpy(blind).to(device) if blind.any() else None,
        )

    def biased(self, scores: Tensor) -> Tensor:
        """The scores, -inf where a query does not see a key."""
        return scores if self.mask is None else scores.masked_fill(~self.mask, float("-inf"))


@dataclass(frozen=True)
class Kernel:
    """Scaled dot-product attention; `softcap` bounds the scores smoothly (Gemma 2)."""

    scaling: float
    softcap: float | None = None

    def attend(self, query: Tensor, key: Tensor, value: Tensor, keys: Keys) -> Attention:
        """The attention of a query [1, heads, queries, head_dim] to these keys.

        key and value [1, key-value heads, all keys, ...]. A query that sees none of the keys has
        the output 0 and a log-sum-exp of -inf.
        """
        key, value = (tensor[:, :, slice(*keys.interval)] for tensor in (key, value))
        if keys.causal:
            groups = query.shape[1] // key.shape[1]
            key, value = (tensor.repeat_interleave(groups, dim=1) for tensor in (key, value))
            return self._run(query, key, value, keys)
        shape = query.shape[:3]
        grouped = query.reshape(1, key.shape[1], -1, query.shape[-1])
        if keys.mask is not None:
            groups = grouped.shape[2] // len(keys.mask)
            blind = None if keys.blind is None else keys.blind.repeat(groups)
            keys = replace(keys, mask=keys.mask.repeat(groups, 1), blind=blind)
        output, log_sum = self._run(grouped, key, value, keys)
        return output.reshape(*shape, -1), log_sum.reshape(shape)

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        """The scaled and capped scores [heads, queries, keys] in float32."""
        scores = torch.bmm(query, key.transpose(1, 2)).float().mul_(self.scaling)
        if self.softcap is not None:
            scores = (scores / self.softcap).tanh() * self.softcap
        return scores

    def _run(self, query: Tensor, key: Tensor, value: Tensor, keys: Keys) -> Attention:
        """PyTorch's public function does not give the log-sum-exp away; these are its kernels."""
        device, width = query.device.type, value.shape[-1]
        is_biased = keys.mask is not None
        is_plain = self.softcap is not None or key.shape[-1] < width
        if device != "cpu":
            is_plain |= device != "cuda" or query.shape[-1] > 256 or is_biased
        if is_plain:
            return self._run_plainly(query, key, value, keys)
        kernels, scale = torch.ops.aten, self.scaling
        if width < key.shape[-1]:
            value = torch.nn.functional.pad(value, (0, key.shape[-1] - width))
        if device == "cpu":
            bias = None
            if is_biased:
                bias = keys.biased(query.new_zeros(1, 1, query.shape[2], key.shape[2]))
            output, log_sum = kernels._scaled_dot_product_flash_attention_for_cpu(
                query, key, value, 0.0, keys.causal, attn_mask=bias, scale=scale
            )
        elif query.dtype in (torch.float16, torch.bfloat16) and query.shape[-1] % 8 == 0:
            output, log_sum, *_ = kernels._scaled_dot_product_flash_attention(
                query, key, value, 0.0, keys.causal, False, scale=scale
            )
        else:
            output, log_sum, *_ = kernels._scaled_dot_product_efficient_attention(
                query, key, value, None, True, 0.0, keys.causal, scale=scale
            )
        return _without_blind(output[..., :width], log_sum[..., : query.shape[2]], keys.blind)

    def _run_plainly(self, query: Tensor, key: Tensor, value: Tensor, keys: Keys) -> Attention:
        scores = self.scores(query[0], key[0])[None]
        if keys.causal:
            mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
            scores = replace(keys, mask=mask).biased(scores)
        else:
            scores = keys.biased(scores)
        log_sum = scores.logsumexp(-1)
        output = (scores - log_sum[..., None]).exp().to(value.dtype) @ value
        return _without_blind(output, log_sum, keys.blind)


def _without_blind(output: Tensor, log_sum: Tensor, blind: Tensor | None) -> Attention:
    """The output 0 and the log-sum-exp -inf for queries that see no key."""
    if blind is None:
        return output, log_sum
    return output.masked_fill(blind[:, None], 0.0), log_sum.masked_fill(blind, float("-inf"))


def attend_at_once(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor, scaling: float
) -> Tensor:
    """Attention [1, heads, queries, value_dim] to all keys, with a `bias` of their scores.

    [groups * queries, keys]: query heads that share keys count as queries, group after group.
    """
    grouped = query.reshape(1, key.shape[1], -1, query.shape[-1])
    output = scaled_dot_product_attention(grouped, key, value, attn_mask=bias, scale=scaling)
    return output.view(*query.shape[:3], -1)


def merge(left: Tensor, left_log_sum: Tensor, right: Tensor, right_log_sum: Tensor) -> Attention:
    """Attention over two sets of keys from the attention over each and their log-sum-exps."""
    weight = torch.sigmoid(right_log_sum - left_log_sum)[..., None]
    merged = torch.lerp(left.to(weight.dtype), right.to(weight.dtype), weight)
    return merged.to(left.dtype), torch.logaddexp(left_log_sum, right_log_sum)
