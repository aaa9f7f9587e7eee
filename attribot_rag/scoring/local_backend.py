"""The backend of a model in this process, with the fastest implementation that is right."""

from __future__ import annotations

import copy
import logging
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain
from types import MethodType
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from transformers import PreTrainedModel

from attribot_rag.cached_property import cached_property
from attribot_rag.errors import InvalidInput, UnsupportedModel
from attribot_rag.model.generation import Generation
from attribot_rag.model.language_model import without_folder
from attribot_rag.model.local_model import model_version, placeholder_ids, reads_elsewhere
from attribot_rag.model.threads import ForkSafe
from attribot_rag.scoring.backend import Unsupported, tolerance
from attribot_rag.scoring.local_prefix import Cropped, LocalPrefix, Reference, rope_changes
from attribot_rag.scoring.memory import is_out_of_memory
from attribot_rag.scoring.packed import Packed, PackedAtOnce, most_tokens_at_once
from attribot_rag.scoring.row import Row
from attribot_rag.scoring.session import Requested

Implementation = type[LocalPrefix]

IMPLEMENTATIONS: tuple[Implementation, ...] = (Packed, Cropped, Reference)
"""From the fastest to the slowest."""

FAILURES = (RuntimeError, ValueError, TypeError, LookupError, AttributeError, AssertionError)
"""Errors that models raise for inputs that they do not take."""

_SAME = 1e-5  # nats; a hidden token must change nothing, not even by rounding
_PROMPT_TOKENS = 24
_RESPONSE_TOKENS = 4
_FEW, _MANY = 4, 32
_REPEATS = 3
_LEAST_SECONDS = 0.01  # nobody notices less
_LEAST_TOKENS, _MOST_TOKENS = 256, 4096

Value = TypeVar("Value")
logger = logging.getLogger(__name__)


