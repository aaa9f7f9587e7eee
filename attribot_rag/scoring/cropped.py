"""Scores each row on top of a cropped view of the prefix cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from transformers import PreTrainedModel

from attribot_rag.generation import PromptCache
from attribot_rag.scoring.base import Implementation
from attribot_rag.scoring.checkpoints import Checkpoints, keeps_states
from attribot_rag.scoring.prefill import as_dynamic_cache, length_dependent_rope, prefill
from attribot_rag.scoring.row import Row


class CachedImplementation(Implementation):
    """Shares the prefix cache: the generation's own, or a cache that is prefilled once."""

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
        prompt_ids = self.generation.prompt_ids[:-1]
        self.checkpoints = Checkpoints.of(native, prompt_ids, self.branches)
        self.prefilled_tokens = len(prompt_ids)

    def log_likelihoods(self, rows: Sequence[Row]) -> torch.Tensor:
        return torch.cat([self._score(row) for row in rows])

    def _score(self, row: Row) -> torch.Tensor:
        num_visible = start = row.num_visible
        given: dict[str, Any]
        if self.checkpoints is None:
            given = {"past_key_values": as_dynamic_cache(self.prompt_cache, num_visible)}
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
            input_ids=torch.tensor([ids], device=self.device),
            position_ids=torch.tensor([positions], device=self.device),
            attention_mask=mask,
            use_cache=True,
            **given,
        )
        return self._target_log_probabilities(logits)
