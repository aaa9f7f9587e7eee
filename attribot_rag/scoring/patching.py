"""Attribution patching: the effects of all units from one backward pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

_LEAST = 1e-4  # of the weight; keeps the estimate finite if a token attends to nothing else


@dataclass(frozen=True, eq=False)
class Patch:
    """Units whose attention is patched, for each part of a response.

    `members` [num_prompt_tokens, num_units] is 1 if a token belongs to a unit. `parts` are response
    tokens. With `factors`, each row scales the attention weights of all units by one factor, and
    the effect is the mean derivative by a unit's own factor. Without, it is the effect of removing
    the unit from each head.

    With `single_backward_pass`, only the whole response is differentiated. The attention that
    predicts a response token counts for its part, and the attention of the question's tokens for
    each part.
    """

    members: Tensor
    parts: Sequence[Sequence[int]]
    factors: tuple[float, ...] = ()
    single_backward_pass: bool = False

    def values(self, responses: Tensor) -> list[Tensor]:
        """The sums to differentiate, of log-likelihoods [num_rows, num_response_tokens]."""
        if self.single_backward_pass:
            return [responses.sum()]
        return [responses[:, list(part)].sum() for part in self.parts]

    def counted_tokens(self, row_length: int, num_response_tokens: int) -> Tensor:
        """[num_parts, row_length]: 1 if a token's attention counts for a part."""
        first = row_length - num_response_tokens  # it predicts the response's first token
        if not self.single_backward_pass:
            return torch.ones(len(self.parts), row_length)
        counted = torch.zeros(len(self.parts), row_length)
        counted[:, :first] = 1.0
        for index, part in enumerate(self.parts):
            counted[index, [first + token for token in part]] = 1.0
        return counted

    @property
    def num_backward(self) -> int:
        """How many backward passes go through each row."""
        return 1 if self.single_backward_pass else len(self.parts)

    @property
    def num_rows(self) -> int:
        return max(1, len(self.factors))


@dataclass(frozen=True, eq=False)
class Effects:
    """How much each part's log-likelihood drops without each unit, to first order.

    `by_part` [num_parts, num_units] is in nats, float32 on the CPU. `weights` [num_prompt_tokens]
    are the attention weights on the prompt's tokens in the last row: the largest from any token of
    the row, summed over heads and layers.
    """

    by_part: Tensor
    weights: Tensor


class PatchedAttention:
    """Observes the effects of a patch's units, and the attention weights on the prompt.

    `num_rows` rows of `row_length` tokens follow `num_cached` tokens of the prompt. `gates`
    [tokens, keys] are the logarithms of the factors on each key's weight.
    """

    def __init__(
        self, patch: Patch, row_length: int, num_response_tokens: int, num_cached: int
    ) -> None:
        members = patch.members[:num_cached]
        factors = members.new_tensor(patch.factors)
        counted = patch.counted_tokens(row_length, num_response_tokens).to(members)
        self._patch, self._row_length, self._num_cached = patch, row_length, num_cached
        self._members = pad(members, (0, 0, 0, row_length * patch.num_rows))
        self.gradient_anchor = members.new_zeros((), requires_grad=True)
        self.gates: Tensor | None = None
        if patch.factors:
            of_rows = factors.log()[:, None] * self._members.any(1)
            self.gates = of_rows.repeat_interleave(row_length, 0)
            shares = 1.0 / (factors * len(factors))
            counted = (counted[:, None] * shares[:, None]).flatten(1)
        self._counted = counted
        self._by_part = members.new_zeros(len(patch.parts), members.shape[1])
        self._of_pass = self._by_part, self._counted  # of the parts of a backward pass
        self._largest = members.new_zeros(len(self._members))

    def observe_forward(self, weights: Tensor) -> None:
        self._largest += weights[:, -self._row_length :].amax(1).sum(0)

    def observe_backward(self, weights: Tensor, moved: Tensor, mean: Tensor) -> None:
        """Add the effects of units in a layer.

        To first order: a head's output at a token is o = sum of w v over all keys, with weights w
        and values v. A factor on the weights of a unit's keys, which are normalised again, moves o
        along the sum of w (v - o) over these keys. With g the gradient by the output, that is
        g·(sum of w v) - share (g·o), where `share` is the unit's part of the weight. Without the
        keys, o moves by this divided by the weight of the others, 1 - share (attribution patching
        with the softmax as it is: AtP*, section 3.1, arXiv 2403.00745). With gates, which are
        factors on all units at once, it is the derivative by the factor, averaged over them.
        """
        share = weights @ self._members
        effect = moved @ self._members - share * mean
        if not self._patch.factors:
            effect = effect / (1.0 - share).clamp_min(_LEAST)
        by_part, counted = self._of_pass
        by_part.addmm_(counted, effect.sum(0))

    def effects(self, responses: Tensor) -> Effects:
        """By a backward pass for each value of log-likelihoods [num_rows, num_response_tokens]."""
        values = self._patch.values(responses)
        for index, value in enumerate(values):
            if not self._patch.single_backward_pass:
                parts = slice(index, index + 1)
                self._of_pass = self._by_part[parts], self._counted[parts]
            is_last = index + 1 == len(values)
            torch.autograd.grad(
                value, self.gradient_anchor, retain_graph=not is_last, allow_unused=True
            )
        weights = self._largest.new_zeros(len(self._patch.members))
        weights[: self._num_cached] = self._largest[: self._num_cached]
        return Effects(self._by_part.cpu(), weights.cpu())