class LocalBackend(ForkSafe):
    """The twins of a model, and the implementations that are right for it.

    An implementation is right if the configuration allows it, and a small probe gives the numbers
    of `Reference`. A failed probe is logged once. Thread-safe. Twins and probes are values by key,
    which are dropped when the model changes: moved, adapted, patched.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model
        self._name = without_folder(model.name_or_path or type(model).__name__)
        self._probes = Probes(self, model)
        self._logged: set[Implementation] = set()
        self._version = 0
        self._values: dict[Hashable, Any] = {}
        super().__init__()

    def _begin(self) -> None:
        self._lock = threading.RLock()
        self._num_trusting_blocks = 0

    @cached_property
    def pass_tokens(self) -> int:
        """The price of a pass in tokens, measured once; 0 on a CPU. See `Prefix`."""
        twin = self.twin()
        return 0 if twin.device.type == "cpu" else measured_pass_tokens(twin)

    @contextmanager
    def assume_unchanged(self) -> Iterator[None]:
        """Within the block, changes are not looked for: that takes 10 ms for 400 modules."""
        self.refresh()
        self._num_trusting_blocks += 1  # attributions may take turns
        try:
            yield
        finally:
            self._num_trusting_blocks -= 1

    def refresh(self) -> int:
        """Drop all values if the model was changed. Its version; see `model_version`."""
        if not self._num_trusting_blocks:
            version = model_version(self._model)
            if version != self._version:
                self._version = version
                self._values.clear()
        return self._version

    def value(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """A value that belongs to the model as it is now. One thread at a time makes it."""
        with self._lock:
            self.refresh()
            if key not in self._values:
                self._values[key] = make()
            value: Value = self._values[key]
            return value

    def twin(self, attention_function: str | None = None) -> PreTrainedModel:
        """The twin with this attention function, or with the model's own."""
        make = partial(make_twin, self._model, attention_function)
        return self.value(("twin", attention_function), make)

    def make(self, implementation: Implementation, generation: Generation) -> LocalPrefix:
        """The prompt of a generation for an implementation, whether that is right or not."""
        # The values that a hook reads elsewhere may change while a cache lives.
        version = None if reads_elsewhere(self._model) else self.refresh()
        inference = self.value("inference mode", self._probes.runs_in_inference_mode)
        twin = self.twin(implementation.attention_function)
        prefix = implementation(twin, generation, self.twin(), inference=inference)
        prefix.model_version = version
        return prefix

    def reference(self, generation: Generation) -> LocalPrefix:
        """On the model itself. In training mode, in which it draws at random, on its twin."""
        return Reference(self.twin() if self._model.training else self._model, generation)

    def prefix_for(
        self,
        generation: Generation,
        implementation: Requested = "auto",
        pass_tokens: int | None = None,
    ) -> LocalPrefix:
        """See `Backend`. Raises UnsupportedModel for a prompt with images, too."""
        check_placed(self._model)
        placeholders = placeholder_ids(self._model).intersection(generation.prompt_ids)
        if placeholders:
            raise UnsupportedModel(
                f"the prompt has tokens that stand for images or sounds (id {min(placeholders)}), "
                "which are not scored; ask about the text alone"
            )
        candidates = requested_implementations(implementation)
        unscorable = self.value("unscorable", self._probes.why_unscorable)
        if unscorable is not None:
            raise UnsupportedModel(f"the model {self._name!r} cannot be scored: {unscorable}")
        fallback: str | None = None
        for candidate in candidates:
            reason = self.why_not(candidate, generation)
            if reason is None:
                prefix = self.make(candidate, generation)
                prefix.pass_tokens = self._pass_price(candidate, generation, pass_tokens)
                prefix.attends_at_once = prefix.pass_tokens > 0
                prefix.why_no_masks = self.why_no_masks(candidate, generation)
                prefix.fallback = fallback
                return prefix
            if implementation != "auto":
                raise UnsupportedModel(
                    f"{candidate.name!r} is not right for this model: {reason}; use 'auto'"
                )
            fallback = fallback or f"{candidate.name}: {reason}"
        raise AssertionError("Reference refuses nothing")

    def changed_since(self, generation: Generation) -> bool:
        return generation.model_version not in (None, self.refresh())

    def why_not(self, implementation: Implementation, generation: Generation) -> str | None:
        """Why this implementation is not right for a generation; None if it is."""
        num_tokens = len(generation.prompt_ids) + len(generation.response_ids)
        reason = implementation.why_not_for(self._model, num_tokens)
        if reason is not None or implementation is Reference:
            return reason
        return self._why_probe_fails(implementation, masked=False)

    def why_no_masks(self, implementation: Implementation, generation: Generation) -> str | None:
        """Why this implementation cannot hide a part of the prompt; None if it can."""
        num_prompt, num_response = len(generation.prompt_ids), len(generation.response_ids)
        if rope_changes(self._model, num_prompt, num_prompt + num_response):
            return "its rotary frequencies change with the length while it answers"
        reason = implementation.why_no_masks_for(self._model)
        return reason or self._why_probe_fails(implementation, masked=True)

    def _pass_price(
        self, implementation: Implementation, generation: Generation, requested: int | None
    ) -> int:
        """The price of a pass in tokens; 0 if layers cannot attend to all keys at once.

        Without that, a pass over many rows has about as many operations as a pass for each row.
        """
        if not issubclass(implementation, Packed):
            return 0
        price = self.pass_tokens if requested is None else requested
        if not price or any(self._why_probe_fails(PackedAtOnce, masked=x) for x in (False, True)):
            return 0
        return min(price, most_tokens_at_once(self.twin(), len(generation.prompt_ids)))

    def _why_probe_fails(self, implementation: Implementation, *, masked: bool) -> str | None:
        """Why a probe rejects the implementation, or None. Each probe runs once."""
        return self.value(
            (implementation, masked), lambda: self._run_probe(implementation, masked=masked)
        )

    def _run_probe(self, implementation: Implementation, *, masked: bool) -> str | None:
        run = self._probes.masked if masked else self._probes.exact
        problem: object
        try:
            difference = run(implementation)
        except Unsupported as error:
            return str(error)
        except FAILURES as error:
            if is_out_of_memory(error):
                raise
            if masked:
                return f"it takes no mask of four dimensions ({type(error).__name__})"
            problem, reason = error, f"a probe of it failed ({type(error).__name__})"
        else:
            if difference <= tolerance(self._model.dtype):
                return None
            reason = f"a probe of it differs from the reference by {difference:.2g} nats"
            problem = reason
        if not masked and implementation not in self._logged:
            self._logged.add(implementation)
            logger.warning(
                "%s is not used for the model %s: %s", implementation.name, self._name, problem
            )
        return reason


def requested_implementations(requested: Requested) -> tuple[Implementation, ...]:
    """The implementations to try, fastest first. Raises InvalidInput for an unknown name."""
    if isinstance(requested, type) and issubclass(requested, LocalPrefix):
        return (requested,)
    chosen = tuple(x for x in IMPLEMENTATIONS if requested in ("auto", x.name))
    if not chosen:
        names = ", ".join(x.name for x in IMPLEMENTATIONS)
        raise InvalidInput(
            f"unknown implementation {requested!r}; choose one of auto, {names}, a class of one's "
            "own, or for a served model server"
        )
    return chosen


