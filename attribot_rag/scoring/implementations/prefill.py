"""The prefix cache: keys and values of the full prompt, which all rows share."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import torch
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from attribot_rag.model.generation import (
    Conditioning,
    Generation,
    LayerCache,
    PromptCache,
    cache_inputs,
)
from attribot_rag.scoring.base import Unsupported

_CPU_TOKENS = 512  # in one piece: larger pieces are no faster, and a deadline waits for one
_GPU_TOKENS = 2048


def prefill(
    twin: PreTrainedModel,
    token_ids: tuple[int, ...],
    given: Conditioning | None = None,
    before_piece: Callable[[int], None] = lambda _: None,
) -> PromptCache:
    """Encode the ids into a cache that keeps every position, sliding windows included.

    In pieces, before each of which `before_piece` is given its position; with what else the model
    was given, in one piece. Raises Unsupported if the architecture keeps anything else than keys
    and values.
    """
    cache = DynamicCache()
    base = getattr(twin, twin.base_model_prefix, twin)
    takes_positions = "position_ids" in inspect.signature(base.forward).parameters
    size = len(token_ids) if given else piece_size(twin.device)
    for start in range(0, len(token_ids), size):
        before_piece(start)
        chunk = torch.tensor([token_ids[start : start + size]], device=twin.device)
        inputs = {"input_ids": chunk, "use_cache": True, **cache_inputs(twin, cache)}
        if given:
            inputs |= given.inputs(token_ids, twin.device)
        elif takes_positions:  # else by what the model remembers of an image, if it does
            stop = start + chunk.shape[1]
            inputs["position_ids"] = torch.arange(start, stop, device=twin.device)[None]
        try:
            base(**inputs)
        except (TypeError, ValueError, AttributeError) as error:
            raise Unsupported(f"its cache cannot be taken over ({error})") from error
    for layer in cache.layers:
        if type(layer) is not DynamicLayer or layer.get_seq_length() != len(token_ids):
            raise Unsupported("it keeps something other than every position's keys and values")
    config = twin.config.get_text_config(decoder=True)
    num_layers = config.num_hidden_layers - (getattr(config, "num_kv_shared_layers", None) or 0)
    if len(cache.layers) != num_layers:
        raise Unsupported(f"{len(cache.layers)} of its {num_layers} layers keep keys and values")
    return tuple(_layer(layer) for layer in cache.layers)


def piece_size(device: torch.device) -> int:
    """How many tokens of a prompt are read at once."""
    return _CPU_TOKENS if device.type == "cpu" else _GPU_TOKENS


def as_dynamic_cache(prompt_cache: PromptCache, num_positions: int) -> DynamicCache:
    """A fresh cache of the first positions: views, which the model's next step replaces."""
    cache = DynamicCache()
    for layer in prompt_cache:
        dynamic = DynamicLayer()  # type: ignore[no-untyped-call]
        dynamic.lazy_initialization(layer.keys, layer.values)
        dynamic.keys = layer.keys[:, :, :num_positions]
        dynamic.values = layer.values[:, :, :num_positions]
        cache.layers.append(dynamic)
    return cache


def position_offset(model: PreTrainedModel, generation: Generation) -> int:
    """How far the positions of text after the last image are from its places in the prompt.

    Models that count an image's rows and columns (M-RoPE) tell it; for all others it is 0.
    """
    base = getattr(model, model.base_model_prefix, model)
    index = getattr(base, "get_rope_index", None)
    if index is None:
        return 0
    ids = torch.tensor([generation.prompt_ids], device=model.device)
    given = generation.conditioning.inputs(generation.prompt_ids, model.device)
    signature = inspect.signature(index)
    given = {name: value for name, value in given.items() if name in signature.parameters}
    try:
        signature.bind(ids, **given)
    except TypeError:  # without all of that, the model counts tokens only
        return 0
    return int(index(ids, **given)[1].flatten()[0])


def length_dependent_rope(model: PreTrainedModel) -> int | None:
    """Tokens up to which the rotary frequencies stay constant, None if they never change."""
    return min((limit for _, limit in _rope_limits(model)), default=None)


def rope_changes(model: PreTrainedModel, num_prompt: int, num_tokens: int) -> bool:
    """Whether rotary frequencies change while a model goes on from a prompt to so many tokens.

    Then the keys of earlier tokens are not those that one pass over all tokens would give.
    """
    return any(
        num_tokens > limit and (num_prompt <= limit or kind == "dynamic")
        for kind, limit in _rope_limits(model)
    )


def _rope_limits(model: PreTrainedModel) -> list[tuple[str, int]]:
    """The rotary embeddings that depend on length: 'longrope' (two kinds) or 'dynamic' (more)."""
    config = model.config.get_text_config(decoder=True)
    parameters = getattr(config, "rope_parameters", None) or {}
    per_layer_type = [value for value in parameters.values() if isinstance(value, dict)]
    return [
        (
            rope["rope_type"],
            int(rope.get("original_max_position_embeddings") or config.max_position_embeddings),
        )
        for rope in per_layer_type or [parameters]
        if rope.get("rope_type") in ("longrope", "dynamic")
    ]


def _layer(layer: object) -> LayerCache:
    assert isinstance(layer, DynamicLayer)
    assert layer.keys is not None
    assert layer.values is not None
    return LayerCache(layer.keys, layer.values)
