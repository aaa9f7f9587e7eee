"""The contract of scoring implementations."""

from __future__ import annotations

import copy
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import AttentionMaskInterface, PreTrainedConfig, PreTrainedModel
from transformers.masking_utils import causal_mask_function, create_masks_for_generate

from attribot_rag.model.generation import Generation
from attribot_rag.scoring.log_likelihoods import Effects, Patch
from attribot_rag.scoring.row import Row

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

ATTENTION_LAYERS = frozenset({"full_attention", "sliding_attention", "chunked_attention"})

_SOFTMAX_ELEMENTS = 1 << 22

Reduction = Literal["largest", "total"]


class Unsupported(Exception):
    """An implementation cannot serve this model; the message says why."""


class OutOfTime(Exception):
    """The budget ended while the prompt was read, or while a server was waited for."""


@dataclass(frozen=True, eq=False)
class Prefill:
    """Reading of the prompt in pieces, before the first row.

    `branches` are ascending positions from which rows are expected to go on. `before_piece` is
    called with the position of each piece; it may raise OutOfTime. `deadline` is the end of the
    budget's seconds, a time of `time.perf_counter`; another machine is waited for no longer.
    """

    branches: Sequence[int] = ()
    before_piece: Callable[[int], None] = lambda _: None
    deadline: float | None = None


class Implementation(ABC):
    """Log-likelihoods of a response under rows, by one way of running the model.

    `prefilled_tokens` and `scored_tokens` count the tokens that went through the model.
    `sees_weights` says that `weights` and `effects` are available, else they raise Unsupported.
    `packs_rows` says that all rows of a call go through the model in one forward pass.
    """

    name: ClassVar[str]
    sees_weights: ClassVar[bool] = False
    packs_rows: ClassVar[bool] = False

    def __init__(self, generation: Generation, prefill: Prefill | None = None) -> None:
        self.generation = generation
        self.prefill = prefill or Prefill()
        self.prefilled_tokens = 0
        self.scored_tokens = 0

    def num_tokens(self, row: Row) -> int:
        """Tokens of the row that have to go through the model."""
        return row.num_tokens

    @abstractmethod
    def log_likelihoods(self, rows: Sequence[Row]) -> Tensor:
        """Log-probabilities in nats, float32 on the CPU: [num_rows, num_response_tokens]."""

    def weights(self, row: Row, reduction: Reduction) -> Tensor:
        """Attention weights from the row's tokens to each encoded token of the prompt.

        [num_prompt_tokens], on the CPU, summed over heads and layers: the 'largest' weight from
        any of the row's tokens, or the 'total' over them.
        """
        raise Unsupported("it does not see attention weights")

    def effects(self, row: Row, patch: Patch) -> Effects:
        """The drop of the log-likelihood of each part of the response without each unit.

        A forward pass over each row, and as many back as the patch says.
        """
        raise Unsupported("it does not see attention weights")


class TwinImplementation(Implementation):
    """An implementation that runs a twin of the model.

    `attention` is the attention function that the twin needs, None for the model's own. `prepare`
    is called once before the first row.
    """

    attention: ClassVar[str | None] = None

    def __init__(
        self, twin: PreTrainedModel, generation: Generation, prefill: Prefill | None = None
    ) -> None:
        super().__init__(generation, prefill)
        self.twin = twin
        self.device = twin.device
        self._targets = torch.tensor(generation.response_ids, device=self.device)
        self._forward_parameters = frozenset(inspect.signature(twin.forward).parameters)

    @classmethod
    def refusal(cls, model: PreTrainedModel, num_tokens: int) -> str | None:
        """Why the architecture rules this implementation out for rows of this length, or None."""
        return None

    @classmethod
    def masked_refusal(cls, model: PreTrainedModel) -> str | None:
        """Why the architecture rules out rows that hide a part of the prompt, or None."""
        config = model.config.get_text_config(decoder=True)
        recurrent = set(getattr(config, "layer_types", None) or ()) - ATTENTION_LAYERS
        if model.config.is_encoder_decoder:
            return "its prompt is the encoder's input, whose states depend on all of it"
        if recurrent:
            return "it has layers that keep states, in which nothing can be hidden"
        if "local" in (getattr(config, "attention_layers", None) or ()):
            return "it has layers whose window goes by the place in the input, not by a position"
        if "position_ids" not in inspect.signature(model.forward).parameters:
            return "it goes by the place of a token in its input, not by a position"
        return None

    def prepare(self, native: PreTrainedModel) -> None:
        """Prepare the state of all rows; `native` is a twin with the model's own attention."""

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

    def _target_log_probabilities(self, logits: Tensor) -> Tensor:
        """From [rows * response tokens, vocab] to float32 [rows, response tokens]."""
        targets = self._targets.to(logits.device).repeat(len(logits) // len(self._targets))
        step = max(1, _SOFTMAX_ELEMENTS // logits.shape[-1])
        parts = []
        for part, target in zip(torch.split(logits, step), torch.split(targets, step), strict=True):
            parts.append(-cross_entropy(part.float(), target, reduction="none"))
        return torch.cat(parts).view(-1, len(self._targets)).cpu()
