"""Recurrent layers of a twin go on from their state with several tokens at once.

Where transformers' own go on with a single token, but begin anew with several: the scan of Mamba's
first version (Mamba, Falcon Mamba, Jamba, Zamba) and the convolution of RecurrentGemma.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from types import FunctionType
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers import Cache, PreTrainedModel

_SCAN = "mamba_selective_scan"


def continue_from_states(twin: PreTrainedModel) -> None:
    """Change the layers of a twin that could not."""
    module: Any  # the attributes of layers, which nn.Module does not type
    for module in twin.modules():
        function = inspect.unwrap(type(module).forward)
        if "forward" in vars(module) or not isinstance(function, FunctionType):
            continue
        if _SCAN in function.__code__.co_names:
            module.forward = partial(_scan_from_state, module, function)
        if isinstance(getattr(module, "conv_1d", None), nn.Conv1d) and "conv1d_state" in vars(
            module
        ):
            convolution = Convolution(module)
            module.register_forward_pre_hook(convolution.remember, with_kwargs=True)
            module.conv_1d.register_forward_hook(convolution.go_on)


def _scan_from_state(
    mixer: Any,
    function: FunctionType,
    hidden_states: torch.Tensor,
    **inputs: Any,
) -> torch.Tensor:
    """The layer's forward pass `function`, whose scan begins with the state in the cache."""
    index = mixer.layer_idx
    cache = next((value for value in inputs.values() if isinstance(value, Cache)), None)
    if hidden_states.shape[1] > 1 and cache and cache.has_previous_state(index):
        state = cache.layers[index].recurrent_states[0]
        scan = function.__globals__[_SCAN]
        # the heads of Zamba are scanned one after the other
        states = iter(state.clone().unbind(1) if state.dim() == 4 else [state.clone()])
        function = FunctionType(
            function.__code__,
            {**function.__globals__, _SCAN: partial(_continued_scan, scan, states)},
            function.__name__,
            function.__defaults__,
            function.__closure__,
        )
    output: torch.Tensor = function(mixer, hidden_states, **inputs)
    return output


def _continued_scan(
    scan: Callable[..., tuple[torch.Tensor, torch.Tensor]],
    states: Iterator[torch.Tensor],
    hidden_states: torch.Tensor,
    time_steps: torch.Tensor,
    rates: torch.Tensor,
    inputs: torch.Tensor,
    outputs: torch.Tensor,
    *,
    z: torch.Tensor | None = None,
    delta_bias: torch.Tensor | None = None,
    delta_softplus: bool = False,
    return_last_state: bool = False,
    **options: Any,
) -> tuple[torch.Tensor, torch.Tensor] | torch.Tensor:
    """What the scan gives from a state of zeros, and what is left of the state by each token.

    The recurrence is linear in its state, which decays by exp(rate * time step) with each token.
    """
    scanned, last = scan(
        hidden_states,
        time_steps,
        rates,
        inputs,
        outputs,
        delta_bias=delta_bias,
        delta_softplus=delta_softplus,
        return_last_state=True,
        **options,
    )
    elapsed = time_steps if delta_bias is None else time_steps + delta_bias[..., None]
    elapsed = (functional.softplus(elapsed) if delta_softplus else elapsed).float().cumsum(-1)
    left = next(states).float()[..., None] * torch.exp(
        rates.float()[..., None] * elapsed[:, :, None]
    )
    scanned = scanned + torch.einsum("bint,bnt->bit", left, outputs.float())
    scanned = scanned if z is None else scanned * functional.silu(z)
    return (scanned, last + left[..., -1]) if return_last_state else scanned


class Convolution:
    """The convolution of a recurrent block, which begins with what the block saw before."""

    def __init__(self, block: Any) -> None:
        self._block = block
        self._before: torch.Tensor | None = None

    def remember(self, block: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Before the block, which forgets it."""
        self._before = block.conv1d_state if kwargs.get("use_cache") else None

    def go_on(
        self, convolution: nn.Conv1d, args: tuple[torch.Tensor], output: torch.Tensor
    ) -> torch.Tensor | None:
        """In place of the convolution that has zeros before its first token."""
        if self._before is None:
            return None
        seen = torch.cat([self._before, *args], dim=-1)
        self._block.conv1d_state = seen[..., -self._before.shape[-1] :]
        return functional.conv1d(
            seen, convolution.weight, convolution.bias, groups=convolution.groups
        )
