"""How a `generate` call was told to answer."""

from __future__ import annotations

import copy
from collections.abc import Sized
from typing import Any

from transformers import GenerationConfig

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
# What forbids or forces tokens; grammars come as processors or functions.
_CONSTRAINTS = (
    *("bad_words_ids", "force_words_ids", "constraints", "sequence_bias", "suppress_tokens"),
    *("begin_suppress_tokens", "forced_bos_token_id", "no_repeat_ngram_size", "guidance_scale"),
    *("logits_processor", "prefix_allowed_tokens_fn", "custom_generate"),
)
_NEUTRAL = {"no_repeat_ngram_size": 0, "guidance_scale": 1}


def read_settings(arguments: dict[str, Any]) -> GenerationSettings:
    """The settings among the arguments of a `generate` call; later changes do not reach them."""
    values = {
        name: copy.deepcopy(value) if isinstance(value, GenerationConfig) else value
        for name, value in arguments.items()
        if name in _VALUES and not (name in _OUTPUT or name.startswith("output_"))
    }
    given = {name: arguments.get(name) for name in _STATEFUL}
    left_out = tuple(name for name, value in given.items() if _is_given(value))
    config = arguments.get("generation_config")
    set_to = {name: arguments.get(name, getattr(config, name, None)) for name in _CONSTRAINTS}
    constraints = tuple(
        name for name, value in set_to.items() if _is_given(value) and value != _NEUTRAL.get(name)
    )
    return GenerationSettings(values, left_out, constraints)


def _is_given(value: object) -> bool:
    return value is not None and not (isinstance(value, Sized) and len(value) == 0)
