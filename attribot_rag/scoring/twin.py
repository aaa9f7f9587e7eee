"""A structural copy of a model that shares its weights, to score on without touching it."""

from __future__ import annotations

import copy
from itertools import chain
from typing import Any

import torch
from transformers import PreTrainedModel

from attribot_rag.errors import UnsupportedModel
from attribot_rag.scoring.recurrences import continue_from_states


def make_twin(model: PreTrainedModel, attention: str | None = None) -> PreTrainedModel:
    """Copy the modules and the configuration; every weight stays the same tensor.

    The twin is in evaluation mode and may use another attention implementation while the model
    generates in another thread: settings of either do not affect the other. Buffers that a
    checkpoint does not hold are copied, because rotary embeddings write to their own while they
    run. Raises UnsupportedModel for offloaded weights, because sharing them would load them all.
    """
    if any(parameter.is_meta for parameter in model.parameters()):
        raise UnsupportedModel(
            "some weights of the model are offloaded to the CPU or to disk; load it with a "
            "device_map that keeps every layer on a device"
        )
    persistent = (
        buffer
        for module in model.modules()
        for name, buffer in module.named_buffers(recurse=False)
        if name not in module._non_persistent_buffers_set
    )
    _begin_quantized(model)
    states = _quantization_states(model)
    shared = {id(tensor): tensor for tensor in chain(model.parameters(), persistent, states)}
    for weight in _weights_rescaled_in_place(model):
        del shared[id(weight)]
    shell = copy.copy(model)  # another thread may start or stop recording the model meanwhile
    shell.__dict__.pop("generate", None)
    twin: PreTrainedModel = copy.deepcopy(shell, dict(shared))
    for module in twin.modules():
        module._compiled_call_impl = None  # compiled for the model's own modules
    if attention is not None:
        twin.config._attn_implementation = attention
    twin.train(False)
    continue_from_states(twin)
    return twin


def _begin_quantized(model: PreTrainedModel) -> None:
    """Let 8-bit layers of bitsandbytes take what their weights hold for their first forward pass.

    The first copy to run would take it from all others, which compute something else without it.
    """
    module: Any
    for module in model.modules():
        if getattr(getattr(module, "weight", None), "CB", None) is not None:
            module.init_8bit_state()


def _quantization_states(model: PreTrainedModel) -> list[torch.Tensor]:
    """Tensors that quantized layers keep in objects of their own, as bitsandbytes has it."""
    values = [  # listed in one step: another thread may start or stop recording the model
        value for module in model.modules() for value in list(vars(module).values())
    ]
    tensors: list[torch.Tensor] = []
    while values:
        value = values.pop()
        if type(value).__name__ in ("MatmulLtState", "QuantState"):
            held = vars(value).values()
            tensors += (one for one in held if isinstance(one, torch.Tensor))
            values += held
    return tensors


def _weights_rescaled_in_place(model: PreTrainedModel) -> list[torch.Tensor]:
    """What RWKV divides in its first forward pass in evaluation mode, each copy for itself."""
    return [
        weight
        for module in model.modules()
        if getattr(module, "layers_are_rescaled", True) is False
        for name, weight in module.named_parameters()
        if name.endswith(("attention.output.weight", "feed_forward.value.weight"))
    ]
