"""Scores many rows in one forward pass that shares the prefix cache, and observes attention.

A pass with two rows, of one block and of two, after a cached prompt of ten tokens:

            cached prompt         sequence
            0 1 2 3 4 5 6 7 8 9   0 1 2 3 4 5
    row a   x x x x . . . . . .   a a a . . .   block a sees the segment [0, 4)
    row b   x x . . . . . . . .   . . . b . .   block b sees [0, 2)
            x x . . x x x x . .   . . . b c c   block c sees [0, 2), [4, 8) and block b

A `PackedLayout` holds the blocks of the sequence. Tokens see the tokens before them in their block.
A `View` has some tokens of a block, and all `Keys` that they see.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, PreTrainedModel

from attribot_rag.context.text import Interval
from attribot_rag.model.generation import PromptCache
from attribot_rag.scoring.backend import Batching, Unsupported
from attribot_rag.scoring.local_prefix import PACKED_ATTENTION, CachedPrefix, Visibility
from attribot_rag.scoring.patching import Effects, Patch, PatchedAttention
from attribot_rag.scoring.row import Row

_HARMLESS = frozenset(
    {
        *("position_ids", "use_cache", "return_dict", "cache_position", "position_embeddings"),
        "sliding_window",  # the layer's mask has it too, and is used here
    }
)

_MOST_AT_ONCE = 1 << 26  # places of the mask, of up to 4 bytes each
_MASKED_QUERIES = 512  # at a time, if the mask is not just causal

Attended = tuple[Tensor, Tensor]
"""The output [1, heads, queries, value_dim] and the log-sum-exp [1, heads, queries]."""


class Packed(CachedPrefix):
    """Rows end to end in one sequence: large matrices for the linear layers, no padding.

    If it `attends_at_once`, each layer attends to all keys in one operation, in passes that are
    small enough for its mask. Otherwise, each block of a row attends to its own keys.
    """

    name: ClassVar[str] = "packed"
    attention_function: ClassVar[str | None] = PACKED_ATTENTION
    packs_rows: ClassVar[bool] = True

    @classmethod
    def why_not_for(cls, model: PreTrainedModel, num_tokens: int) -> str | None:
        config = model.config.get_text_config(decoder=True)
        if not getattr(model, "_supports_attention_backend", False):
            return "its attention cannot be replaced through transformers' AttentionInterface"
        limit = getattr(config, "floor_scale", None)  # Llama 4 tunes queries by their index
        if getattr(config, "attn_temperature_tuning", False) and limit and num_tokens > limit:
            return f"its queries depend on their place in the input beyond {limit} tokens"
        return super().why_not_for(model, num_tokens)

    def score(self, rows: Sequence[Row], observer: AttentionObserver | None = None) -> Tensor:
        ids: list[int] = []
        logit_places: list[int] = []
        for row in rows:
            ids += row.token_ids
            logit_places += range(len(ids) - len(row.targets), len(ids))
        most = most_tokens_at_once(self.twin, len(self.generation.prompt_ids))
        at_once = self.attends_at_once and len(ids) <= most
        layout = PackedLayout.of(rows, self.prompt_cache, observer, at_once=at_once)
        with packed_layout(layout):
            logits = self._logits(
                torch.tensor(logit_places).to(self.device),
                # without it, transformers would look for packed texts in the positions
                attention_mask=torch.ones(1, len(ids), dtype=torch.long, device=self.device),
                use_cache=False,
                **self._inputs(ids, layout.positions.tolist()),
            )
        num_layers = self.twin.config.get_text_config(decoder=True).num_hidden_layers
        if len(layout.layers_seen) != num_layers:
            raise Unsupported(
                f"{len(layout.layers_seen)} of its {num_layers} layers attend through "
                "transformers' AttentionInterface"
            )
        return self.target_log_probabilities(logits, rows)

    def batching(self, token_budget: int | None) -> Batching:
        batching = super().batching(token_budget)
        if not self.attends_at_once:
            return batching
        most = most_tokens_at_once(self.twin, len(self.generation.prompt_ids))
        share, cost = batching.budget / most, batching.cost
        return replace(
            batching, cost=lambda row: max(cost(row), math.ceil(self.num_tokens(row) * share))
        )

    @property
    def sees_attention(self) -> bool:
        return self.why_no_masks is None

    def effects(self, row: Row, patch: Patch) -> Effects:
        self.read()
        with torch.inference_mode(False), torch.enable_grad():
            patch = replace(patch, members=patch.members.to(self.device))
            observer = self.observer_for(row, patch)
            return observer.effects(self.score([row] * patch.num_rows, observer))

    def observer_for(self, row: Row, patch: Patch) -> PatchedAttention:
        """The observer of the rows of a patch."""
        num_cached = self.prompt_cache[0].keys.shape[2] if self.prompt_cache else 0
        num_response = len(self.generation.response_ids)
        return PatchedAttention(patch, row.num_new, num_response, num_cached)


class PackedAtOnce(Packed):
    """Packed as it runs if passes are expensive, for probes."""

    name: ClassVar[str] = "packed at once"
    attends_at_once = True


@dataclass(frozen=True, eq=False)
class PackedLayout:
    """Rows in one sequence, block by block.

    `positions` [tokens] are the positions of all tokens. `layers_seen` collects the layers that
    attended, to notice layers of another kind. With `at_once`, layers attend to all keys in one
    operation if their attention allows it. With an `observer`, they always do, and it sees that.
    """

    cache: PromptCache
    positions: Tensor
    blocks: tuple[PackedBlock, ...]
    observer: AttentionObserver | None = None
    layers_seen: set[int] = field(default_factory=set)
    at_once: bool = False
    _biases: dict[tuple[int, int], Tensor] = field(default_factory=dict)
    _views: dict[int, list[View]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        rows: Sequence[Row],
        cache: PromptCache,
        observer: AttentionObserver | None = None,
        *,
        at_once: bool = False,
    ) -> PackedLayout:
        blocks: list[PackedBlock] = []
        positions: list[int] = []
        for row in rows:
            row_start = len(positions)
            for block in row.blocks:
                start = len(positions)
                positions += block.positions
                blocks.append(PackedBlock((start, len(positions)), row_start, block.segments))
        return cls(cache, torch.tensor(positions), tuple(blocks), observer, at_once=at_once)

    def views(self, visibility: Visibility, device: torch.device) -> list[View]:
        """The views of all tokens in the layers with this mask. Made once, on this device.

        The model holds its masks during a pass, so their ids are unique.
        """
        views = self._views.get(id(visibility))
        if views is None:
            views = []
            for block in self.blocks:
                if visibility.is_causal:
                    views.append(block.causal_view())
                else:
                    views += block.masked_views(visibility, self.positions, device)
            self._views[id(visibility)] = views
        return views

    def bias(
        self, visibility: Visibility, num_groups: int, dtype: torch.dtype, device: torch.device
    ) -> Tensor:
        """The numbers added to all scores in the layers with this mask: 0 or -inf. Made once.

        [tokens, keys of the cache and of the sequence], for each group of query heads one after the
        other, with the gates of an observer.
        """
        key = id(visibility), num_groups
        bias = self._biases.get(key)
        if bias is None:
            num_cached, num_tokens = self.num_cached, len(self.positions)
            seen = np.zeros((num_tokens, num_cached + num_tokens), dtype=bool)
            for block in self.blocks:
                queries = slice(*block.span)
                for start, end in block.segments:
                    seen[queries, start:end] = True
                for token in range(*block.span):
                    seen[token, num_cached + block.row_start : num_cached + token + 1] = True
            visible = torch.from_numpy(seen)
            if not visibility.is_causal:
                keys = torch.cat([torch.arange(num_cached), self.positions])
                visible = visible & visibility.mask(self.positions, keys)
            bias = torch.zeros(visible.shape, dtype=dtype, device=device)
            bias.masked_fill_(~visible.to(device), float("-inf"))
            if self.observer is not None and self.observer.gates is not None:
                bias += self.observer.gates
            self._biases[key] = bias = bias.repeat(num_groups, 1)
        return bias

    @property
    def num_cached(self) -> int:
        return self.cache[0].keys.shape[2] if self.cache else 0


_layout: ContextVar[PackedLayout] = ContextVar("attribot_packed_layout")


@contextmanager
def packed_layout(layout: PackedLayout) -> Iterator[None]:
    """The layout that packed attention uses in this thread."""
    token = _layout.set(layout)
    try:
        yield
    finally:
        _layout.reset(token)


def most_tokens_at_once(model: PreTrainedModel, num_cached: int) -> int:
    """How many tokens after a cache may attend to all keys at once, by the size of their mask."""
    config = model.config.get_text_config(decoder=True)
    num_heads = config.num_attention_heads
    num_groups = num_heads // (getattr(config, "num_key_value_heads", None) or num_heads)
    most_pairs = _MOST_AT_ONCE // max(num_groups, 4)
    return (math.isqrt(num_cached**2 + 4 * most_pairs) - num_cached) // 2


class PackedBlock(NamedTuple):
    """Tokens of the sequence, the first token of their row, and their segments of the cache."""

    span: Interval
    row_start: int
    segments: tuple[Interval, ...]

    def causal_view(self) -> View:
        own: tuple[Keys, ...] = (Keys(self.span, causal=True),)
        if self.row_start < self.span[0]:
            own = (*own, Keys((self.row_start, self.span[0])))
        return View(self.span, own, tuple(map(Keys, self.segments)))

    def masked_views(
        self, visibility: Visibility, positions: Tensor, device: torch.device
    ) -> Iterator[View]:
        """Views of pieces of the block. `positions` [tokens] belong to the sequence."""
        for start in range(*self.span, _MASKED_QUERIES):
            stop = min(start + _MASKED_QUERIES, self.span[1])
            queries = positions[start:stop]
            mask = visibility.mask(queries, positions[self.row_start : stop])
            own = Keys.from_mask(mask.tril(start - self.row_start), self.row_start, device)
            assert own is not None, "every token sees itself"
            cached = (
                Keys.from_mask(visibility.mask(queries, torch.arange(*segment)), segment[0], device)
                for segment in self.segments
            )
            yield View((start, stop), (own,), tuple(keys for keys in cached if keys is not None))


@dataclass(frozen=True, eq=False)
class View:
    """Tokens of the sequence and the keys that they see: in their own row, and in the cache."""

    queries: Interval
    own: tuple[Keys, ...]
    cached: tuple[Keys, ...]


@dataclass(frozen=True, eq=False)
class Keys:
    """An interval of keys. With `causal`, each query sees one key more than the query before it.

    `mask` [queries, keys] says which query sees which key; None if all see all. `blind` [queries]
    says which sees none; None if each sees some.
    """

    interval: Interval
    causal: bool = False
    mask: Tensor | None = None
    blind: Tensor | None = None

    @classmethod
    def from_mask(cls, mask: Tensor, first: int, device: torch.device) -> Keys | None:
        """The smallest interval with all keys that any query sees, with masks on the device.

        `mask` [queries, keys from `first` on] is on the CPU.
        """
        columns = np.flatnonzero(mask.numpy().any(0))
        if not len(columns):
            return None
        start, end = int(columns[0]), int(columns[-1]) + 1
        inside = mask[:, start:end]
        blind = ~inside.numpy().any(1)
        return cls(
            (first + start, first + end),
            mask=None if inside.numpy().all() else inside.to(device),
            blind=torch.from_numpy(blind).to(device) if blind.any() else None,
        )

    def biased(self, scores: Tensor) -> Tensor:
        """The scores, with -inf where a query does not see a key."""
        return scores if self.mask is None else scores.masked_fill(~self.mask, float("-inf"))


def packed_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Visibility | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **keywords: Any,
) -> tuple[Tensor, None]:
    """An attention function for transformers' AttentionInterface.

    query is [1, num_heads, tokens, head_dim]. key and value have num_key_value_heads, and values
    may have another width. Returns [1, tokens, num_heads, value_dim]. Each row attends to its own
    tokens and to its segments of the cache, within the layer's own mask. Only layers that attend at
    once, or are observed, copy the cache. Raises Unsupported for a keyword that would change
    attention.
    """
    _check_keywords(keywords)
    if not isinstance(attention_mask, Visibility) or dropout:
        raise Unsupported("its attention uses its own mask, or dropout")
    layout = _layout.get()
    layer_index: int = module.layer_idx  # type: ignore[assignment]
    layout.layers_seen.add(layer_index)
    kernel = Kernel(query.shape[-1] ** -0.5 if scaling is None else scaling, softcap)
    cached = _cached(layout.cache, module, layer_index) if layout.cache else None
    num_groups = query.shape[1] // key.shape[1]
    bias = partial(layout.bias, attention_mask, num_groups, device=query.device)
    if layout.observer is not None:
        observed = ObservedAttention(layout.observer, kernel, bias(torch.float32), cached, s_aux)
        return observed.attend(query, key, value).transpose(1, 2), None
    if layout.at_once and softcap is None and s_aux is None:
        if cached is not None:
            key, value = torch.cat([cached[0], key], 2), torch.cat([cached[1], value], 2)
        output = attend_at_once(query, key, value, bias(query.dtype), kernel.scaling)
        return output.transpose(1, 2), None
    views = layout.views(attention_mask, query.device)
    return _attend_in_views(views, kernel, query, key, value, cached, s_aux), None


def _check_keywords(keywords: Mapping[str, Any]) -> None:
    """Raises Unsupported for a keyword that would change attention."""
    for name, keyword in keywords.items():
        harmless = name in _HARMLESS or (name == "is_causal" and keyword is True)
        if not harmless and keyword is not None and keyword is not False:
            raise Unsupported(f"its attention takes {name}={keyword!r}")


def _attend_in_views(
    views: Sequence[View],
    kernel: Kernel,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cached: tuple[Tensor, Tensor] | None,
    sinks: Tensor | None,
) -> Tensor:
    """Attention [1, tokens, num_heads, value_dim], view by view.

    The parts of a view are merged by their log-sum-exp, and attention `sinks` [num_heads] come
    last.
    """
    output = query.new_empty(1, query.shape[2], query.shape[1], value.shape[-1])
    for view in views:
        queries = query[:, :, slice(*view.queries)]
        chunks = [(key, value, keys) for keys in view.own]
        if cached is not None:
            chunks += [(*cached, keys) for keys in view.cached]
        part, log_sum = kernel.attend(queries, *chunks[0])
        for chunk in chunks[1:]:
            part, log_sum = merge_attention(part, log_sum, *kernel.attend(queries, *chunk))
        if sinks is not None:
            total = torch.logaddexp(log_sum, sinks.to(log_sum)[None, :, None])
            part, log_sum = part * (log_sum - total).exp()[..., None].to(part), total
        output[:, slice(*view.queries)] = part.transpose(1, 2)
    return output


def _cached(cache: PromptCache, module: torch.nn.Module, layer_index: int) -> tuple[Tensor, Tensor]:
    """The cached keys and values that a layer attends to, in the form that it uses.

    Layers without their own use an earlier layer's (Gemma 3n, Gemma 4). Compressed ones (multi-head
    latent attention) are expanded first.
    """
    if layer_index >= len(cache):
        config: Any = module.config
        kinds = config.layer_types
        layer_index = max(i for i in range(len(cache)) if kinds[i] == kinds[layer_index])
    keys, values = cache[layer_index]
    expand: Any = getattr(module, "expand_kv", None)
    if expand is not None:
        with torch.no_grad():
            keys, values = expand(keys, values)
    return keys, values


def attend_at_once(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor, scaling: float
) -> Tensor:
    """Attention [1, heads, queries, value_dim] to all keys, with a `bias` added to their scores.

    The bias is [groups * queries, keys]: query heads that share keys count as queries, group after
    group.
    """
    grouped = query.reshape(1, key.shape[1], -1, query.shape[-1])
    output = scaled_dot_product_attention(grouped, key, value, attn_mask=bias, scale=scaling)
    return output.view(*query.shape[:3], -1)


@dataclass(frozen=True)
class Kernel:
    """Scaled dot-product attention. `softcap` limits the scores smoothly (Gemma 2)."""

    scaling: float
    softcap: float | None = None

    def attend(self, query: Tensor, key: Tensor, value: Tensor, keys: Keys) -> Attended:
        """The attention of a query [1, heads, queries, head_dim] to these keys.

        key and value are [1, key-value heads, all keys, ...]. A query that sees no key has the
        output 0 and a log-sum-exp of -inf.
        """
        first, last = keys.interval
        key, value = key[:, :, first:last], value[:, :, first:last]
        if keys.causal:
            groups = query.shape[1] // key.shape[1]
            key = key.repeat_interleave(groups, dim=1)
            return self._run(query, key, value.repeat_interleave(groups, dim=1), keys)
        shape = query.shape[:3]
        grouped = query.reshape(1, key.shape[1], -1, query.shape[-1])
        if keys.mask is not None:
            groups = grouped.shape[2] // len(keys.mask)
            keys = replace(keys, mask=keys.mask.repeat(groups, 1))
        output, log_sum = self._run(grouped, key, value, keys)
        output, log_sum = output.reshape(*shape, -1), log_sum.reshape(shape)
        if keys.blind is None:
            return output, log_sum
        return (
            output.masked_fill(keys.blind[:, None], 0.0),
            log_sum.masked_fill(keys.blind, float("-inf")),
        )

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        """The scaled and capped scores [heads, queries, keys] in float32."""
        scores = torch.bmm(query, key.transpose(1, 2)).float().mul_(self.scaling)
        if self.softcap is not None:
            scores = (scores / self.softcap).tanh() * self.softcap
        return scores

    def _run(self, query: Tensor, key: Tensor, value: Tensor, keys: Keys) -> Attended:
        """Call PyTorch's kernels, because its public function does not return the log-sum-exp."""
        device, width = query.device.type, value.shape[-1]
        is_biased = keys.mask is not None
        is_plain = self.softcap is not None or key.shape[-1] < width
        if device != "cpu":
            is_plain |= device != "cuda" or query.shape[-1] > 256 or is_biased
        if is_plain:
            return self._run_plainly(query, key, value, keys)
        kernels, scale = torch.ops.aten, self.scaling
        if width < key.shape[-1]:
            value = torch.nn.functional.pad(value, (0, key.shape[-1] - width))
        if device == "cpu":
            bias = None
            if is_biased:
                bias = keys.biased(query.new_zeros(1, 1, query.shape[2], key.shape[2]))
            output, log_sum = kernels._scaled_dot_product_flash_attention_for_cpu(
                query, key, value, 0.0, keys.causal, attn_mask=bias, scale=scale
            )
        elif query.dtype in (torch.float16, torch.bfloat16) and query.shape[-1] % 8 == 0:
            output, log_sum, *_ = kernels._scaled_dot_product_flash_attention(
                query, key, value, 0.0, keys.causal, False, scale=scale
            )
        else:
            output, log_sum, *_ = kernels._scaled_dot_product_efficient_attention(
                query, key, value, None, True, 0.0, keys.causal, scale=scale
            )
        return output[..., :width], log_sum[..., : query.shape[2]]

    def _run_plainly(self, query: Tensor, key: Tensor, value: Tensor, keys: Keys) -> Attended:
        scores = self.scores(query[0], key[0])[None]
        if keys.causal:
            mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
            scores = replace(keys, mask=mask).biased(scores)
        else:
            scores = keys.biased(scores)
        log_sum = scores.logsumexp(-1)
        output = (scores - log_sum[..., None]).exp().to(value.dtype) @ value
        return output, log_sum


