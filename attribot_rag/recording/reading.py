"""Reading prompts, responses and caches out of a finished `generate` call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from transformers import Cache, DynamicCache
from transformers.cache_utils import DynamicLayer
from transformers.generation.utils import GenerateDecoderOnlyOutput

from attribot_rag.model.generation import CACHE_NAMES, Generation, LayerCache, PromptCache
from attribot_rag.model.local_model import model_version
from attribot_rag.recording.arguments import GenerateArguments
from attribot_rag.recording.telemetry import current_span


class PromptRead(DynamicCache):
    """A cache of the prompt of the call that it is given to, as that call would have made it."""


def read_generations(
    arguments: GenerateArguments,
    output: Mapping[str, Any] | torch.Tensor,
    changing: Sequence[str] | None = None,
) -> list[Generation]:
    """One Generation per row of a finished `generate` call; none where the prompt had no ids.

    Where only the last ids of a prompt were given, it has these, and a `refusal`.

    `changing` names the processors of logits that changed tokens, None if they were not watched.
    """
    if isinstance(output, torch.Tensor):
        output = {"sequences": output}
    model, prompts = arguments.model, arguments.prompts
    if prompts is None:
        return []
    sequences: torch.Tensor = output["sequences"]
    mask = arguments.mask(prompts)
    eos_ids = arguments.eos_ids
    rows_per_prompt = sequences.shape[0] // prompts.shape[0]
    response_start = prompts.shape[1]
    version = model_version(model)
    pad_id = arguments.pad_id if len(sequences) > 1 else None
    cached = _plain_cache(arguments, output)
    num_generated = sequences.shape[1] - response_start
    limit = arguments.max_new_tokens(response_start)
    settings = arguments.settings(changing)
    refusal, conditioned_on = arguments.refusal(prompts), arguments.conditioned_on(mask)
    generations = []
    for row, sequence in enumerate(sequences):
        index = row // rows_per_prompt
        prompt, visible = prompts[index], mask[index]
        prompt_ids = tuple(prompt[visible].tolist())  # a tuple of its own is the row's identity
        response_ids = _until_eos(sequence[response_start:].tolist(), eos_ids, pad_id)
        follows = sequence[:response_start].tolist() == prompt.tolist()
        if not (response_ids and follows and (prompt_ids or conditioned_on)):
            continue
        cache = None
        padding = int(visible.numel() - visible.sum())
        if cached is not None and prompt_ids and bool(visible[padding:].all()):
            cache = _cache_row(cached, row, padding, prompts.shape[1])
        generations.append(
            Generation(
                prompt_ids,
                response_ids,
                cache,
                conditioned_on=conditioned_on,
                model_version=version,
                cut_at=limit if num_generated >= limit and len(response_ids) >= limit else None,
                unfinished=len(response_ids) == num_generated,
                settings=settings,
                span=current_span(),
                refusal=refusal,
            )
        )
    return generations


def _until_eos(ids: list[int], eos_ids: frozenset[int], pad_id: int | None) -> tuple[int, ...]:
    """Up to the first EOS; a row that a stop string ended is filled with padding instead."""
    end = next((i for i, token_id in enumerate(ids) if token_id in eos_ids), None)
    if end is None:
        end = len(ids)
        while end and ids[end - 1] == pad_id:
            end -= 1
    return tuple(ids[:end])


def _plain_cache(
    arguments: GenerateArguments, output: Mapping[str, Any]
) -> list[DynamicLayer] | None:
    """The layers of the cache if all are plain tensors that still hold every position.

    None too if the caller set where it begins or its positions, and in training mode or autocast,
    where its numbers are not those of the scored model.
    """
    model, by_name = arguments.model, arguments.by_name
    given = [by_name.get(name) for name in (*CACHE_NAMES, "position_ids")]
    is_set = any(value is not None and not isinstance(value, PromptRead) for value in given)
    cache = next((value for value in output.values() if isinstance(value, Cache)), None)
    device = model.device.type
    if is_set or model.training or device == "meta" or torch.is_autocast_enabled(device):
        return None
    if not isinstance(output, GenerateDecoderOnlyOutput) or not isinstance(cache, DynamicCache):
        return None
    if type(cache) not in (DynamicCache, PromptRead):
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
