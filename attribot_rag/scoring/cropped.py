"""Score each row on top of a cropped copy of the prompt's cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from transformers import PreTrainedModel

from attribot_rag.generation import PromptCache
from attribot_rag.scoring.base import Implementation
from attribot_rag.scoring.prefill import as_dynamic_cache, length_dependent_rope, prefill
from attribot_rag.scoring.row import Row


class CachedImplementation(Implementation):
    """Shares the cache of the full prompt: generation's own, or one prefilled once."""

    prompt_cache: PromptCache

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
            self.prompt_cache = prefill(native, prompt_ids)
            self.prefilled_tokens = len(prompt_ids)
        else:
            self.prompt_cache = ()


class Cropped(CachedImplementation):
    """One forward pass per row; any architecture whose cache can be cropped."""

    name: ClassVar[str] = "cropped"

    def log_likelihoods(self, rows: Sequence[Row]) -> torch.Tensor:
        self.scored_tokens += sum(map(self.num_tokens, rows))
        return torch.cat([self._score(row) for row in rows])

    def _score(self, row: Row) -> torch.Tensor:
        num_visible, num_new = row.num_visible, row.num_tokens
        if row.is_exact:
            mask = torch.ones(1, num_visible + num_new).long()
        else:
            mask = row.mask(self.twin.dtype)[None, None]
        logits = self._logits(
            torch.arange(num_new - len(self._targets), num_new, device=self.device),
            input_ids=torch.tensor([row.token_ids], device=self.device),
            position_ids=torch.tensor([row.positions], device=self.device),
            attention_mask=mask.to(self.device),
            past_key_values=as_dynamic_cache(self.prompt_cache, num_visible),
            use_cache=True,
        )
        return self._target_log_probabilities(logits)