def merge_attention(
    left: Tensor, left_log_sum: Tensor, right: Tensor, right_log_sum: Tensor
) -> Attended:
    """Attention over two sets of keys, from the attention over each and their log-sum-exps."""
    weight = torch.sigmoid(right_log_sum - left_log_sum)[..., None]
    merged = torch.lerp(left.to(weight.dtype), right.to(weight.dtype), weight)
    return merged.to(left.dtype), torch.logaddexp(left_log_sum, right_log_sum)


class AttentionObserver(Protocol):
    """Observes each layer's attention to the keys of the cache and, after them, of the sequence.

    `gates` [tokens, keys] are added to the scores; None adds nothing. For PyTorch, the output of
    each layer depends on the `gradient_anchor`, so a backward pass to it goes through all layers.
    """

    gradient_anchor: Tensor
    gates: Tensor | None

    def observe_forward(self, weights: Tensor) -> None:
        """Record a layer's weights [heads, tokens, keys] in the forward pass."""

    def observe_backward(self, weights: Tensor, moved: Tensor, mean: Tensor) -> None:
        """Record a layer in the backward pass.

        `moved` [heads, tokens, keys] has each weight times the product of its value and the
        gradient by the output. `mean` [heads, tokens, 1] has their sums.
        """


@dataclass(frozen=True, eq=False)
class ObservedAttention:
    """A layer's attention to its own keys and values and to cached ones, perhaps inference tensors.

    `bias` [groups * tokens, keys] is as in `attend_at_once`, in float32. `sinks` [num_heads] are
    scores of no key. The backward pass computes the weights again, as FlashAttention does (section
    3.1, arXiv 2205.14135): the weights of all layers would need far more memory than everything
    else.
    """

    observer: AttentionObserver
    kernel: Kernel
    bias: Tensor
    cached: tuple[Tensor, Tensor] | None
    sinks: Tensor | None

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """[1, heads, tokens, value_dim], differentiable by query, key and value."""
        anchor = self.observer.gradient_anchor
        return _ObservedFunction.apply(query, key, value, anchor, self)  # type: ignore[no-any-return, no-untyped-call]

    def grouped(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """[key-value heads, groups * tokens or all keys, dim]."""
        if self.cached is not None:
            key, value = torch.cat([self.cached[0], key], 2), torch.cat([self.cached[1], value], 2)
        return query.reshape(key.shape[1], -1, query.shape[-1]), key[0], value[0]

    def weights(self, scores: Tensor) -> Tensor:
        """The weights for scores [key-value heads, groups * tokens, keys]."""
        scores = scores + self.bias
        if self.sinks is None:
            return scores.softmax(-1)
        sinks = self.sinks.float().view(len(scores), -1, 1)
        sinks = sinks.repeat_interleave(scores.shape[1] // sinks.shape[1], 1)
        log_sum = torch.logaddexp(scores.logsumexp(-1, keepdim=True), sinks)
        return scores.sub_(log_sum).exp_()


class _ObservedFunction(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, _: Tensor, layer: ObservedAttention
    ) -> Tensor:
        ctx.layer = layer
        ctx.save_for_backward(query, key, value)
        grouped, keys, values = layer.grouped(query, key, value)
        weights = layer.weights(layer.kernel.scores(grouped, keys))
        layer.observer.observe_forward(weights.view(*query.shape[1:3], -1))
        return torch.bmm(weights.to(values.dtype), values).view(*query.shape[:3], -1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        layer: ObservedAttention = ctx.layer
        query, key, value = ctx.saved_tensors
        grouped, keys, values = layer.grouped(query, key, value)
        scores = layer.kernel.scores(grouped, keys)
        weights = layer.weights(scores)
        gradient = gradients[0].reshape(len(values), -1, values.shape[-1])
        moved = torch.bmm(gradient.float(), values.float().transpose(1, 2)).mul_(weights)
        mean = moved.sum(-1, keepdim=True)
        heads = (each.view(*query.shape[1:3], -1) for each in (weights, moved, mean))
        layer.observer.observe_backward(*heads)
        if not any(ctx.needs_input_grad[:3]):  # the first layer
            return (None,) * 5
        of_scores = moved.addcmul_(weights, mean, value=-1.0)
        if layer.kernel.softcap is not None:
            of_scores *= 1.0 - (scores / layer.kernel.softcap).square()
        of_scores = of_scores.mul_(layer.kernel.scaling).to(keys.dtype)
        own = slice(keys.shape[1] - key.shape[2], None)
        of_query = torch.bmm(of_scores, keys).view(query.shape)
        of_key = torch.bmm(of_scores[..., own].transpose(1, 2), grouped)
        of_value = torch.bmm(weights[..., own].transpose(1, 2).to(gradient.dtype), gradient)
        return of_query, of_key[None], of_value[None], None, None


AttentionInterface.register(PACKED_ATTENTION, packed_attention)
