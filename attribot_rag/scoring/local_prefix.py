"""Prefixes that run the model in this process: the reference, and a cropped cache."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import (
    AttentionMaskInterface,
    DynamicCache,
    GenerationConfig,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.cache_utils import DynamicLayer
from transformers.masking_utils import causal_mask_function, create_masks_for_generate

from attribot_rag.model.generation import (
    Generation,
    LayerCache,
    PromptCache,
    cache_inputs,
    read_in_pieces,
)
from attribot_rag.scoring.backend import (
    Batching,
    Prefix,
    Reading,
    Unsupported,
    in_columns,
)
from attribot_rag.scoring.memory import default_budget, token_bytes
from attribot_rag.scoring.row import Row

_SOFTMAX_ELEMENTS = 1 << 22
_ATTENTION_LAYERS = frozenset({"full_attention", "sliding_attention", "chunked_attention"})

PACKED_ATTENTION = "attribot_packed"
"""The name under which transformers knows the attention function and its mask."""

# Any: batch, head, query and key, which transformers types as numbers.
MaskFunction = Callable[[Any, Any, Any, Any], Any]


class LocalPrefix(Prefix):
    """A prefix that runs a twin of the model in one way.

    `attention_function` is the function that the twin needs, None for the model's own. `native` is
    the twin with the model's own function, by default this twin. `inference` says that passes run
    in inference mode, which takes fewer operations. `attends_at_once` asks for small passes in
    which each layer attends to all keys in one operation.
    """

    attention_function: ClassVar[str | None] = None
    why_no_masks: str | None = None
    attends_at_once: bool = False

    def __init__(
        self,
        twin: PreTrainedModel,
        generation: Generation,
        native: PreTrainedModel | None = None,
        *,
        inference: bool = False,
    ) -> None:
        super().__init__(generation)
        self.twin = twin
        self.native = twin if native is None else native
        self.inference = inference
        self.device = twin.device
        self._forward_parameters = frozenset(inspect.signature(twin.forward).parameters)

    @classmethod
    def why_not_for(cls, model: PreTrainedModel, num_tokens: int) -> str | None:
        """Why the architecture does not allow this implementation for such long rows, or None."""
        return None

    @classmethod
    def why_no_masks_for(cls, model: PreTrainedModel) -> str | None:
        """Why the architecture does not allow rows that hide a part of the prompt, or None."""
        config = model.config.get_text_config(decoder=True)
        if keeps_states(model):
            return "it has layers that keep states, in which nothing can be hidden"
        if "local" in (getattr(config, "attention_layers", None) or ()):
            return "it has layers whose window counts tokens of the input, whatever their positions"
        if "position_ids" not in inspect.signature(model.forward).parameters:
            return "it counts tokens of the input, whatever their positions"
        return None

    def read(self, reading: Reading | None = None) -> None:
        """Nothing to do: rows that share no cache are read one by one."""

    def num_tokens(self, row: Row) -> int:
        return row.visible_end + row.num_new

    def log_likelihoods(self, rows: Sequence[Row]) -> Tensor:
        self.read()  # does nothing if the prompt is read
        self.scored_tokens += sum(map(self.num_tokens, rows))
        with torch.inference_mode(self.inference), torch.no_grad():
            return self.score(rows)

    def score(self, rows: Sequence[Row]) -> Tensor:
        """Log-probabilities in nats, float32 on the CPU: [num_rows, num_response_tokens]."""
        return torch.cat([self.score_one(row) for row in rows])

    def score_one(self, row: Row) -> Tensor:
        """Log-probabilities of one row, in a pass of its own: [1, num_response_tokens]."""
        raise NotImplementedError

    def batching(self, token_budget: int | None) -> Batching:
        """By tokens. A position whose logits are needed counts as several, by its memory."""
        token = token_bytes(self.twin)
        # Logits at a position, and their softmax in float32.
        vocab_size = int(self.twin.config.get_text_config(decoder=True).vocab_size)
        head = vocab_size * (self.twin.dtype.itemsize + 4)

        def cost(row: Row) -> int:
            return self.num_tokens(row) + len(row.targets) * head // token

        return Batching(token_budget or default_budget(self.device, token), cost)

    def _bias(self, row: Row, *, encoded: bool) -> Tensor | dict[str, Tensor]:
        """The numbers added to attention scores under a masked row, perhaps by type of layer.

        For the new tokens after a cache, or with `encoded` for the whole sequence. [1, 1, queries,
        visible_end + new tokens]: 0 or, as in transformers, the least finite number instead of
        -inf.
        """
        positions = torch.tensor([*range(row.visible_end), *row.positions])
        mask = row_mask(row)
        if encoded:
            prompt = torch.ones(row.visible_end, len(positions)).tril_().bool()
            mask = torch.cat([prompt, mask])
        queries = positions[len(positions) - len(mask) :]
        least = torch.finfo(self.twin.dtype).min

        def added(visibility: Visibility) -> Tensor:
            inside = mask & (visibility.is_causal | visibility.mask(queries, positions))
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

        NaN at tokens that a row does not score.
        """
        ids = [token_id for row in rows for token_id in row.targets]
        targets = torch.tensor(ids, device=logits.device)
        step = max(1, _SOFTMAX_ELEMENTS // logits.shape[-1])
        parts = []
        for part, target in zip(torch.split(logits, step), torch.split(targets, step), strict=True):
            parts.append(-cross_entropy(part.float(), target, reduction="none"))
        return in_columns(torch.cat(parts).cpu(), rows, len(self.generation.response_ids))


class Reference(LocalPrefix):
    """A plain forward pass over each row without a cache, for any causal model."""

    name: ClassVar[str] = "reference"

    def score_one(self, row: Row) -> Tensor:
        ids = torch.tensor([row.full_ids(self.generation)], device=self.device)
        last, num_targets = ids.shape[1], len(row.targets)
        if length_dependent_rope(self.twin) is not None:
            # A short pass resets the frequencies that a longer row has set.
            self.twin(input_ids=torch.zeros(1, 1, dtype=torch.long, device=self.device))
            if rope_changes(self.twin, last - num_targets + 1, last):
                return self._generated(ids, row)
        inputs: dict[str, Any] = {"input_ids": ids, "use_cache": False}
        if not row.has_no_gap:
            positions = torch.tensor([[*range(row.visible_end), *row.positions]])
            inputs["position_ids"] = positions.to(self.device)
            inputs["attention_mask"] = self._bias(row, encoded=True)
        scored = torch.arange(last - num_targets, last, device=self.device)
        return self.target_log_probabilities(self._logits(scored, **inputs), [row])

    def _generated(self, ids: Tensor, row: Row) -> Tensor:
        """The row as `generate` computes it: token by token, choosing the response's tokens.

        The model decides at which length it encodes earlier tokens again.
        """
        num_prompt = ids.shape[1] - len(row.targets) + 1
        config: Any = GenerationConfig
        self.twin.generation_config = config(pad_token_id=0)
        generated = self.twin.generate(  # type: ignore[operator]
            ids[:, :num_prompt],
            max_new_tokens=len(row.targets),
            prefix_allowed_tokens_fn=lambda _, ids: [row.targets[len(ids) - num_prompt]],
            output_logits=True,
            return_dict_in_generate=True,
        )
        return self.target_log_probabilities(torch.cat(generated.logits), [row])


class CachedPrefix(LocalPrefix):
    """Shares the prefix cache: the generation's own, or one that is read once."""

    _is_read = False

    @classmethod
    def why_not_for(cls, model: PreTrainedModel, num_tokens: int) -> str | None:
        if keeps_states(model):
            return "it has layers that keep states, which cannot be cropped to a part of the prompt"
        rope_limit = length_dependent_rope(model)
        if rope_limit is not None and num_tokens > rope_limit:
            return f"its rotary frequencies depend on the length beyond {rope_limit} tokens"
        return None

    @property
    def num_unread(self) -> int:
        if self._is_read:
            return 0
        return len(self.generation.prompt_ids) - 1 - self.generation.num_cached

    def read(self, reading: Reading | None = None) -> None:
        if self._is_read:
            return
        generation = self.generation
        prompt_ids = generation.prompt_ids[:-1]
        self.prompt_cache = generation.cache or ()
        num_unread = len(prompt_ids) - generation.num_cached
        if num_unread:
            before_piece = (reading or Reading()).before_piece
            with torch.inference_mode(self.inference), torch.no_grad():
                self.prompt_cache = prefill(
                    self.native, prompt_ids, before_piece, begun=self.prompt_cache
                )
            self.prefilled_tokens = num_unread
        self._is_read = True

    def num_tokens(self, row: Row) -> int:
        return row.num_new

    def _inputs(self, token_ids: Sequence[int], positions: Sequence[int]) -> dict[str, Tensor]:
        ids, places = torch.tensor([[token_ids], [positions]]).to(self.device)  # sent at once
        return {"input_ids": ids, "position_ids": places}


class Cropped(CachedPrefix):
    """One forward pass for each row on the prompt's cache, cropped to what the row sees."""

    name: ClassVar[str] = "cropped"

    def score_one(self, row: Row) -> Tensor:
        start, num_new = row.visible_end, row.num_new
        mask: Tensor | dict[str, Tensor]
        if row.has_no_gap:
            mask = torch.ones(1, start + num_new, dtype=torch.long, device=self.device)
        else:
            mask = self._bias(row, encoded=False)
        logits = self._logits(
            torch.arange(num_new, device=self.device)[-len(row.targets) :],
            attention_mask=mask,
            use_cache=True,
            **self._inputs(row.token_ids, row.positions),
            **cache_inputs(self.twin, as_dynamic_cache(self.prompt_cache, start)),
        )
        return self.target_log_probabilities(logits, [row])


def prefill(
    twin: PreTrainedModel,
    token_ids: tuple[int, ...],
    before_piece: Callable[[int], None] = lambda _: None,
    *,
    begun: PromptCache = (),
) -> PromptCache:
    """Encode the ids into a cache that keeps every position, also in sliding windows.

    The ids are read in pieces. `before_piece` is called with the position of each piece. `begun` is
    a cache of the first ids, which does not change. Raises Unsupported if the architecture keeps
    anything other than keys and values.
    """
    start = begun[0].keys.shape[2] if begun else 0
    cache = as_dynamic_cache(begun, start)
    base = getattr(twin, twin.base_model_prefix, twin)
    try:
        read_in_pieces(base, token_ids, cache_inputs(twin, cache), before_piece, start)
    except (TypeError, ValueError, AttributeError) as error:
        raise Unsupported(f"its cache cannot be taken over ({error})") from error
    layers = []
    for layer in cache.layers:
        if type(layer) is not DynamicLayer or layer.get_seq_length() != len(token_ids):
            raise Unsupported("it keeps something other than every position's keys and values")
        assert layer.keys is not None and layer.values is not None
        layers.append(LayerCache(layer.keys, layer.values))
    config = twin.config.get_text_config(decoder=True)
    num_layers = config.num_hidden_layers - (getattr(config, "num_kv_shared_layers", None) or 0)
    if len(layers) != num_layers:
        raise Unsupported(f"{len(layers)} of its {num_layers} layers keep keys and values")
    return tuple(layers)


def as_dynamic_cache(prompt_cache: PromptCache, num_positions: int) -> DynamicCache:
    """A new cache of the first positions: views, which the model's next step replaces."""
    cache = DynamicCache()
    for layer in prompt_cache:
        dynamic = DynamicLayer()  # type: ignore[no-untyped-call]
        dynamic.lazy_initialization(layer.keys, layer.values)
        dynamic.keys = layer.keys[:, :, :num_positions]
        dynamic.values = layer.values[:, :, :num_positions]
        cache.layers.append(dynamic)
    return cache


def row_mask(row: Row) -> Tensor:
    """Whether a new token of a row sees a position: bool [new tokens, visible_end + new tokens].

    The columns are the prompt's first `visible_end` positions and the new tokens.
    """
    width = row.visible_end
    mask = torch.zeros(row.num_new, width + row.num_new, dtype=torch.bool)
    mask[:, width:] = torch.ones(row.num_new, row.num_new).tril_().bool()
    done = 0
    for block in row.blocks:
        end = done + len(block.token_ids)
        for start, stop in block.segments:
            mask[done:end, start:stop] = True
        done = end
    return mask


def keeps_states(model: PreTrainedModel) -> bool:
    """Whether it has layers with states, which cannot be cropped as keys and values can."""
    kinds = getattr(model.config.get_text_config(decoder=True), "layer_types", None) or ()
    layers = DynamicCache(config=model.config).layers
    return (
        bool(set(kinds) - _ATTENTION_LAYERS)
        or bool(getattr(model, "_is_stateful", False))
        or any(hasattr(layer, "conv_states") for layer in layers)
    )


def length_dependent_rope(model: PreTrainedModel) -> int | None:
    """Up to how many tokens the rotary frequencies are constant; None if they never change."""
    return min((limit for _, limit in _rope_limits(model)), default=None)


def rope_changes(model: PreTrainedModel, num_prompt: int, num_tokens: int) -> bool:
    """Whether rotary frequencies change while a model continues a prompt up to so many tokens.

    Then the keys of earlier tokens differ from the keys of a single pass over all tokens.
    """
    return any(
        num_tokens > limit and (num_prompt <= limit or kind == "dynamic")
        for kind, limit in _rope_limits(model)
    )


def _rope_limits(model: PreTrainedModel) -> list[tuple[str, int]]:
    """The rotary embeddings that depend on length: 'longrope' (two kinds) or 'dynamic' (more)."""
    config = model.config.get_text_config(decoder=True)
    parameters = getattr(config, "rope_parameters", None) or {}
    limits = []
    for rope in (parameters, *parameters.values()):  # for all layers, or for each type of them
        if isinstance(rope, dict) and rope.get("rope_type") in ("longrope", "dynamic"):
            limit = rope.get("original_max_position_embeddings") or config.max_position_embeddings
            limits.append((rope["rope_type"], int(limit)))
    return limits


@dataclass(frozen=True, eq=False)
class Visibility:
    """The mask of one kind of layers, as a function of positions.

    transformers passes it to the attention function of each layer in place of a mask tensor.
    """

    function: MaskFunction
    device: torch.device | str = "cpu"
    """The device of the tensors that the function may use."""

    @property
    def is_causal(self) -> bool:
        """Whether a query sees every key before it."""
        return self.function is causal_mask_function

    def mask(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Whether the query at one position sees the key at another: bool [queries, keys]."""
        zero = torch.zeros((), dtype=torch.long, device=self.device)
        queries, keys = queries.to(self.device), keys.to(self.device)
        visible = self.function(zero, zero, queries[:, None], keys[None])
        return torch.as_tensor(visible).cpu().expand(len(queries), len(keys))


def visibilities(config: PreTrainedConfig) -> dict[str | None, Visibility]:
    """The mask of each type of layer in the configuration.

    The key is None if there are no types.
    """
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
    if "cache_position" in arguments:  # older releases use it
        arguments["cache_position"] = torch.zeros(1, dtype=torch.long)
    masks = create_masks_for_generate(**arguments)
    return dict(masks) if isinstance(masks, dict) else {None: masks}


AttentionMaskInterface.register(
    PACKED_ATTENTION,
    lambda mask_function, device="cpu", **_: Visibility(mask_function, device),
)
