"""Which positions a token sees in a layer: the model's own masks, as functions of positions."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionMaskInterface, PreTrainedConfig
from transformers.masking_utils import causal_mask_function, create_masks_for_generate

PACKED_ATTENTION = "attribot_packed"
"""The name of the attention function, and of its mask, by which transformers knows them."""

# Any: of the batch, the head, the query and the key; transformers types them as numbers.
MaskFunction = Callable[[Any, Any, Any, Any], Any]


@dataclass(frozen=True, eq=False)
class Visibility:
    """The mask of a kind of layers, as a function of positions.

    transformers hands it to the attention function of each layer in place of a mask tensor.
    """

    function: MaskFunction
    device: torch.device | str = "cpu"
    """That of the tensors that the function may hold."""

    @property
    def is_causal(self) -> bool:
        """Whether a query sees every key before it."""
        return self.function is causal_mask_function

    def visible(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Whether the query at a position sees the key at another one: bool [queries, keys]."""
        zero = torch.zeros((), dtype=torch.long, device=self.device)
        queries, keys = queries.to(self.device), keys.to(self.device)
        visible = self.function(zero, zero, queries[:, None], keys[None])
        return torch.as_tensor(visible).cpu().expand(len(queries), len(keys))


def visibilities(config: PreTrainedConfig) -> dict[str | None, Visibility]:
    """The mask of each type of layers by the configuration; of None if there are no types."""
    config = copy.copy(config.get_text_config(decoder=True))
    config._attn_implementation = PACKED_ATTENTION
    token = torch.ones(1, 1)
    required = [
        name
        for name, parameter in inspect.signature(create_masks_for_generate).parameters.items()
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
    ]
    values = (config, token[..., None], token, *(None,) * len(required[3:]))
    arguments = dict(zip(required, values, strict=True))
    if "cache_position" in arguments:  # which older releases go by
        arguments["cache_position"] = torch.zeros(1, dtype=torch.long)
    masks = create_masks_for_generate(**arguments)
    return dict(masks) if isinstance(masks, dict) else {None: masks}


AttentionMaskInterface.register(
    PACKED_ATTENTION,
    lambda mask_function, device="cpu", **_: Visibility(mask_function, device),
)
