"""What a `generate` call was given besides token ids."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from transformers import GenerationConfig, GenerationMixin, PreTrainedModel

from attribot_rag.model.generation import CACHE_NAMES, Conditioning, TokenInput, holds_cache
from attribot_rag.model.local_backend import placeholder_ids

_NEUTRAL = frozenset(
    {
        *inspect.signature(GenerationMixin.generate).parameters,
        *GenerationConfig().to_dict(),  # type: ignore[no-untyped-call]
        *("input_ids", "attention_mask", "cache_position", "logits_to_keep", *CACHE_NAMES),
        *("decoder_input_ids", "decoder_attention_mask", "tokenizer"),
    }
)
_STATES = frozenset({"inputs_embeds", "encoder_outputs"})


def read_conditioning(
    model: PreTrainedModel,
    arguments: dict[str, Any],
    prompts: torch.Tensor,
    mask: torch.Tensor,
    row: int,
) -> Conditioning:
    """What conditioned one of the prompts [num_prompts, positions] besides its ids."""
    whole: dict[str, Any] = {}
    per_token: dict[str, TokenInput] = {}
    unknown: list[str] = []
    if "prepare_inputs_for_generation" in vars(model):  # as prompt and prefix tuning do
        unknown.append("prepare_inputs_for_generation")
    for name, value in arguments.items():
        if name in _NEUTRAL or value is None:
            continue
        if name == "position_ids" and _counts(value, mask):
            continue
        token_input = _token_input(model, value, prompts, mask, row)
        if token_input is not None:
            per_token[name] = token_input
        elif (
            len(prompts) > 1 or name in _STATES or holds_cache(value) or _is_aligned(value, prompts)
        ):
            unknown.append(name)
        else:
            whole[name] = value
    return Conditioning(whole, per_token, tuple(unknown))


def _is_aligned(value: object, prompts: torch.Tensor) -> bool:
    """Whether a value has an entry for each token of each prompt."""
    if not isinstance(value, torch.Tensor) or value.dtype.is_floating_point:
        return False
    return value.shape[:2] == prompts.shape or (
        value.dim() == 3 and value.shape[1:] == prompts.shape
    )


def _counts(value: object, mask: torch.Tensor) -> bool:
    """Whether positions are those that the mask gives: one after the other, padding aside."""
    if not isinstance(value, torch.Tensor) or value.shape != mask.shape:
        return False
    expected = mask.long().cumsum(-1) - 1
    return bool((value.to(expected.device) == expected)[mask].all())


def _token_input(
    model: PreTrainedModel, value: object, prompts: torch.Tensor, mask: torch.Tensor, row: int
) -> TokenInput | None:
    """The values of a prompt's tokens, None unless equal ids have equal values.

    New tokens get the value of the last token of text, as `generate` has it.
    """
    if not (_is_aligned(value, prompts) and isinstance(value, torch.Tensor) and value.dim() == 2):
        return None
    visible = mask[row]
    values = value[row].to(visible.device)[visible].tolist()
    ids = prompts[row][visible].tolist()
    by_id: dict[int, int] = {}
    for token_id, one in zip(ids, values, strict=True):
        if by_id.setdefault(token_id, one) != one:
            return None
    others = placeholder_ids(model)
    return TokenInput(by_id, next((by_id[i] for i in reversed(ids) if i not in others), 0))
