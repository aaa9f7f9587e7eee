"""Attention with its log-sum-exp, by the best kernel for the device."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from attribot_rag.context.intervals import Interval


@dataclass(frozen=True, eq=False)
class Keys:
    """An interval of keys; with `causal` the last query sees all, the one before it one fewer.

    `mask` [queries, keys] says which query sees which key, None if all see all.
    """

    interval: Interval
    causal: bool = False
    mask: torch.Tensor | None = None

    @classmethod
    def visible(cls, visible: torch.Tensor, first: int) -> Keys | None:
        """The smallest interval of all keys that any query sees; `visible` [queries, keys]."""
        columns = visible.any(0).nonzero()
        if not len(columns):
            return None
        start, end = int(columns[0]), int(columns[-1]) + 1
        inside = visible[:, start:end]
        return cls((first + start, first + end), mask=None if bool(inside.all()) else inside)


@dataclass(frozen=True)
class Kernel:
    """Scaled dot-product attention; `softcap` bounds the scores smoothly (Gemma 2).

    With `differentiable` the log-sum-exp has gradients, too, which PyTorch's kernels do not give.
    """

    scaling: float
    softcap: float | None = None
    differentiable: bool = False

    def attend(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        keys: Keys,
        gate: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The output [1, heads, queries, value_dim] and the log-sum-exp [1, heads, queries].

        query [1, heads, queries, head_dim]; key and value [1, key-value heads, all keys, ...].
        A query that sees none of the keys has the output 0 and a log-sum-exp of -inf. `gate` [all
        keys] is added to the scores, which scales the weights before they are normalised.
        """
        if gate is not None:
            gate = gate[slice(*keys.interval)]
        key, value = (tensor[:, :, slice(*keys.interval)] for tensor in (key, value))
        if keys.causal:
            groups = query.shape[1] // key.shape[1]
            key, value = (tensor.repeat_interleave(groups, dim=1) for tensor in (key, value))
            return self._run(query, key, value, causal=True, mask=None, gate=gate)
        shape = query.shape[:3]
        grouped = query.reshape(1, key.shape[1], -1, query.shape[-1])
        mask = keys.mask
        if mask is not None:
            mask = mask.to(query.device).repeat(grouped.shape[2] // len(mask), 1)
        output, log_sum = self._run(grouped, key, value, causal=False, mask=mask, gate=gate)
        return output.reshape(*shape, -1), log_sum.reshape(shape)

    def weights(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        keys: Keys,
        log_sum: torch.Tensor,
        gate: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Attention weights [heads, queries, keys], given the log-sum-exp over all keys.

        No gradients flow through them: every step but the first is in place, since a tensor of this
        size costs more to allocate than to compute.
        """
        grouped = query.reshape(key.shape[1], -1, query.shape[-1])
        scores = self._scores(grouped, key[0, :, slice(*keys.interval)])
        if gate is not None:
            scores += gate[slice(*keys.interval)]
        weights = scores.view(*query.shape[1:3], -1).sub_(log_sum[0, :, :, None]).exp_()
        return weights if keys.mask is None else weights.mul_(keys.mask.to(weights))

    def to_query(
        self, of_scores: torch.Tensor, query: torch.Tensor, key: torch.Tensor
    ) -> torch.Tensor:
        """The gradient by the query [..., queries, head_dim] from that by the scores.

        `of_scores` [..., queries, keys] is the gradient by the scores after scaling and softcap.
        """
        if self.softcap is not None:
            slope = 1.0 - (self._scores(query, key) / self.softcap).square()
            of_scores = of_scores * slope
        return (of_scores.to(key.dtype) @ key) * self.scaling

    def _scores(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        scores = (query @ key.transpose(-1, -2)).float().mul_(self.scaling)
        if self.softcap is not None:
            scores = (scores / self.softcap).tanh() * self.softcap
        return scores

    def _run(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        *,
        causal: bool,
        mask: torch.Tensor | None,
        gate: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """PyTorch's public function does not give the log-sum-exp away; these are its kernels."""
        kernels = torch.ops.aten
        device, scale = query.device.type, self.scaling
        if self.differentiable or self.softcap is not None or key.shape[-1] < value.shape[-1]:
            return self._run_plainly(query, key, value, causal=causal, mask=mask, gate=gate)
        width = value.shape[-1]
        value = torch.nn.functional.pad(value, (0, key.shape[-1] - width))
        if device == "cpu":
            bias = None
            if mask is not None or gate is not None:
                bias = query.new_zeros(1, 1, query.shape[2], key.shape[2])
                bias = bias if gate is None else bias + gate
                bias = bias if mask is None else bias.masked_fill_(~mask, float("-inf"))
            output, log_sum = kernels._scaled_dot_product_flash_attention_for_cpu(
                query, key, value, 0.0, causal, attn_mask=bias, scale=scale
            )
            if mask is not None:
                output, log_sum = _without_blind(output, log_sum, mask)
            return output[..., :width], log_sum
        if device == "cuda" and query.shape[-1] <= 256 and mask is None and gate is None:
            if query.dtype in (torch.float16, torch.bfloat16) and query.shape[-1] % 8 == 0:
                output, log_sum, *_ = kernels._scaled_dot_product_flash_attention(
                    query, key, value, 0.0, causal, False, scale=scale
                )
            else:
                output, log_sum, *_ = kernels._scaled_dot_product_efficient_attention(
                    query, key, value, None, True, 0.0, causal, scale=scale
                )
            return output[..., :width], log_sum[..., : query.shape[2]]
        output, log_sum = self._run_plainly(query, key, value, causal=causal, mask=mask, gate=gate)
        return output[..., :width], log_sum

    def _run_plainly(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        *,
        causal: bool,
        mask: torch.Tensor | None,
        gate: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        scores = self._scores(query, key)
        if gate is not None:
            scores = scores + gate
        if causal:
            mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        log_sum = scores.logsumexp(-1)
        output = (scores - log_sum[..., None]).exp().to(value.dtype) @ value
        return (output, log_sum) if mask is None else _without_blind(output, log_sum, mask)


def _without_blind(
    output: torch.Tensor, log_sum: torch.Tensor, mask: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """What comes of queries that see no key."""
    blind = ~mask.any(1)
    if not bool(blind.any()):
        return output, log_sum
    return (
        output.masked_fill(blind[:, None], 0.0),
        log_sum.masked_fill(blind, float("-inf")),
    )


def merge(
    left: torch.Tensor, left_log_sum: torch.Tensor, right: torch.Tensor, right_log_sum: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention over two sets of keys from the attention over each and their log-sum-exps."""
    weight = torch.sigmoid(right_log_sum - left_log_sum)[..., None]
    merged = torch.lerp(left.to(weight.dtype), right.to(weight.dtype), weight)
    return merged.to(left.dtype), torch.logaddexp(left_log_sum, right_log_sum)


@dataclass(frozen=True, eq=False)
class _Given:
    """What gradients do not flow to; `key` and `value` may be inference tensors."""

    kernel: Kernel
    key: torch.Tensor
    value: torch.Tensor
    keys: Keys
    gate: torch.Tensor | None


def attend_recomputed(
    kernel: Kernel,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    keys: Keys,
    gate: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`kernel.attend`, differentiable by the query only.

    The backward pass takes the weights anew from the log-sum-exp, as FlashAttention's does (section
    3.1, arXiv 2205.14135): kept for all layers they would be many times what else is kept.
    """
    return _Attention.apply(query, _Given(kernel, key, value, keys, gate))  # type: ignore[no-any-return, no-untyped-call]


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: torch.Tensor, given: _Given) -> tuple[torch.Tensor, torch.Tensor]:
        kernel = replace(given.kernel, differentiable=False)
        output, log_sum = kernel.attend(query, given.key, given.value, given.keys, given.gate)
        ctx.given = given
        ctx.save_for_backward(query, output, log_sum)
        return output, log_sum

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        of_output, of_log_sum = gradients
        query, output, log_sum = ctx.saved_tensors
        given: _Given = ctx.given
        kernel, keys = given.kernel, given.keys
        key, value = (one[0, :, slice(*keys.interval)] for one in (given.key, given.value))
        seen = log_sum.nan_to_num(neginf=torch.inf)  # the weights of a query that sees no key are 0
        weights = kernel.weights(query, given.key, keys, seen, given.gate)
        along = of_output.reshape(len(value), -1, value.shape[-1]) @ value.transpose(-1, -2)
        mean = (of_output * output).float().sum(-1) - of_log_sum
        of_scores = along.view_as(weights).float().sub_(mean[0, :, :, None]).mul_(weights)
        of_scores = of_scores.view(len(key), -1, len(key[0]))
        grouped = query.reshape(len(key), -1, query.shape[-1])
        return kernel.to_query(of_scores, grouped, key).view_as(query), None
