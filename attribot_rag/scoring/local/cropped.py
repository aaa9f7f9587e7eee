"""Rows that share the prefix cache; each on top of a cropped view of it."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
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
    piece_size,
    read_in_pieces,
)
from attribot_rag.model.local_model import placeholder_ids
from attribot_rag.scoring.backend import Reading, Unsupported
from attribot_rag.scoring.local.checkpoints import BEGIN_ANEW, Checkpoints, keeps_states
from attribot_rag.scoring.local.prefix import LocalPrefix
from attribot_rag.scoring.local.reference import Reference, length_dependent_rope
from attribot_rag.scoring.memory import Footprint, cache_bytes
from attribot_rag.scoring.row import Row


class CachedPrefix(LocalPrefix):
    """Shares the prefix cache: the generation's own, or a cache that is read once.

    Images of the prompt are in the cache. Rows that would encode an image again are read from the
    beginning. `position_offset` is added to the positions of text after an image.
    """

    position_offset = 0
    _is_read = False

    @classmethod
    def refusal(cls, model: PreTrainedModel, num_tokens: int) -> str | None:
        if model.config.is_encoder_decoder:
            return "its prompt is the encoder's input, whose states depend on all of it"
        rope_limit = length_dependent_rope(model)
        if rope_limit is not None and num_tokens > rope_limit:
            return f"its rotary frequencies depend on the length beyond {rope_limit} tokens"
        return None

    @property
    def num_unread(self) -> int:
        if self._is_read:
            return 0
        return len(self.generation.prompt_ids) - 1 - self.generation.num_cached

    def read(self, reading: Reading | None = None) -> None:
        if not self._is_read:
            with self.without_gradients():
                self._read(reading or Reading())
            self._is_read = True

    def _read(self, reading: Reading) -> None:
        generation = self.generation
        prompt_ids, conditioning = generation.prompt_ids[:-1], generation.conditioning
        self.prompt_cache = generation.cache or ()
        num_unread = len(prompt_ids) - generation.num_cached
        if num_unread:
            self.prompt_cache = prefill(
                self.native,
                prompt_ids,
                conditioning,
                reading.before_piece,
                begun=self.prompt_cache,
            )
            self.prefilled_tokens = num_unread
        if conditioning:
            self.position_offset = position_offset(self.native, generation)

    def footprint(self, branch: int, num_units: int) -> Footprint:
        whole = super().footprint(branch, num_units)
        num_read = self.num_unread and self.num_unread + 1
        return replace(
            whole,
            row=whole.row - branch * whole.token,
            cache=num_read * cache_bytes(self.twin),
            piece=min(num_read, piece_size(self.device)) * whole.token,
        )

    def num_tokens(self, row: Row) -> int:
        return super().num_tokens(row) if self._encodes_images(row) else row.num_tokens

    def score(self, rows: Sequence[Row]) -> Tensor:
        reference = Reference(self.native, self.generation)
        return torch.cat(
            [
                (reference.score if whole else self.on_cache)(list(group))
                for whole, group in groupby(rows, self._encodes_images)
            ]
        )

    @abstractmethod
    def on_cache(self, rows: Sequence[Row]) -> Tensor:
        """The log-likelihoods of rows that encode no images."""

    def _encodes_images(self, row: Row) -> bool:
        if not self.generation.conditioning.whole:
            return False
        return not placeholder_ids(self.twin).isdisjoint(row.token_ids)

    def _inputs(self, token_ids: Sequence[int], positions: Sequence[int]) -> dict[str, Any]:
        """The twin's inputs for new tokens: ids, positions, types of tokens.

        Types that tell images from text alone are no inputs here, as in `generate`.
        """
        ids, places = torch.tensor([[token_ids], [positions]]).to(self.device)  # sent at once
        inputs = {"input_ids": ids, "position_ids": places + self.position_offset}
        conditioning = self.generation.conditioning
        if not conditioning.whole:
            types = conditioning.per_token.items()
            inputs |= {name: values.of(token_ids).to(self.device) for name, values in types}
        return inputs


class Cropped(CachedPrefix):
    """One forward pass per row on the prompt's cache, cropped to the positions that the row sees.

    Recurrent layers keep states that cannot be cropped: rows go on from the last checkpoint within
    these positions, and read the positions after it again.
    """

    name: ClassVar[str] = "cropped"
    checkpoints: Checkpoints | None = None

    @classmethod
    def refusal(cls, model: PreTrainedModel, num_tokens: int) -> str | None:
        if model.config.get_text_config(decoder=True).model_type in BEGIN_ANEW:
            return "its layers go on from a state with a single token only"
        return super().refusal(model, num_tokens)

    def _read(self, reading: Reading) -> None:
        if not keeps_states(self.native):
            super()._read(reading)
            return
        if self.generation.conditioning:
            raise Unsupported("rows do not share states after anything other than token ids")
        prompt_ids = self.generation.prompt_ids[:-1]
        self.checkpoints = Checkpoints.of(self.native, prompt_ids, reading.before_piece)
        self.prefilled_tokens = len(prompt_ids)

    def num_tokens(self, row: Row) -> int:
        if self.checkpoints is None:
            return super().num_tokens(row)
        return row.num_visible - self.checkpoints.before(row.num_visible)[0] + row.num_tokens

    def footprint(self, branch: int, num_units: int) -> Footprint:
        """With the copy of the cache that each pass extends."""
        shared = super().footprint(branch, num_units)
        num_tokens = shared.num_prompt + shared.num_response
        return replace(shared, row=shared.row + num_tokens * cache_bytes(self.twin))

    def on_cache(self, rows: Sequence[Row]) -> Tensor:
        return torch.cat([self._score(row) for row in rows])

    def _score(self, row: Row) -> Tensor:
        start = end = row.num_visible
        if self.checkpoints is None:
            cache = as_dynamic_cache(self.prompt_cache, end)
        else:
            cache, start = self.checkpoints.resume(end)
        ids = (*self.generation.prompt_ids[start:end], *row.token_ids)
        mask: Tensor | dict[str, Tensor] | None = None
        if not row.is_exact:
            mask = self._mask(row, encoded=False)
        elif self.checkpoints is None:
            mask = torch.ones(1, start + len(ids), dtype=torch.long, device=self.device)
        logits = self._logits(
            torch.arange(len(ids), device=self.device)[-len(row.targets(self.generation)) :],
            attention_mask=mask,
            use_cache=True,
            **self._inputs(ids, [*range(start, end), *row.positions]),
            **cache_inputs(self.twin, cache),
        )
        return self.target_log_probabilities(logits, [row])


def prefill(
    twin: PreTrainedModel,
    token_ids: tuple[int, ...],
    conditioning: Conditioning | None = None,
    before_piece: Callable[[int], None] = lambda _: None,
    *,
    begun: PromptCache = (),
) -> PromptCache:
    """Encode the ids into a cache that keeps every position, sliding windows included.

    In pieces, before each of which `before_piece` is called with its position; with `conditioning`,
    in one piece. What is `begun` is a cache of the first ids, which stays as it is. Raises
    Unsupported if the architecture keeps anything else than keys and values.
    """
    start = begun[0].keys.shape[2] if begun else 0
    cache = as_dynamic_cache(begun, start)
    base = getattr(twin, twin.base_model_prefix, twin)
    try:
        read_in_pieces(
            base, token_ids, cache_inputs(twin, cache), before_piece, conditioning, start
        )
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
