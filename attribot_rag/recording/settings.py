"""How a `generate` call was told to answer."""

from __future__ import annotations

import copy
from collections.abc import Sequence, Sized
from typing import Any

import torch
from transformers import GenerationConfig, PreTrainedModel

from attribot_rag.model.generation import GenerationSettings

_OUTPUT = frozenset({"return_dict_in_generate", "num_return_sequences"})
_VALUES = frozenset(
    {
        *GenerationConfig().to_dict(),  # type: ignore[no-untyped-call]
        *("generation_config", "tokenizer"),  # which stop strings need
    }
)
_STATEFUL = (
    "logits_processor",
    "stopping_criteria",
    "prefix_allowed_tokens_fn",
    "negative_prompt_ids",
    "custom_generate",
)
# What may forbid or force tokens, where its work was not watched.
_CONSTRAINTS = ("logits_processor", "prefix_allowed_tokens_fn")


def generation_setting(model: PreTrainedModel, arguments: dict[str, Any], name: str) -> Any:
    """What `generate` goes by: its own argument (even None), the given config, the model's."""
    if name in arguments:
        return arguments[name]
    given = getattr(arguments.get("generation_config"), name, None)
    return getattr(model.generation_config, name, None) if given is None else given


def eos_ids_of(model: PreTrainedModel, arguments: dict[str, Any]) -> frozenset[int]:
    """The ids that end a response; none where nothing is set."""
    eos = generation_setting(model, arguments, "eos_token_id")
    if eos is None:
        return frozenset()
    return frozenset(int(i) for i in torch.as_tensor(eos).flatten())


def read_settings(arguments: dict[str, Any], changing: Sequence[str] | None) -> GenerationSettings:
    """The settings of a `generate` call; later changes do not reach them.

    `changing` names the processors of logits that changed tokens, None if they were not watched.
    """
    values = {
        name: copy.deepcopy(value) if isinstance(value, GenerationConfig) else value
        for name, value in arguments.items()
        if name in _VALUES and not (name in _OUTPUT or name.startswith("output_"))
    }
    left_out = tuple(name for name in _STATEFUL if _is_given(arguments.get(name)))
    unwatched = _CONSTRAINTS if changing is None else ()
    constraints = tuple(name for name in left_out if name in (*unwatched, "custom_generate"))
    return GenerationSettings(values, left_out, (*(changing or ()), *constraints))


def _is_given(value: object) -> bool:
    return value is not None and not (isinstance(value, Sized) and len(value) == 0)
