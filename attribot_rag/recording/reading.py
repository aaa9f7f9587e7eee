"""Reading prompts, responses and caches out of a finished `generate` call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from transformers import Cache, DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer
from transformers.generation.utils import GenerateDecoderOnlyOutput

from attribot_rag.model.generation import (
    CACHE_NAMES,
    Generation,
    LayerCache,
    PromptCache,
    holds_cache,
)
from attribot_rag.model.state import model_version
from attribot_rag.recording.conditioning import read_conditioning
from attribot_rag.recording.settings import eos_ids_of, generation_setting, read_settings
from attribot_rag.recording.telemetry import current_span

_DEFAULT_MAX_NEW_TOKENS = 20  # of transformers, where nothing is set


def read_generations(
    model: PreTrainedModel,
    arguments: dict[str, Any],
    output: Mapping[str, Any] | torch.Tensor,
    changing: Sequence[str] | None = None,
) -> list[Generation]:
    """One Generation per row of a finished `generate` call; none where the prompt had no ids.

    `changing` names the processors of logits that changed tokens, None if they were not watched.
    """
    if isinstance(output, torch.Tensor):
        output = {"sequences": output}
    prompts = _prompt_tensor(model, arguments)
    if prompts is None:
        return []
    sequences: torch.Tensor = output["sequences"]
    mask = _attention_mask(model, arguments, prompts).bool()
    eos_ids = eos_ids_of(model, arguments)
    rows_per_prompt = sequences.shape[0] // prompts.shape[0]
    response_start = _response_start(model, arguments, prompts, sequences)
    version = model_version(model)
    pad_id = _pad_id(model, arguments) if len(sequences) > 1 else None
    cached = _plain_cache(model, arguments, output)
    num_generated = sequences.shape[1] - response_start
    limit = _max_new_tokens(model, arguments, response_start)
    settings = read_settings(arguments, changing)
    generations = []
    for row, sequence in enumerate(sequences):
        index = row // rows_per_prompt
        prompt, visible = prompts[index], mask[index]
        prompt_ids = tuple(prompt[visible].tolist())  # a tuple of its own is the row's identity
        response_ids = _until_eos(sequence[response_start:].tolist(), eos_ids, pad_id)
        follows = sequence[:response_start].tolist() == prompt.tolist()
        if not (response_ids and (follows or model.config.is_encoder_decoder)):
            continue
        conditioning = read_conditioning(model, arguments, prompts, mask, index)
        if not (prompt_ids or conditioning):
            continue
        cache = None
        padding = int(visible.numel() - visible.sum())
        if cached is not None and prompt_ids and bool(visible[padding:].all()):
            cache = _cache_row(cached, row, padding, prompts.shape[1])
        begun = sequence[:response_start].tolist() if model.config.is_encoder_decoder else ()
        generations.append(
            Generation(
                prompt_ids,
                response_ids,
                cache,
                conditioning=conditioning,
                decoder_ids=tuple(begun),
                model_version=version,
                cut_at=limit if num_generated >= limit and len(response_ids) >= limit else None,
                unfinished=len(response_ids) == num_generated,
                settings=settings,
                span=current_span(),
            )
        )
    return generations


def _response_start(
    model: PreTrainedModel,
    arguments: dict[str, Any],
    prompts: torch.Tensor,
    sequences: torch.Tensor,
) -> int:
    """Where responses begin in the sequences: after the prompt, or what the decoder began with.

    A decoder begins with its start token, and with ids that it was given.
    """
    if not model.config.is_encoder_decoder:
        return prompts.shape[1]
    given = arguments.get("decoder_input_ids")
    if given is None:
        return 1
    num_given = int(given.shape[1])
    starts_so = torch.equal(sequences[: len(given), :num_given].to(given.device), given)
    return num_given if starts_so else num_given + 1


def read_prompts(model: PreTrainedModel, arguments: dict[str, Any]) -> list[tuple[int, ...]]:
    """The ids of each prompt of a `generate` call, without padding; none where it had no ids."""
    prompts = _prompt_tensor(model, arguments)
    if prompts is None:
        return []
    mask = _attention_mask(model, arguments, prompts).bool()
    rows = (tuple(row[seen].tolist()) for row, seen in zip(prompts, mask, strict=True))
    return [ids for ids in rows if ids]


def _prompt_tensor(model: PreTrainedModel, arguments: dict[str, Any]) -> torch.Tensor | None:
    """The prompts' ids, [num_prompts, positions]; None where the model was given something else.

    Prompts that were given as embeddings alone have no positions.
    """
    prompts = arguments.get("inputs")
    if prompts is None:
        prompts = arguments.get("input_ids")
    embeddings = arguments.get("inputs_embeds")
    if prompts is None and embeddings is not None and not model.config.is_encoder_decoder:
        return torch.empty(len(embeddings), 0, dtype=torch.long)
    if prompts is None or prompts.dtype.is_floating_point:
        return None
    return cast(torch.Tensor, prompts)


def _attention_mask(
    model: PreTrainedModel, arguments: dict[str, Any], prompts: torch.Tensor
) -> torch.Tensor:
    """The mask that was given, or the one that `generate` infers from padding."""
    mask = arguments.get("attention_mask")
    if mask is not None:
        return torch.as_tensor(mask) if prompts.shape[1] else torch.ones_like(prompts)
    pad_id = _pad_id(model, arguments)
    if pad_id is None or pad_id in eos_ids_of(model, arguments):
        return torch.ones_like(prompts)
    return torch.ne(prompts, pad_id).long()


def _max_new_tokens(model: PreTrainedModel, arguments: dict[str, Any], response_start: int) -> int:
    """How many tokens `generate` may give at most."""
    max_new_tokens = generation_setting(model, arguments, "max_new_tokens")
    if max_new_tokens is not None:
        return int(max_new_tokens)
    max_length = generation_setting(model, arguments, "max_length")
    return _DEFAULT_MAX_NEW_TOKENS if max_length is None else int(max_length) - response_start


def _pad_id(model: PreTrainedModel, arguments: dict[str, Any]) -> int | None:
    pad_id = generation_setting(model, arguments, "pad_token_id")
    return None if pad_id is None else int(pad_id)


def _until_eos(ids: list[int], eos_ids: frozenset[int], pad_id: int | None) -> tuple[int, ...]:
    """Up to the first EOS; a row that a stop string ended is filled with padding instead."""
    end = next((i for i, token_id in enumerate(ids) if token_id in eos_ids), None)
    if end is None:
        end = len(ids)
        while end and ids[end - 1] == pad_id:
            end -= 1
    return tuple(ids[:end])


def _plain_cache(
    model: PreTrainedModel, arguments: dict[str, Any], output: Mapping[str, Any]
) -> list[DynamicLayer] | None:
    """The layers of the cache if all are plain tensors that still hold every position.

    None too if the caller set where it begins or its positions, and in training mode or autocast,
    where its numbers are not those of the scored model.
    """
    given = [arguments.get(name) is not None for name in (*CACHE_NAMES, "position_ids")]
    given += map(holds_cache, arguments.values())
    cache = next((value for value in output.values() if isinstance(value, Cache)), None)
    device = model.device.type
    if any(given) or model.training or device == "meta" or torch.is_autocast_enabled(device):
        return None
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
