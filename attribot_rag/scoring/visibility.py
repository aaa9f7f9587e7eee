"""Which keys a query may see, as the model itself has it: causal, windows, chunks."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from transformers import AttentionMaskInterface, PreTrainedConfig
from transformers.masking_utils import causal_mask_function, create_masks_for_generate

VISIBILITY = "attribot_packed"

# Any: of the batch, the head, the query and the key; transformers types them as numbers.
MaskFunction = Callable[[Any, Any, Any, Any], Any]


@dataclass(frozen=True, eq=False)
class Visibility:
    """The mask of a kind of layers, as a function of positions.

    transformers hands it to the attention function of each layer in place of a mask tensor.
    """

    function: MaskFunction

    @property
    def is_causal(self) -> bool:
        """Whether a query sees every key before it."""
        return self.function is causal_mask_function

    def visible(self, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        """Whether the query at a position sees the key at another one: bool [queries, keys]."""
        zero = torch.zeros((), dtype=torch.long)
        seen = self.function(zero, zero, queries[:, None], keys[None])
        return torch.as_tensor(seen).expand(len(queries), len(keys))


def visibilities(config: PreTrainedConfig) -> dict[str | None, Visibility]:
    """What each type of layers may see by the configuration; one for None if there are no types."""
    config = copy.copy(config.get_text_config(decoder=True))
    config._attn_implementation = VISIBILITY
    one = torch.ones(1, 1)
    required = [
        name
        for name, parameter in inspect.signature(create_masks_for_generate).parameters.items()
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
    ]
    values = (config, one[..., None], one, *(None,) * len(required[3:]))
    arguments = dict(zip(required, values, strict=True))
    if "cache_position" in arguments:  # which older releases go by
        arguments["cache_position"] = torch.zeros(1, dtype=torch.long)
    masks = create_masks_for_generate(**arguments)
    return dict(masks) if isinstance(masks, dict) else {None: masks}


def visibility_mask(mask_function: MaskFunction, **_: Any) -> Visibility:
    """A mask function for transformers' AttentionMaskInterface."""
    return Visibility(mask_function)


AttentionMaskInterface.register(VISIBILITY, visibility_mask)
