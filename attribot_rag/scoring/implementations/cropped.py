"""Scores each row on top of a cropped view of the prefix cache."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, ClassVar

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from attribot_rag.model.generation import (
    Conditioning,
    Generation,
    LayerCache,
    PromptCache,
    cache_inputs,
)
from attribot_rag.model.local_backend import placeholder_ids
from attribot_rag.scoring.base import TwinImplementation, Unsupported
from attribot_rag.scoring.implementations.checkpoints import Checkpoints, keeps_states
from attribot_rag.scoring.implementations.reference import Reference, length_dependent_rope
from attribot_rag.scoring.row import Row

_CPU_TOKENS = 512  # in one piece: larger pieces are no faster, and a deadline waits for one
_GPU_TOKENS = 2048


class CachedImplementation(TwinImplementation):
    """Shares the prefix cache: the generation's own, or a cache that is prefilled once.

    Images of the prompt are in the cache. Rows that would encode an image again are read from the
    beginning. `position_offset` is added to the positions of text after an image.
    """

    prompt_cache: PromptCache
    position_offset = 0

    @classmethod
    def refusal(cls, model: PreTrainedModel, num_tokens: int) -> str | None:
        if model.config.is_encoder_decoder:
            return "its prompt is the encoder's input, whose states depend on all of it"
        rope_limit = length_dependent_rope(model)
        if rope_limit is not None and num_tokens > rope_limit:
            return f"its rotary frequencies depend on the length beyond {rope_limit} tokens"
        return None

    def prepare(self, native: PreTrainedModel) -> None:
        prompt_ids = self.generation.prompt_ids[:-1]
        if self.generation.cache is not None:
            self.prompt_cache = self.generation.cache
        elif prompt_ids:
            self.prompt_cache = prefill(
                native, prompt_ids, self.generation.conditioning, self.prefill.before_piece
            )
            self.prefilled_tokens = len(prompt_ids)
        else:
            self.prompt_cache = ()
        if self.generation.conditioning:
            self._reference = Reference(native, self.generation)
            self.position_offset = position_offset(native, self.generation)

    def num_tokens(self, row: Row) -> int:
        whole = self._encodes_images(row)
        return row.num_visible + row.num_tokens if whole else row.num_tokens

    def log_likelihoods(self, rows: Sequence[Row]) -> Tensor:
        parts: list[Tensor] = []
        for whole, group in groupby(rows, self._encodes_images):
            members = list(group)
            if whole:
                before = self._reference.scored_tokens
                parts.append(self._reference.log_likelihoods(members))
                self.scored_tokens += self._reference.scored_tokens - before
            else:
                parts.append(self._on_cache(members))
        return torch.cat(parts)

    @abstractmethod
    def _on_cache(self, rows: Sequence[Row]) -> Tensor:
        """The log-likelihoods of rows that encode no images."""

    def _encodes_images(self, row: Row) -> bool:
        if not self.generation.conditioning.whole:
            return False
        return not placeholder_ids(self.twin).isdisjoint(row.token_ids)

    def _inputs(self, token_ids: Sequence[int], positions: Sequence[int]) -> dict[str, Any]:
        """The twin's inputs for new tokens: ids, positions, types of tokens.

        Types that tell images from text alone are no inputs here, as in `generate`.
        """
        inputs = {
            "input_ids": torch.tensor([token_ids]),
            "position_ids": torch.tensor([positions]) + self.position_offset,
        }
        conditioning = self.generation.conditioning
        if not conditioning.whole:
            types = conditioning.per_token.items()
            inputs |= {name: values.of(token_ids) for name, values in types}
        return {name: value.to(self.device) for name, value in inputs.items()}


class Cropped(CachedImplementation):
    """One forward pass per row on the prompt's cache, cropped to the positions that the row sees.

    Recurrent layers keep states that cannot be cropped: rows go on from the last checkpoint within
    these positions, and read the positions after it again.
    """

    name: ClassVar[str] = "cropped"
    checkpoints: Checkpoints | None = None

    def prepare(self, native: PreTrainedModel) -> None:
        if not keeps_states(native):
            super().prepare(native)
            return
        if self.generation.conditioning:
            raise Unsupported("rows do not share states after anything other than token ids")
        prompt_ids = self.generation.prompt_ids[:-1]
        self.checkpoints = Checkpoints.of(native, prompt_ids, self.prefill)
        self.prefilled_tokens = len(prompt_ids)

    def _on_cache(self, rows: Sequence[Row]) -> Tensor:
        return torch.cat([self._score(row) for row in rows])

    def _score(self, row: Row) -> Tensor:
        num_visible = start = row.num_visible
        cache: dict[str, Any]
        if self.checkpoints is None:
            cache = cache_inputs(self.twin, as_dynamic_cache(self.prompt_cache, num_visible))
        else:
            cache, start = self.checkpoints.resume(num_visible)
        ids = (*self.generation.prompt_ids[start:num_visible], *row.token_ids)
        self.scored_tokens += len(ids)
        mask: Tensor | dict[str, Tensor] | None = None
        if not row.is_exact:
            mask = self._mask(row, encoded=False)
        elif self.checkpoints is None:
            mask = torch.ones(1, start + len(ids)).long().to(self.device)
        positions = [*range(start, num_visible), *row.positions]
        logits = self._logits(
            torch.arange(len(ids) - len(self._targets), len(ids), device=self.device),
            attention_mask=mask,
            use_cache=True,
            **self._inputs(ids, positions),
            **cache,
        )
        return self._target_log_probabilities(logits)


def prefill(
    twin: PreTrainedModel,
    token_ids: tuple[int, ...],
    conditioning: Conditioning | None = None,
    before_piece: Callable[[int], None] = lambda _: None,
) -> PromptCache:
    """Encode the ids into a cache that keeps every position, sliding windows included.

    In pieces, before each of which `before_piece` is called with its position; with `conditioning`,
    in one piece. Raises Unsupported if the architecture keeps anything else than keys and values.
    """
    cache = DynamicCache()
    base = getattr(twin, twin.base_model_prefix, twin)
    takes_positions = "position_ids" in inspect.signature(base.forward).parameters
    size = len(token_ids) if conditioning else piece_size(twin.device)
    for start in range(0, len(token_ids), size):
        before_piece(start)
        chunk = torch.tensor([token_ids[start : start + size]], device=twin.device)
        inputs = {"input_ids": chunk, "use_cache": True, **cache_inputs(twin, cache)}
        if conditioning:
            inputs |= conditioning.inputs(token_ids, twin.device)
        elif takes_positions:  # else the model counts on from its images
            stop = start + chunk.shape[1]
            inputs["position_ids"] = torch.arange(start, stop, device=twin.device)[None]
        try:
            base(**inputs)
        except (TypeError, ValueError, AttributeError) as error:
            raise Unsupported(f"its cache cannot be taken over ({error})") from error
    layers = []
    for layer in cache.layers:
        if type(layer) is not DynamicLayer or layer.get_seq_length() != len(token_ids):
            raise Unsupported("it keeps something other than every position's keys and values")
        assert layer.keys is not None and layer.values is not None
        layers.append(LayerCache(layer.keys, layer.values))
    config = twin.config.get_text_config(decoder=True)
    num_layers = config.num_hidden_layers - (getattr(config, "num_kv_shared_layers", None) or 0)
    if len(layers) != num_layers:
        raise Unsupported(f"{len(layers)} of its {num_layers} layers keep keys and values")
    return tuple(layers)


def piece_size(device: torch.device) -> int:
    """The number of tokens of a prompt that are read at once."""
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
    """The distance of positions of text after the last image from its places in the prompt.

    Models that count an image's rows and columns (M-RoPE) tell it; for all others it is 0.
    """
    base = getattr(model, model.base_model_prefix, model)
    index = getattr(base, "get_rope_index", None)
    if index is None:
        return 0
    ids = torch.tensor([generation.prompt_ids], device=model.device)
    inputs = generation.conditioning.inputs(generation.prompt_ids, model.device)
    signature = inspect.signature(index)
    inputs = {name: value for name, value in inputs.items() if name in signature.parameters}
    try:
        signature.bind(ids, **inputs)
    except TypeError:  # without all of these, the model counts tokens only
        return 0
    return int(index(ids, **inputs)[1].flatten()[0])
