"""A structural copy of a model that shares its weights, to score on without touching it."""

from __future__ import annotations

import copy
from itertools import chain
from typing import Any

from torch.distributed.tensor import DTensor
from transformers import PreTrainedModel

from attribot_rag.errors import UnsupportedModel


def make_twin(model: PreTrainedModel, attention: str | None = None) -> PreTrainedModel:
    """Copy the modules and the configuration; every weight stays the same tensor.

    The twin is in evaluation mode and may use another attention implementation while the model
    generates in another thread: settings of either do not affect the other. Buffers that a
    checkpoint does not hold are copied, because rotary embeddings write to their own while they
    run. Weights that Accelerate keeps on the CPU or on disk stay there: the twin's layers load them
    when they run, as the model's do. Raises UnsupportedModel if the first weights, which tell the
    device, are offloaded too, or weights are nowhere, for tensor-parallel models, and for
    bitsandbytes' 8 bits.
    """
    if any(isinstance(parameter, DTensor) for parameter in model.parameters()):
        raise UnsupportedModel(
            "the model is tensor-parallel: its weights are spread over processes that all would "
            "have to score; load it with device_map='auto', or serve it and pass the server's URL"
        )
    if getattr(model, "is_loaded_in_8bit", False):
        raise UnsupportedModel(
            "the model's weights are in bitsandbytes' 8 bits, whose state no copy can share; load "
            "it in 4 bits (load_in_4bit=True), or quantize it by torchao or quanto"
        )
    check_placed(model)
    offloaded = _offloaded_weights(model)
    persistent = (
        buffer
        for module in model.modules()
        for name, buffer in module.named_buffers(recurse=False)
        if name not in module._non_persistent_buffers_set
    )
    shared: dict[int, Any] = {
        id(value): value for value in chain(model.parameters(), persistent, offloaded)
    }
    shell = copy.copy(model)  # another thread may start or stop recording the model meanwhile
    for hooked in ("generate", "_get_logits_processor"):
        shell.__dict__.pop(hooked, None)
    twin: PreTrainedModel = copy.deepcopy(shell, shared)
    for module in twin.modules():
        module._compiled_call_impl = None  # compiled for the model's own modules
    if attention is not None:
        twin.config._attn_implementation = attention
    twin.train(False)
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
