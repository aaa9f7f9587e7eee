"""Reading prompts, responses and caches out of a finished `generate` call."""

from __future__ import annotations

from typing import Any

import torch
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer
from transformers.generation.utils import GenerateDecoderOnlyOutput
from transformers.utils.generic import ModelOutput

from attribot_rag.generation import Generation, LayerCache, PromptCache


def read_generations(
    model: PreTrainedModel, arguments: dict[str, Any], output: ModelOutput
) -> list[Generation]:
    """One Generation per row of a finished `generate` call; none where the prompt had no ids."""
    prompts = arguments.get("inputs", arguments.get("input_ids"))
    if prompts is None or prompts.dtype.is_floating_point:
        return []
    sequences: torch.Tensor = output["sequences"]
    mask = _attention_mask(model, arguments, prompts)
    eos_ids = _eos_ids(model, arguments)
    rows_per_prompt = sequences.shape[0] // prompts.shape[0]
    response_start = 1 if model.config.is_encoder_decoder else prompts.shape[1]
    cached = None if "past_key_values" in arguments else _plain_cache(output)
    generations = []
    for row, sequence in enumerate(sequences):
        visible = mask[row // rows_per_prompt].bool()
        prompt_ids = tuple(prompts[row // rows_per_prompt][visible].tolist())
        response_ids = _until_eos(sequence[response_start:].tolist(), eos_ids)
        if not prompt_ids or not response_ids:
            continue
        cache = None
        padding = int(visible.numel() - visible.sum())
        if cached is not None and bool(visible[padding:].all()):
            cache = _cache_row(cached, row, padding, prompts.shape[1])
        generations.append(Generation(prompt_ids, response_ids, cache))
    return generations


def _attention_mask(
    model: PreTrainedModel, arguments: dict[str, Any], prompts: torch.Tensor
) -> torch.Tensor:
    """The mask that was given, or the one that `generate` infers from padding."""
    mask = arguments.get("attention_mask")
    if mask is not None:
        return torch.as_tensor(mask)
    pad = _generation_setting(model, arguments, "pad_token_id")
    if pad is None or pad in _eos_ids(model, arguments):
        return torch.ones_like(prompts)
    return torch.ne(prompts, pad).long()


def _generation_setting(model: PreTrainedModel, arguments: dict[str, Any], name: str) -> Any:
    for value in (
        arguments.get(name),
        getattr(arguments.get("generation_config"), name, None),
        getattr(model.generation_config, name, None),
    ):
        if value is not None:
            return value
    return None


def _eos_ids(model: PreTrainedModel, arguments: dict[str, Any]) -> frozenset[int]:
    eos = _generation_setting(model, arguments, "eos_token_id")
    if eos is None:
        return frozenset()
    return frozenset(int(i) for i in torch.as_tensor(eos).flatten())


def _until_eos(ids: list[int], eos_ids: frozenset[int]) -> tuple[int, ...]:
    end = next((i for i, token_id in enumerate(ids) if token_id in eos_ids), len(ids))
    return tuple(ids[:end])


def _plain_cache(output: ModelOutput) -> list[DynamicLayer] | None:
    """The layers of the cache if all are plain tensors that still hold every position."""
    cache = output.get("past_key_values")
    if not isinstance(output, GenerateDecoderOnlyOutput) or type(cache) is not DynamicCache:
        return None
    num_cached = output["sequences"].shape[1] - 1
    layers = [layer for layer in cache.layers if type(layer) is DynamicLayer]
    if cache.offloading or len(layers) != len(cache.layers):
        return None
    if any(layer.get_seq_length() != num_cached for layer in layers):
        return None
    return layers


def _cache_row(layers: list[DynamicLayer], row: int, start: int, end: int) -> PromptCache:
    """The prompt's part of one row: a view, or a copy where the storage is shared with others."""

    def cut(tensor: torch.Tensor | None) -> torch.Tensor:
        assert tensor is not None
        part = tensor[row : row + 1, :, start:end]
        return part if tensor.shape[0] == 1 else part.clone()

    return tuple(LayerCache(cut(layer.keys), cut(layer.values)) for layer in layers)
