"""Scores each row on top of a cropped view of the prefix cache."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from itertools import groupby
from typing import Any, ClassVar

import torch
from transformers import PreTrainedModel

from attribot_rag.model.generation import PromptCache, cache_inputs
from attribot_rag.model.local_backend import placeholder_ids
from attribot_rag.scoring.base import TwinImplementation, Unsupported
from attribot_rag.scoring.implementations.checkpoints import Checkpoints, keeps_states
from attribot_rag.scoring.implementations.prefill import (
    as_dynamic_cache,
    length_dependent_rope,
    position_offset,
    prefill,
)
from attribot_rag.scoring.implementations.reference import Reference
from attribot_rag.scoring.row import Row


class CachedImplementation(TwinImplementation):
    """Shares the prefix cache: the generation's own, or a cache that is prefilled once.

    Images that the model was given are in the cache. Rows that would encode one of them again are
    read from the beginning.
    """

    prompt_cache: PromptCache
    position_offset = 0
    """What the model adds to the positions of text after an image."""

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
                native, prompt_ids, self.generation.conditioning, self.reading.before_piece
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

    def log_likelihoods(self, rows: Sequence[Row]) -> torch.Tensor:
        parts: list[torch.Tensor] = []
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
    def _on_cache(self, rows: Sequence[Row]) -> torch.Tensor:
        """The log-likelihoods of rows that have no images after what they see."""

    def _encodes_images(self, row: Row) -> bool:
        if not self.generation.conditioning.whole:
            return False
        return not self._placeholders.isdisjoint(row.token_ids)

    @cached_property
    def _placeholders(self) -> frozenset[int]:
        return placeholder_ids(self.twin)

    def _inputs(self, token_ids: Sequence[int], positions: Sequence[int]) -> dict[str, Any]:
        """What the twin is given for new tokens: ids, positions, types of tokens.

        Types that only tell images from text are not given without images, as by `generate`.
        """
        given = {
            "input_ids": torch.tensor([token_ids]),
            "position_ids": torch.tensor([positions]) + self.position_offset,
        }
        conditioning = self.generation.conditioning
        if not conditioning.whole:
            types = conditioning.per_token.items()
            given |= {name: values.of(token_ids) for name, values in types}
        return {name: value.to(self.device) for name, value in given.items()}


class Cropped(CachedImplementation):
    """One forward pass per row on the prompt's cache, cropped to what the row sees.

    Recurrent layers keep states that cannot be cropped: rows go on from the last checkpoint before
    what they see ends, and read what lies between again.
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
        self.checkpoints = Checkpoints.of(native, prompt_ids, self.reading)
        self.prefilled_tokens = len(prompt_ids)

    def _on_cache(self, rows: Sequence[Row]) -> torch.Tensor:
        return torch.cat([self._score(row) for row in rows])

    def _score(self, row: Row) -> torch.Tensor:
        num_visible = start = row.num_visible
        given: dict[str, Any]
        if self.checkpoints is None:
            given = cache_inputs(self.twin, as_dynamic_cache(self.prompt_cache, num_visible))
        else:
            given, start = self.checkpoints.resume(num_visible)
        ids = (*self.generation.prompt_ids[start:num_visible], *row.token_ids)
        self.scored_tokens += len(ids)
        mask: torch.Tensor | dict[str, torch.Tensor] | None = None
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
            **given,
        )
        return self._target_log_probabilities(logits)
