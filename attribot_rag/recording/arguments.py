"""The arguments of a `generate` call: its prompts, its settings, and other inputs by name."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any, cast

import torch
from transformers import GenerationConfig, GenerationMixin, PreTrainedModel

from attribot_rag.model.generation import (
    CACHE_NAMES,
    GenerationSettings,
)
from attribot_rag.model.local_model import placeholder_ids

_CONFIGURED = frozenset(GenerationConfig().to_dict())  # type: ignore[no-untyped-call]
_VALUES = _CONFIGURED | {"generation_config", "tokenizer"}  # which stop strings need
_OUTPUT = frozenset({"return_dict_in_generate", "num_return_sequences"})
_STATEFUL = (
    "logits_processor",
    "stopping_criteria",
    "prefix_allowed_tokens_fn",
    "negative_prompt_ids",
    "custom_generate",
)
# These may forbid or force tokens, where their work was not watched.
_CONSTRAINTS = ("logits_processor", "prefix_allowed_tokens_fn")
_NO_CONDITIONING = frozenset(
    {
        *inspect.signature(GenerationMixin.generate).parameters,
        *_CONFIGURED,
        *("input_ids", "attention_mask", "cache_position", "logits_to_keep", "tokenizer"),
        *CACHE_NAMES,
    }
)
_DEFAULT_MAX_NEW_TOKENS = 20  # of transformers, where nothing is set


@dataclass(frozen=True, eq=False)
class GenerateArguments:
    """The arguments of a `generate` call of a model, by their names."""

    model: PreTrainedModel
    by_name: Mapping[str, Any]

    def setting(self, name: str) -> Any:
        """The value in the call: its own argument (even None), or its config's, or the model's."""
        if name in self.by_name:
            return self.by_name[name]
        value = getattr(self.by_name.get("generation_config"), name, None)
        return getattr(self.model.generation_config, name, None) if value is None else value

    @property
    def eos_ids(self) -> frozenset[int]:
        """The ids that end a response; empty without a setting."""
        eos = self.setting("eos_token_id")
        if eos is None:
            return frozenset()
        return frozenset(int(i) for i in torch.as_tensor(eos).flatten())

    @property
    def pad_id(self) -> int | None:
        pad_id = self.setting("pad_token_id")
        return None if pad_id is None else int(pad_id)

    @property
    def prompts(self) -> torch.Tensor | None:
        """The prompts' ids, [num_prompts, positions]; None where there are none.

        Prompts that were given as embeddings alone have no positions.
        """
        prompts = self.by_name.get("inputs")
        if prompts is None:
            prompts = self.by_name.get("input_ids")
        embeddings = self.by_name.get("inputs_embeds")
        if prompts is None and embeddings is not None:
            return torch.empty(len(embeddings), 0, dtype=torch.long)
        if prompts is None or prompts.dtype.is_floating_point:
            return None
        return cast(torch.Tensor, prompts)

    def mask(self, prompts: torch.Tensor) -> torch.Tensor:
        """The attention mask, given or inferred from padding as by `generate`: bool, like prompts.

        Of a mask that covers a cache too, the part for the given ids.
        """
        mask = self.by_name.get("attention_mask")
        if mask is not None and prompts.shape[1]:
            return torch.as_tensor(mask).bool()[:, -prompts.shape[1] :]
        if mask is not None or self.pad_id is None or self.pad_id in self.eos_ids:
            return torch.ones_like(prompts).bool()
        return torch.ne(prompts, self.pad_id)

    def refusal(self, prompts: torch.Tensor) -> str | None:
        """The reason why the prompts are unknown: only ids after a filled cache were given."""
        mask, num_ids = self.by_name.get("attention_mask"), prompts.shape[1]
        num_cached = 0 if mask is None else torch.as_tensor(mask).shape[1] - num_ids
        if not num_ids or num_cached <= 0:
            return None
        return (
            f"generate was given the last {num_ids} ids of its prompt, and a cache of the "
            f"{num_cached} before them, from which they cannot be read; pass all ids with the cache"
        )

    @property
    def prompt_ids(self) -> list[tuple[int, ...]]:
        """The ids of each prompt without padding; none where it had no ids."""
        prompts = self.prompts
        if prompts is None:
            return []
        rows = zip(prompts, self.mask(prompts), strict=True)
        return [tuple(row[visible].tolist()) for row, visible in rows if visible.any()]

    def max_new_tokens(self, num_prompt: int) -> int:
        """The maximal number of tokens of a response after so many positions of the prompt."""
        max_new_tokens = self.setting("max_new_tokens")
        if max_new_tokens is not None:
            return int(max_new_tokens)
        max_length = self.setting("max_length")
        return _DEFAULT_MAX_NEW_TOKENS if max_length is None else int(max_length) - num_prompt

    def settings(self, changing: Sequence[str] | None) -> GenerationSettings:
        """The settings of the call; later changes do not reach them.

        `changing` names the processors of logits that changed tokens, None if they were not
        watched.
        """
        values = {
            name: copy.deepcopy(value) if isinstance(value, GenerationConfig) else value
            for name, value in self.by_name.items()
            if name in _VALUES and not (name in _OUTPUT or name.startswith("output_"))
        }
        left_out = tuple(name for name in _STATEFUL if _is_set(self.by_name.get(name)))
        unwatched = _CONSTRAINTS if changing is None else ()
        constraints = tuple(name for name in left_out if name in (*unwatched, "custom_generate"))
        return GenerationSettings(values, left_out, (*(changing or ()), *constraints))

    def conditioned_on(self, mask: torch.Tensor) -> tuple[str, ...]:
        """The names of inputs besides ids and their mask [num_prompts, positions].

        A model that sees images takes zeros as types of tokens for text alone.
        """
        names = []
        if "prepare_inputs_for_generation" in vars(self.model):  # as prompt and prefix tuning do
            names.append("prepare_inputs_for_generation")
        for name, value in self.by_name.items():
            if name in _NO_CONDITIONING or value is None:
                continue
            if name == "position_ids" and _counts(value, mask):
                continue
            is_zero = isinstance(value, torch.Tensor) and not value.any()
            if is_zero and name.endswith("token_type_ids") and placeholder_ids(self.model):
                continue
            names.append(name)
        return tuple(names)


def _is_set(value: object) -> bool:
    return value is not None and not (isinstance(value, Sized) and len(value) == 0)


def _counts(value: object, mask: torch.Tensor) -> bool:
    """Whether positions follow from the mask: consecutive, padding aside."""
    if not isinstance(value, torch.Tensor) or value.shape != mask.shape:
        return False
    expected = mask.long().cumsum(-1) - 1
    return bool((value.to(expected.device) == expected)[mask].all())
