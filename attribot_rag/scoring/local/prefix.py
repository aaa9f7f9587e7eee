"""A prefix that runs the model in this process."""

from __future__ import annotations

import copy
import inspect
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import AttentionMaskInterface, DynamicCache, PreTrainedConfig, PreTrainedModel
from transformers.masking_utils import causal_mask_function, create_masks_for_generate

from attribot_rag.model.generation import Generation
from attribot_rag.scoring.backend import Batching, Prefix, Reading
from attribot_rag.scoring.memory import (
    ATTENTION_LAYERS,
    Footprint,
    default_budget,
    logit_bytes,
    token_bytes,
)
from attribot_rag.scoring.row import Row, in_columns

_SOFTMAX_ELEMENTS = 1 << 22

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


def keeps_states(model: PreTrainedModel) -> bool:
    """Whether it has layers that keep states, which cannot be cropped as keys and values can."""
    kinds = getattr(model.config.get_text_config(decoder=True), "layer_types", None) or ()
    layers = DynamicCache(config=model.config).layers
    return (
        bool(set(kinds) - ATTENTION_LAYERS)
        or bool(getattr(model, "_is_stateful", False))
        or any(hasattr(layer, "conv_states") for layer in layers)
    )


class LocalPrefix(Prefix):
    """A prefix on a twin of the model, by one way of running it.

    `attention_function` is the one that the twin needs, None for the model's own; `native` is the
    twin with that, which is this one by default.
    `without_gradients` makes the context of each pass.
    """

    attention_function: ClassVar[str | None] = None
    masked_refusal: str | None = None  # a probe looks
    without_gradients: Callable[[], AbstractContextManager[None]] = torch.no_grad

    def __init__(
        self, twin: PreTrainedModel, generation: Generation, native: PreTrainedModel | None = None
    ) -> None:
        super().__init__(generation)
        self.twin = twin
        self.native = twin if native is None else native
        self.device = twin.device
        self._forward_parameters = frozenset(inspect.signature(twin.forward).parameters)

    @classmethod
    def refusal(cls, model: PreTrainedModel, num_tokens: int) -> str | None:
        """Why the architecture rules this implementation out for rows of this length, or None."""
        return None

    @classmethod
    def masking_refusal(cls, model: PreTrainedModel) -> str | None:
        """Why the architecture rules out rows that hide a part of the prompt, or None."""
        config = model.config.get_text_config(decoder=True)
        if keeps_states(model):
            return "it has layers that keep states, in which nothing can be hidden"
        if "local" in (getattr(config, "attention_layers", None) or ()):
            return "it has layers whose window goes by the place in the input, not by a position"
        if "position_ids" not in inspect.signature(model.forward).parameters:
            return "it goes by the place of a token in its input, not by a position"
        return None

    def read(self, reading: Reading | None = None) -> None:
        """Nothing: rows that share nothing are read one by one."""

    def num_tokens(self, row: Row) -> int:
        return row.num_visible + row.num_tokens

    def log_likelihoods(self, rows: Sequence[Row]) -> Tensor:
        self.read()
        self.scored_tokens += sum(map(self.num_tokens, rows))
        with self.without_gradients():
            return self.score(rows)

    @abstractmethod
    def score(self, rows: Sequence[Row]) -> Tensor:
        """Log-probabilities in nats, float32 on the CPU: [num_rows, num_response_tokens]."""

    def footprint(self, branch: int, num_units: int) -> Footprint:
        return Footprint.of(self.twin, self.generation, num_units)

    def batching(self, token_budget: int | None) -> Batching:
        """By tokens; a position whose logits are needed counts as several, by its memory."""
        token = token_bytes(self.twin)
        head = logit_bytes(self.twin)

        def cost(row: Row) -> int:
            return self.num_tokens(row) + len(row.targets(self.generation)) * head // token

        return Batching(token_budget or default_budget(self.device, token), cost)

    def _mask(self, row: Row, *, encoded: bool) -> Tensor | dict[str, Tensor]:
        """The addend to attention scores under a masked row; by type of layers, if there are types.

        For the new tokens on a cache, or (`encoded`) for the whole sequence before them, too.
        [1, 1, queries, num_visible + new tokens]: 0 or, as transformers has it, the least finite
        number in place of -inf.
        """
        before = torch.arange(row.num_visible)
        positions = torch.cat([before, torch.tensor(row.positions)])
        visible = row.visible
        if encoded:
            prompt = torch.ones(row.num_visible, len(positions)).tril_().bool()
            visible = torch.cat([prompt, visible])
        queries = positions[len(positions) - len(visible) :]
        least = torch.finfo(self.twin.dtype).min

        def added(visibility: Visibility) -> Tensor:
            inside = visible & (visibility.is_causal | visibility.visible(queries, positions))
            bias = torch.zeros(inside.shape, dtype=self.twin.dtype).masked_fill_(~inside, least)
            return bias[None, None].to(self.device)

        by_type = visibilities(self.twin.config)
        if None in by_type or all(visibility.is_causal for visibility in by_type.values()):
            return added(next(iter(by_type.values())))
        return {str(layers): added(visibility) for layers, visibility in by_type.items()}

    def _logits(self, positions: Tensor, **inputs: Any) -> Tensor:
        """The model's own logits at these positions of a batch of one: [num_positions, vocab]."""
        inputs = {name: value for name, value in inputs.items() if name in self._forward_parameters}
        if "logits_to_keep" in self._forward_parameters:
            logits = self.twin(**inputs, logits_to_keep=positions, return_dict=True).logits[0]
            return torch.as_tensor(logits)
        return torch.as_tensor(self.twin(**inputs, return_dict=True).logits[0, positions])

    def target_log_probabilities(self, logits: Tensor, rows: Sequence[Row]) -> Tensor:
        """From [targets of the rows, vocab] to float32 [rows, response tokens] on the CPU.

        NaN at tokens that a row does not say.
        """
        ids = [token_id for row in rows for token_id in row.targets(self.generation)]
        targets = torch.tensor(ids, device=logits.device)
        step = max(1, _SOFTMAX_ELEMENTS // logits.shape[-1])
        parts = []
        for part, target in zip(torch.split(logits, step), torch.split(targets, step), strict=True):
            parts.append(-cross_entropy(part.float(), target, reduction="none"))
        return in_columns(torch.cat(parts).cpu(), rows, len(self.generation.response_ids))
