"""Attribution patching: what removing keys would do to attention, by one backward pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from attribot_rag.scoring.attention import Attended


@dataclass(frozen=True, eq=False)
class _Layer:
    """What a layer attended to, and a zero that was added to its output, for its gradient."""

    attended: tuple[Attended, ...]
    added: torch.Tensor


class GatedAttention:
    """Observes attention with its gradients, while the cache's keys are gated.

    `gate` [num_prompt_tokens] is the logarithm of the factor of each key's weight.
    """

    differentiable = True

    def __init__(self, gate: torch.Tensor | None = None) -> None:
        self.gate = gate
        self._layers: list[_Layer] = []
        self._attended: list[Attended] = []

    def see(self, attended: Attended) -> None:
        self._attended.append(
            replace(
                attended,
                query=attended.query.detach(),
                output=attended.output.detach(),
                log_sum=attended.log_sum.detach(),
            )
        )

    def pass_on(self, output: torch.Tensor) -> torch.Tensor:
        added = torch.zeros_like(output, requires_grad=True)
        self._layers.append(_Layer(tuple(self._attended), added))
        self._attended = []
        return output + added

    def effects(
        self, values: Sequence[torch.Tensor], members: torch.Tensor, *, removed: bool
    ) -> torch.Tensor:
        """How much less each value would be without each unit's keys: [values, units].

        `members` [num_prompt_tokens, units] holds 1 where a key is of a unit. To first order: the
        gradient through a factor on the weights of the unit's keys. With `removed` it is divided by
        the weight that all other keys have together: then a head's output changes as it would
        without these keys (attribution patching with the softmax as it is: AtP*, section 3.1,
        arXiv 2403.00745).
        """
        added = [layer.added for layer in self._layers]
        effects = torch.zeros(len(values), members.shape[1])
        for index, value in enumerate(values):
            gradients = torch.autograd.grad(value, added, retain_graph=index + 1 < len(values))
            for layer, gradient in zip(self._layers, gradients, strict=True):
                for attended in layer.attended:
                    effects[index] += self._effect(attended, gradient, members, removed).cpu()
        return effects

    def _effect(
        self, attended: Attended, gradient: torch.Tensor, members: torch.Tensor, removed: bool
    ) -> torch.Tensor:
        """Of each unit, summed over heads and tokens: [units]."""
        by_head = gradient[0, slice(*attended.view.queries)].transpose(0, 1).float()
        num_heads, num_tokens, _ = by_head.shape
        num_units = members.shape[1]
        share = by_head.new_zeros(num_heads, num_tokens, num_units)
        moved = by_head.new_zeros(num_heads, num_tokens, num_units)
        for keys in attended.view.cached:
            weights = attended.kernel.weights(
                attended.query, attended.key, keys, attended.log_sum, self.gate
            )
            value = attended.value[0, :, slice(*keys.interval)].float()
            grouped = by_head.reshape(len(value), -1, value.shape[-1])
            along = (grouped @ value.transpose(-1, -2)).view(num_heads, num_tokens, -1)
            of_keys = members[slice(*keys.interval)].to(weights)
            share += weights @ of_keys
            moved += (weights * along) @ of_keys
        output = (by_head * attended.output[0].float()).sum(-1, keepdim=True)
        effect = moved - share * output
        if removed:
            effect = effect / (1.0 - share).clamp_min(_LEAST)
        return effect.sum((0, 1))


_LEAST = 1e-4  # of the weight; where a token attends to nothing else, the estimate stays finite
