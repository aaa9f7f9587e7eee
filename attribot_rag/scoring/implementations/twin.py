"""A structural copy of a model that shares its weights, to score on without touching it."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn import functional
from transformers import Cache, PreTrainedModel

from attribot_rag.errors import UnsupportedModel


def make_twin(model: PreTrainedModel, attention: str | None = None) -> PreTrainedModel:
    """Copy the modules and the configuration; every weight stays the same tensor.

    The twin is in evaluation mode and may use another attention implementation while the model
    generates in another thread: settings of either do not affect the other. Buffers that a
    checkpoint does not hold are copied, because rotary embeddings write to their own while they
    run. Weights that Accelerate keeps on the CPU or on disk stay there: the twin's layers load them
    when they run, as the model's do. Raises UnsupportedModel if the first weights, which tell the
    device, are offloaded too, or weights are nowhere, and for tensor-parallel models.
    """
    if any(isinstance(parameter, DTensor) for parameter in model.parameters()):
        raise UnsupportedModel(
            "the model is tensor-parallel: its weights are spread over processes that all would "
            "have to score; load it with device_map='auto', or serve it and pass the server's URL"
        )
    check_placed(model)
    offloaded = _offloaded_weights(model)
    persistent = (
        buffer
        for module in model.modules()
        for name, buffer in module.named_buffers(recurse=False)
        if name not in module._non_persistent_buffers_set
    )
    _begin_quantized(model)
    states = _quantization_states(model)
    shared: dict[int, Any] = {
        id(value): value for value in chain(model.parameters(), persistent, states, offloaded)
    }
    for weight in _weights_rescaled_in_place(model):
        del shared[id(weight)]
    shell = copy.copy(model)  # another thread may start or stop recording the model meanwhile
    for hooked in ("generate", "_get_logits_processor"):
        shell.__dict__.pop(hooked, None)
    twin: PreTrainedModel = copy.deepcopy(shell, shared)
    for module in twin.modules():
        module._compiled_call_impl = None  # compiled for the model's own modules
    if attention is not None:
        twin.config._attn_implementation = attention
    twin.train(False)
    continue_from_states(twin)
    return twin


def check_placed(model: PreTrainedModel) -> None:
    """Raises UnsupportedModel if the first weights, which tell the device, are on none."""
    is_partly_meta = any(parameter.is_meta for parameter in model.parameters())
    if model.device.type == "meta" or (is_partly_meta and not _offloaded_weights(model)):
        raise UnsupportedModel(
            "the model's first weights are offloaded to the CPU or to disk, or were not loaded; "
            "load it with a device_map that keeps the embedding on a device"
        )


def _offloaded_weights(model: PreTrainedModel) -> list[Any]:
    """The maps from which Accelerate's hooks load weights, which all layers share."""
    hooks = [vars(module).get("_hf_hook") for module in model.modules()]
    maps: list[Any] = []
    while hooks:
        hook = hooks.pop()
        hooks += getattr(hook, "hooks", ())
        maps += (getattr(hook, name, None) for name in ("weights_map", "tied_params_map"))
    return [weights for weights in maps if weights is not None]


def _begin_quantized(model: PreTrainedModel) -> None:
    """Let 8-bit layers of bitsandbytes take the state that their weights hold for the first pass.

    The first copy to run would take it from all others, which compute something else without it.
    """
    module: Any
    for module in model.modules():
        if getattr(getattr(module, "weight", None), "CB", None) is not None:
            module.init_8bit_state()


def _quantization_states(model: PreTrainedModel) -> list[Tensor]:
    """Tensors that quantized layers keep in objects of their own, as bitsandbytes has it."""
    values = [  # listed in one step: another thread may start or stop recording the model
        value for module in model.modules() for value in list(vars(module).values())
    ]
    tensors: list[Tensor] = []
    while values:
        value = values.pop()
        if type(value).__name__ in ("MatmulLtState", "QuantState"):
            parts = vars(value).values()
            tensors += (part for part in parts if isinstance(part, Tensor))
            values += parts
    return tensors


def _weights_rescaled_in_place(model: PreTrainedModel) -> list[Tensor]:
    """Weights that RWKV divides in its first forward pass in evaluation mode, in each copy."""
    return [
        weight
        for module in model.modules()
        if getattr(module, "layers_are_rescaled", True) is False
        for name, weight in module.named_parameters()
        if name.endswith(("attention.output.weight", "feed_forward.value.weight"))
    ]


_SCAN = "mamba_selective_scan"


def continue_from_states(twin: PreTrainedModel) -> None:
    """Replace what keeps recurrent layers of a twin from going on from a state in the cache."""
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
    mixer: Any, function: FunctionType, hidden_states: Tensor, **inputs: Any
) -> Tensor:
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
    output: Tensor = function(mixer, hidden_states, **inputs)
    return output


def _continued_scan(
    scan: Callable[..., tuple[Tensor, Tensor]],
    states: Iterator[Tensor],
    hidden_states: Tensor,
    time_steps: Tensor,
    rates: Tensor,
    inputs: Tensor,
    outputs: Tensor,
    *,
    z: Tensor | None = None,
    delta_bias: Tensor | None = None,
    delta_softplus: bool = False,
    return_last_state: bool = False,
    **options: Any,
) -> tuple[Tensor, Tensor] | Tensor:
    """The scan from a state of zeros, plus the remainder of the first state at each token.

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
    remainder = next(states).float()[..., None] * torch.exp(
        rates.float()[..., None] * elapsed[:, :, None]
    )
    scanned = scanned + torch.einsum("bint,bnt->bit", remainder, outputs.float())
    scanned = scanned if z is None else scanned * functional.silu(z)
    return (scanned, last + remainder[..., -1]) if return_last_state else scanned


class Convolution:
    """The convolution of a recurrent block, which begins with the inputs before."""

    def __init__(self, block: Any) -> None:
        self._block = block
        self._before: Tensor | None = None

    def remember(self, block: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A hook before the block, which forgets these inputs."""
        self._before = block.conv1d_state if kwargs.get("use_cache") else None

    def go_on(self, convolution: nn.Conv1d, args: tuple[Tensor], output: Tensor) -> Tensor | None:
        """A hook after the convolution, which had zeros before its first token."""
        if self._before is None:
            return None
        inputs = torch.cat([self._before, *args], dim=-1)
        self._block.conv1d_state = inputs[..., -self._before.shape[-1] :]
        return functional.conv1d(
            inputs, convolution.weight, convolution.bias, groups=convolution.groups
        )
