"""Rows that share the prefix cache; each on top of a cropped view of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from attribot_rag.model.generation import (
    LayerCache,
    PromptCache,
    cache_inputs,
    piece_size,
    read_in_pieces,
)
from attribot_rag.scoring.backend import Reading, Unsupported
from attribot_rag.scoring.local.prefix import LocalPrefix, keeps_states
from attribot_rag.scoring.local.reference import length_dependent_rope
from attribot_rag.scoring.memory import Footprint, cache_bytes
from attribot_rag.scoring.row import Row


class CachedPrefix(LocalPrefix):
    """Shares the prefix cache: the generation's own, or a cache that is read once."""

    _is_read = False

    @classmethod
    def refusal(cls, model: PreTrainedModel, num_tokens: int) -> str | None:
        if keeps_states(model):
            return "it has layers that keep states, which cannot be cropped to a part of the prompt"
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
        prompt_ids = generation.prompt_ids[:-1]
        self.prompt_cache = generation.cache or ()
        num_unread = len(prompt_ids) - generation.num_cached
        if num_unread:
            self.prompt_cache = prefill(
                self.native, prompt_ids, reading.before_piece, begun=self.prompt_cache
            )
            self.prefilled_tokens = num_unread

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
        return row.num_tokens

    def _inputs(self, token_ids: Sequence[int], positions: Sequence[int]) -> dict[str, Tensor]:
        ids, places = torch.tensor([[token_ids], [positions]]).to(self.device)  # sent at once
        return {"input_ids": ids, "position_ids": places}


class Cropped(CachedPrefix):
    """One forward pass per row on the prompt's cache, cropped to what the row sees."""

    name: ClassVar[str] = "cropped"

    def footprint(self, branch: int, num_units: int) -> Footprint:
        """With the copy of the cache that each pass extends."""
        shared = super().footprint(branch, num_units)
        num_tokens = shared.num_prompt + shared.num_response
        return replace(shared, row=shared.row + num_tokens * cache_bytes(self.twin))

    def score(self, rows: Sequence[Row]) -> Tensor:
        return torch.cat([self._score(row) for row in rows])

    def _score(self, row: Row) -> Tensor:
        start, num_new = row.num_visible, row.num_tokens
        mask: Tensor | dict[str, Tensor]
        if row.is_exact:
            mask = torch.ones(1, start + num_new, dtype=torch.long, device=self.device)
        else:
            mask = self._mask(row, encoded=False)
        logits = self._logits(
            torch.arange(num_new, device=self.device)[-len(row.targets(self.generation)) :],
            attention_mask=mask,
            use_cache=True,
            **self._inputs(row.token_ids, row.positions),
            **cache_inputs(self.twin, as_dynamic_cache(self.prompt_cache, start)),
        )
        return self.target_log_probabilities(logits, [row])


def prefill(
    twin: PreTrainedModel,
    token_ids: tuple[int, ...],
    before_piece: Callable[[int], None] = lambda _: None,
    *,
    begun: PromptCache = (),
) -> PromptCache:
    """Encode the ids into a cache that keeps every position, sliding windows included.

    In pieces, before each of which `before_piece` is called with its position. What is `begun` is a
    cache of the first ids, which stays as it is. Raises Unsupported if the architecture keeps
    anything else than keys and values.
    """
    start = begun[0].keys.shape[2] if begun else 0
    cache = as_dynamic_cache(begun, start)
    base = getattr(twin, twin.base_model_prefix, twin)
    try:
        read_in_pieces(base, token_ids, cache_inputs(twin, cache), before_piece, start)
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