class Probes:
    """Differences in nats over 24 prompt and 4 response tokens, the same in every run."""

    def __init__(self, backend: LocalBackend, model: PreTrainedModel) -> None:
        self._backend, self._model = backend, model
        self._num_ids = int(model.config.get_text_config(decoder=True).vocab_size)
        generator = torch.Generator().manual_seed(0)
        count = _PROMPT_TOKENS + _RESPONSE_TOKENS
        drawn = torch.randint(self._num_ids, (2 * count,), generator=generator).tolist()
        placeholders = placeholder_ids(model)
        ids = tuple(token_id for token_id in drawn if token_id not in placeholders)[:count]
        self._generation = Generation(ids[:_PROMPT_TOKENS], ids[_PROMPT_TOKENS:])

    def exact(self, implementation: Implementation) -> float:
        """Between an implementation and the reference."""
        generation = self._generation
        prompt = generation.prompt_ids
        rows = [
            _full_prompt_row(generation),
            Row.for_prompt((*prompt[:10], *prompt[15:]), 10, generation),
            Row.for_prompt(prompt[1:], 0, generation),
        ]
        truth = torch.cat(
            [self._full_prompt_scores, self._scores_of(Reference, generation, rows[1:])]
        )
        return _largest_difference(self._scores_of(implementation, generation, rows), truth)

    def masked(self, implementation: Implementation) -> float:
        """Rows that hide nothing must equal the full prompt, other rows the reference.

        Gaps between recomputed tokens reveal an architecture that uses a token's place in the input
        instead of its position.
        """
        generation = self._generation
        tail = range(18, len(generation.prompt_ids))
        rows = [
            Row.masked(generation, (), tail),
            Row.masked(generation, (), (*range(9, 12), *tail)),
            Row.masked(generation, range(5, 9), tail),
            Row.masked(generation, range(5, 9), (*range(9, 12), *tail)),
        ]
        own = getattr(self._model.config, "_attn_implementation", None)
        takes_any_mask = own in ("eager", "sdpa", None)
        twin = self._backend.twin(None if takes_any_mask else "sdpa")
        reference = Reference(twin, generation)
        plain = [_full_prompt_row(generation)]
        full = self._full_prompt_scores if takes_any_mask else reference.log_likelihoods(plain)
        truth = torch.cat([full, full, reference.log_likelihoods(rows[2:])])
        return _largest_difference(self._scores_of(implementation, generation, rows), truth)

    def runs_in_inference_mode(self) -> bool:
        """Whether the model runs in inference mode. With quanto's 4-bit weights, it does not."""
        prefix = Reference(self._backend.twin(), self._generation, inference=True)
        try:
            prefix.log_likelihoods([_full_prompt_row(self._generation)])
        except FAILURES as error:
            if is_out_of_memory(error):
                raise
            return False
        return True

    def why_unscorable(self) -> str | None:
        """Why the model does not predict tokens only from earlier tokens; None if it does."""
        *before, late, last = self._generation.response_ids
        changed = (*before, (late + 1) % self._num_ids, last)
        other = replace(self._generation, response_ids=changed)
        try:
            scores = [
                row[:, : len(before)]
                for row in (
                    self._full_prompt_scores,
                    self._scores_of(Reference, other, [_full_prompt_row(other)]),
                )
            ]
        except FAILURES as error:
            if is_out_of_memory(error):
                raise
            return (
                "a plain forward pass over token ids fails with "
                f"{type(error).__name__}{f': {error}' if str(error) else ''}; load a causal "
                "language model, by AutoModelForCausalLM or its like"
            )
        exactly = self._model.dtype in (torch.float32, torch.float64)
        if _largest_difference(*scores) > (_SAME if exactly else tolerance(self._model.dtype)):
            return (
                "its predictions depend on later tokens, so it is not a causal language model; a "
                "model that can be one needs config.is_decoder=True; in a quantized model, a "
                "token must not be rounded together with later tokens, as dynamic quantization of "
                "a whole tensor does (quantize only weights, or activations token by token)"
            )
        return None

    @property
    def _full_prompt_scores(self) -> Tensor:
        rows = [_full_prompt_row(self._generation)]
        run = partial(self._scores_of, Reference, self._generation, rows)
        return self._backend.value("plain probe", run)

    def _scores_of(
        self, implementation: Implementation, generation: Generation, rows: Sequence[Row]
    ) -> Tensor:
        make = partial(self._backend.make, implementation, generation)
        is_plain = generation is self._generation  # its prompt is read only once
        prefix = self._backend.value(("probed", implementation), make) if is_plain else make()
        return prefix.log_likelihoods(rows)


