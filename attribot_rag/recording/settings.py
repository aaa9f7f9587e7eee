"""How a `generate` call was told to answer."""

from __future__ import annotations

import copy
from collections.abc import Sized
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
# What forbids or forces tokens; grammars come as processors or functions.
_CONSTRAINTS = (
    *("bad_words_ids", "force_words_ids", "constraints", "sequence_bias", "suppress_tokens"),
    *("begin_suppress_tokens", "forced_bos_token_id", "no_repeat_ngram_size"),
    *("encoder_no_repeat_ngram_size", "guidance_scale"),
    *("logits_processor", "prefix_allowed_tokens_fn", "custom_generate"),
)
_NEUTRAL = {"no_repeat_ngram_size": 0, "encoder_no_repeat_ngram_size": 0, "guidance_scale": 1}


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


def read_settings(
    model: PreTrainedModel, arguments: dict[str, Any], *, processors_constrain: bool
) -> GenerationSettings:
    """The settings of a `generate` call; later changes do not reach them.

    `processors_constrain` says whether processors of logits that it was given forbid or force
    tokens, or may do so.
    """
    values = {
        name: copy.deepcopy(value) if isinstance(value, GenerationConfig) else value
        for name, value in arguments.items()
        if name in _VALUES and not (name in _OUTPUT or name.startswith("output_"))
    }
    given = {name: arguments.get(name) for name in _STATEFUL}
    left_out = tuple(name for name, value in given.items() if _is_given(value))
    set_to = {name: generation_setting(model, arguments, name) for name in _CONSTRAINTS}
    if not processors_constrain:
        del set_to["logits_processor"]
    constraints = tuple(
        name for name, value in set_to.items() if _is_given(value) and value != _NEUTRAL.get(name)
    )
    return GenerationSettings(values, left_out, constraints)


def _is_given(value: object) -> bool:
    return value is not None and not (isinstance(value, Sized) and len(value) == 0)
