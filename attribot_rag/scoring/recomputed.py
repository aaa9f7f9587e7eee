"""Attention to cached keys whose weights are not kept for the backward pass."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from attribot_rag.scoring.kernels import Kernel, Keys


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
