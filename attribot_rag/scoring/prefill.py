"""The prefix cache: keys and values of the full prompt, which all rows share."""

from __future__ import annotations

import inspect

import torch
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from attribot_rag.generation import LayerCache, PromptCache
from attribot_rag.scoring.base import Unsupported

_CHUNK_TOKENS = 2048


def prefill(twin: PreTrainedModel, token_ids: tuple[int, ...]) -> PromptCache:
    """Encode the ids into a cache that keeps every position, sliding windows included.

    Raises Unsupported if the architecture keeps anything else than keys and values.
    """
    cache = DynamicCache()
    base = getattr(twin, twin.base_model_prefix, twin)
    takes_positions = "position_ids" in inspect.signature(base.forward).parameters
    for start in range(0, len(token_ids), _CHUNK_TOKENS):
        chunk = torch.tensor([token_ids[start : start + _CHUNK_TOKENS]], device=twin.device)
        inputs = {"input_ids": chunk, "past_key_values": cache, "use_cache": True}
        if takes_positions:  # else by what the model remembers of an image, if it does
            stop = start + chunk.shape[1]
            inputs["position_ids"] = torch.arange(start, stop, device=twin.device)[None]
        try:
            base(**inputs)
        except (TypeError, ValueError, AttributeError) as error:
            raise Unsupported(f"its cache cannot be taken over ({error})") from error
    for layer in cache.layers:
        if type(layer) is not DynamicLayer or layer.get_seq_length() != len(token_ids):
            raise Unsupported("it keeps something else than every position's keys and values")
    config = twin.config.get_text_config(decoder=True)
    num_layers = config.num_hidden_layers - (getattr(config, "num_kv_shared_layers", None) or 0)
    if len(cache.layers) != num_layers:
        raise Unsupported(f"{len(cache.layers)} of its {num_layers} layers keep keys and values")
    return tuple(_layer(layer) for layer in cache.layers)


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


def length_dependent_rope(model: PreTrainedModel) -> int | None:
    """Tokens up to which the rotary frequencies stay constant, None if they never change."""
    config = model.config.get_text_config(decoder=True)
    parameters = getattr(config, "rope_parameters", None) or {}
    per_layer_type = [value for value in parameters.values() if isinstance(value, dict)]
    limits = [
        int(rope.get("original_max_position_embeddings") or config.max_position_embeddings)
        for rope in per_layer_type or [parameters]
        if rope.get("rope_type") in ("longrope", "dynamic")
    ]
    return min(limits, default=None)


def _layer(layer: object) -> LayerCache:
    assert isinstance(layer, DynamicLayer)
    assert layer.keys is not None
    assert layer.values is not None
    return LayerCache(layer.keys, layer.values)
