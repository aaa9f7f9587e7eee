"""Attention to all keys at once, whose weights and gradients are seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from attribot_rag.scoring.local.kernels import Kernel


class Observer(Protocol):
    """Observes each layer's attention to the cache's keys, followed by those of the sequence.

    `gates` [tokens, keys] are added to the scores, None for nothing. The output of each layer
    depends on the `leaf`, as far as PyTorch knows: a backward pass to it goes through all layers.
    """

    leaf: Tensor
    gates: Tensor | None

    def see(self, weights: Tensor) -> None:
        """Take note of a layer's weights [heads, tokens, keys] in the forward pass."""

    def see_gradient(self, weights: Tensor, moved: Tensor, mean: Tensor) -> None:
        """Take note of a layer in the backward pass.

        `moved` [heads, tokens, keys] are the weights, each times the product of its value and the
        gradient by the output; `mean` [heads, tokens, 1] their sums.
        """


@dataclass(frozen=True, eq=False)
class ObservedAttention:
    """A layer's attention to cached keys and values, which may be inference tensors, and its own.

    `bias` [groups * tokens, keys] as in `attend_at_once`, in float32; `sinks` [num_heads] are
    scores of no key. The backward pass computes the weights anew, as FlashAttention's does (section
    3.1, arXiv 2205.14135): kept for all layers they would be many times what else is kept.
    """

    observer: Observer
    kernel: Kernel
    bias: Tensor
    cached: tuple[Tensor, Tensor] | None
    sinks: Tensor | None

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """[1, heads, tokens, value_dim], differentiable by query, key and value."""
        leaf = self.observer.leaf
        return _Function.apply(query, key, value, leaf, self)  # type: ignore[no-any-return, no-untyped-call]

    def grouped(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """[key-value heads, groups * tokens or all keys, dim]."""
        if self.cached is not None:
            key, value = (torch.cat(p, 2) for p in zip(self.cached, (key, value), strict=True))
        return query.reshape(key.shape[1], -1, query.shape[-1]), key[0], value[0]

    def weights(self, scores: Tensor) -> Tensor:
        """The weights of scores [key-value heads, groups * tokens, keys]."""
        scores = scores + self.bias
        if self.sinks is None:
            return scores.softmax(-1)
        sinks = self.sinks.float().view(len(scores), -1, 1)
        sinks = sinks.repeat_interleave(scores.shape[1] // sinks.shape[1], 1)
        log_sum = torch.logaddexp(scores.logsumexp(-1, keepdim=True), sinks)
        return scores.sub_(log_sum).exp_()


class _Function(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, _: Tensor, layer: ObservedAttention
    ) -> Tensor:
        ctx.layer = layer
        ctx.save_for_backward(query, key, value)
        grouped, keys, values = layer.grouped(query, key, value)
        weights = layer.weights(layer.kernel.scores(grouped, keys))
        layer.observer.see(weights.view(*query.shape[1:3], -1))
        return torch.bmm(weights.to(values.dtype), values).view(*query.shape[:3], -1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        layer: ObservedAttention = ctx.layer
        query, key, value = ctx.saved_tensors
        grouped, keys, values = layer.grouped(query, key, value)
        scores = layer.kernel.scores(grouped, keys)
        weights = layer.weights(scores)
        gradient = gradients[0].reshape(len(values), -1, values.shape[-1])
        moved = torch.bmm(gradient.float(), values.float().transpose(1, 2)).mul_(weights)
        mean = moved.sum(-1, keepdim=True)
        heads = (each.view(*query.shape[1:3], -1) for each in (weights, moved, mean))
        layer.observer.see_gradient(*heads)
        if not any(ctx.needs_input_grad[:3]):  # the first layer
            return (None,) * 5
        of_scores = moved.addcmul_(weights, mean, value=-1.0)
        if layer.kernel.softcap is not None:
            of_scores *= 1.0 - (scores / layer.kernel.softcap).square()
        of_scores = of_scores.mul_(layer.kernel.scaling).to(keys.dtype)
        own = slice(keys.shape[1] - key.shape[2], None)
        of_query = torch.bmm(of_scores, keys).view(query.shape)
        of_key = torch.bmm(of_scores[..., own].transpose(1, 2), grouped)
        of_value = torch.bmm(weights[..., own].transpose(1, 2).to(gradient.dtype), gradient)
        return of_query, of_key[None], of_value[None], None, None
