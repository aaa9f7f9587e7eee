"""Scores by encoding everything again: the truth for the other implementations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList, PreTrainedModel

from attribot_rag.scoring.local.prefix import LocalPrefix
from attribot_rag.scoring.row import Row


class Reference(LocalPrefix):
    """A plain forward pass over each row without a cache; any causal model."""

    name: ClassVar[str] = "reference"

    def score(self, rows: Sequence[Row]) -> Tensor:
        return torch.cat([self._score(row) for row in rows])

    def _score(self, row: Row) -> Tensor:
        ids = torch.tensor([row.full_ids(self.generation)], device=self.device)
        last, num_targets = ids.shape[1], len(row.targets(self.generation))
        if length_dependent_rope(self.twin) is not None:
            # A short pass forgets the frequencies that a longer row has set.
            self.twin(input_ids=torch.zeros(1, 1, dtype=torch.long, device=self.device))
            if rope_changes(self.twin, last - num_targets + 1, last):
                return self._generated(ids, row)
        scored = torch.arange(last - num_targets, last, device=self.device)
        masking = {} if row.is_exact else self._masking(row)
        logits = self._logits(scored, input_ids=ids, use_cache=False, **masking)
        return self.target_log_probabilities(logits, [row])

    def _generated(self, ids: Tensor, row: Row) -> Tensor:
        """The row as `generate` computes it, a token at a time, with the response's tokens chosen.

        The model itself decides at which length it encodes earlier tokens again.
        """
        targets = torch.tensor(row.targets(self.generation), device=self.device)
        num_prompt = ids.shape[1] - len(targets) + 1
        forced = _Forced(targets)
        config: Any = GenerationConfig
        self.twin.generation_config = config(pad_token_id=0)
        self.twin.generate(  # type: ignore[operator]
            ids[:, :num_prompt],
            max_new_tokens=len(targets),
            logits_processor=LogitsProcessorList([forced]),
        )
        return self.target_log_probabilities(torch.cat(forced.logits), [row])

    def _masking(self, row: Row) -> dict[str, Any]:
        """The mask and the positions of the whole sequence."""
        positions = torch.tensor([[*range(row.num_visible), *row.positions]])
        return {
            "attention_mask": self._mask(row, encoded=True),
            "position_ids": positions.to(self.device),
        }


def length_dependent_rope(model: PreTrainedModel) -> int | None:
    """Tokens up to which the rotary frequencies stay constant, None if they never change."""
    return min((limit for _, limit in _rope_limits(model)), default=None)


def rope_changes(model: PreTrainedModel, num_prompt: int, num_tokens: int) -> bool:
    """Whether rotary frequencies change while a model goes on from a prompt to so many tokens.

    Then the keys of earlier tokens differ from those of one pass over all tokens.
    """
    return any(
        num_tokens > limit and (num_prompt <= limit or kind == "dynamic")
        for kind, limit in _rope_limits(model)
    )


def _rope_limits(model: PreTrainedModel) -> list[tuple[str, int]]:
    """The rotary embeddings that depend on length: 'longrope' (two kinds) or 'dynamic' (more)."""
    config = model.config.get_text_config(decoder=True)
    parameters = getattr(config, "rope_parameters", None) or {}
    per_layer_type = [value for value in parameters.values() if isinstance(value, dict)]
    return [
        (
            rope["rope_type"],
            int(rope.get("original_max_position_embeddings") or config.max_position_embeddings),
        )
        for rope in per_layer_type or [parameters]
        if rope.get("rope_type") in ("longrope", "dynamic")
    ]


class _Forced(LogitsProcessor):
    """Chooses the target tokens one after the other, and keeps the logits that they had."""

    def __init__(self, targets: Tensor) -> None:
        self._targets = targets
        self.logits: list[Tensor] = []

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        target = self._targets[len(self.logits)]
        self.logits.append(scores)
        return torch.full_like(scores, -torch.inf).index_fill_(1, target[None], 0)