def _full_prompt_row(generation: Generation) -> Row:
    return Row.for_prompt(generation.prompt_ids, len(generation.prompt_ids), generation)


def _largest_difference(scores: Tensor, truth: Tensor) -> float:
    return float((scores - truth).abs().max())


def measured_pass_tokens(model: PreTrainedModel) -> int:
    """The price of launching a forward pass, in tokens; 0 if a launch costs little.

    Passes over few and over many tokens are timed. The fastest of each count, because the first
    ones load kernels, and other work may slow a pass down.
    """
    few, many = (min(_seconds(model, count) for _ in range(_REPEATS)) for count in (_FEW, _MANY))
    per_token = max(0.0, many - few) / (_MANY - _FEW)
    fixed = few - _FEW * per_token
    if fixed < max(_LEAST_SECONDS, _LEAST_TOKENS * per_token):
        return 0
    return _MOST_TOKENS if fixed > _MOST_TOKENS * per_token else round(fixed / per_token)


def _seconds(model: PreTrainedModel, count: int) -> float:
    ids = torch.zeros(1, count, dtype=torch.long, device=model.device)
    with torch.no_grad():
        started = time.perf_counter()
        float(model(input_ids=ids, use_cache=False).logits[0, -1, 0])  # waits for the device
        return time.perf_counter() - started


def make_twin(model: PreTrainedModel, attention: str | None = None) -> PreTrainedModel:
    """Copy the modules and the configuration. Every weight stays the same tensor.

    The twin is in evaluation mode. It may use another attention implementation while the model
    generates in another thread: their settings do not affect each other. Buffers that are not in
    the checkpoint are copied, because rotary embeddings write to them. Weights that Accelerate
    keeps on the CPU or on disk stay there; the twin's layers load them as the model's do. Raises
    UnsupportedModel if the first weights, which determine the device, are offloaded or missing, for
    tensor-parallel models, and for bitsandbytes' 8 bits.
    """
    if any(isinstance(parameter, DTensor) for parameter in model.parameters()):
        raise UnsupportedModel(
            "the model is tensor-parallel: its weights are spread over processes that all would "
            "have to score; load it with device_map='auto', or serve it and pass the server's URL"
        )
    if getattr(model, "is_loaded_in_8bit", False):
        raise UnsupportedModel(
            "the model's weights are in bitsandbytes' 8 bits, whose state no copy can share; load "
            "it in 4 bits (load_in_4bit=True), or quantize it by torchao or quanto"
        )
    check_placed(model)
    offloaded = _offloaded_weights(model)
    persistent = (
        buffer
        for module in model.modules()
        for name, buffer in module.named_buffers(recurse=False)
        if name not in module._non_persistent_buffers_set
    )
    shared: dict[int, Any] = {
        id(value): value
        for value in chain(model.parameters(), persistent, offloaded, _hook_objects(model))
    }
    shell = copy.copy(model)  # another thread may start or stop recording at the same time
    for hooked in ("generate", "_get_logits_processor"):
        shell.__dict__.pop(hooked, None)
    twin: PreTrainedModel = copy.deepcopy(shell, shared)
    for module in twin.modules():
        module._compiled_call_impl = None  # compiled for the model's own modules
    if attention is not None:
        twin.config._attn_implementation = attention
    twin.train(False)
    return twin


def _hook_objects(model: PreTrainedModel) -> Iterator[object]:
    """Hooks that are objects of the user's, whose state a copy would not follow."""
    for module in model.modules():
        for hook in chain(module._forward_hooks.values(), module._forward_pre_hooks.values()):
            if not isinstance(hook, MethodType | partial):
                yield hook


def check_placed(model: PreTrainedModel) -> None:
    """Raises UnsupportedModel if the first weights, which determine the device, are on none."""
    is_partly_meta = any(parameter.is_meta for parameter in model.parameters())
    if model.device.type == "meta" or (is_partly_meta and not _offloaded_weights(model)):
        raise UnsupportedModel(
            "the model's first weights are offloaded to the CPU or to disk, or were not loaded; "
            "load it with a device_map that keeps the embedding on a device"
        )


def _offloaded_weights(model: PreTrainedModel) -> list[Any]:
    """The maps from which Accelerate's hooks load weights. All layers share them."""
    hooks = [vars(module).get("_hf_hook") for module in model.modules()]
    maps: list[Any] = []
    while hooks:
        hook = hooks.pop()
        hooks += getattr(hook, "hooks", ())
        maps += (getattr(hook, name, None) for name in ("weights_map", "tied_params_map"))
    return [weights for weights in maps if weights is not None]
