"""Replaces a model's `generate`, and reads the arguments and generations of its calls."""

from __future__ import annotations

import copy
import functools
import inspect
import logging
import threading
import weakref
from collections.abc import Callable, Mapping, Sized
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

import torch
from transformers import (
    Cache,
    DynamicCache,
    GenerationConfig,
    GenerationMixin,
    PreTrainedModel,
)
from transformers.cache_utils import DynamicLayer
from transformers.generation.utils import GenerateDecoderOnlyOutput
from transformers.utils.generic import ModelOutput

from attribot_rag.model.generation import (
    CACHE_NAMES,
    Generation,
    GenerationSettings,
    LayerCache,
    PromptCache,
)
from attribot_rag.model.local_model import model_version, placeholder_ids
from attribot_rag.model.threads import ForkSafe
from attribot_rag.recording.transcript import current_span

logger = logging.getLogger(__name__)

Listener = Callable[[list[Generation]], None]
Beginning = Callable[[], None]
_PARAMETERS = tuple(inspect.signature(GenerationMixin.generate).parameters)[1:]
_installing = threading.RLock()
_CONFIGURED = frozenset(GenerationConfig().to_dict())  # type: ignore[no-untyped-call]
_VALUES = _CONFIGURED | {"generation_config", "tokenizer"}  # stop strings need a tokenizer
_OUTPUT = frozenset({"return_dict_in_generate", "num_return_sequences"})
_STATEFUL = (
    "logits_processor",
    "stopping_criteria",
    "prefix_allowed_tokens_fn",
    "negative_prompt_ids",
    "custom_generate",
)

# These may forbid or force tokens.
_CONSTRAINTS = ("logits_processor", "prefix_allowed_tokens_fn", "custom_generate")
_NO_CONDITIONING = frozenset(
    {
        *inspect.signature(GenerationMixin.generate).parameters,
        *_CONFIGURED,
        *("input_ids", "attention_mask", "cache_position", "logits_to_keep", "tokenizer"),
        *CACHE_NAMES,
    }
)

_DEFAULT_MAX_NEW_TOKENS = 20  # the default of transformers


class GenerateHook(ForkSafe):
    """Replaces `model.generate`, and passes the generations to its listeners.

    One hook serves all recorders of a model. When the last recorder leaves, the model gets its own
    method back. Callers get exactly the output that they asked for. If the caller has replaced
    `generate`, that is called unchanged, so its caches are read only if it returns a dict.
    Listeners, which are bound methods, are not kept alive.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = weakref.ref(model)
        self._replaced = model.__dict__.get("generate")
        self.original = cast(Callable[..., Any], model.generate)
        self.listeners: list[weakref.WeakMethod[Listener]] = []
        self._beginnings: list[weakref.WeakMethod[Beginning]] = []
        super().__init__()
        functools.update_wrapper(self, self.original)

    def _begin(self) -> None:
        self.idle = threading.Condition()
        self.running: set[RunningCall] = set()

    @classmethod
    def attach(cls, model: PreTrainedModel, listener: Listener, before: Beginning) -> GenerateHook:
        """Call the listener with every generation of the model, and `before` before each."""
        with _installing:
            hook = model.__dict__.get("generate")
            if not isinstance(hook, cls):
                hook = cls(model)
            hook.listeners.append(weakref.WeakMethod(listener, hook._remove))
            hook._beginnings.append(weakref.WeakMethod(before, hook._beginnings.remove))
            model.__dict__["generate"] = hook
            return hook

    def detach(self, listener: Listener, before: Beginning) -> None:
        with _installing, suppress(ValueError):  # it may have left before
            self._beginnings.remove(weakref.WeakMethod(before))
        self._remove(weakref.WeakMethod(listener))

    def _remove(self, listener: weakref.WeakMethod[Listener]) -> None:
        with _installing:
            if listener in self.listeners:  # it may have left during a generation
                self.listeners.remove(listener)
            model = self._model()
            if self.listeners or model is None or model.__dict__.get("generate") is not self:
                return
            del model.__dict__["generate"]
            if self._replaced is not None:
                model.__dict__["generate"] = self._replaced

    def __reduce__(self) -> tuple[Any, ...]:
        """A copied or unpickled model generates with its own weights, unrecorded."""
        return unhooked, (self.original,)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        model = self._model()
        assert model is not None
        arguments = GenerateArguments(model, _by_name(args, kwargs))
        is_own = self._replaced is not None
        wants_dict = is_own or arguments.setting("return_dict_in_generate")
        call = RunningCall(arguments)
        with self.idle:
            self.running.add(call)
        self._tell_of_beginning()
        try:
            output = (self.original if wants_dict else self._generate_dict)(*args, **kwargs)
            if isinstance(output, ModelOutput | torch.Tensor):
                self._tell(arguments, output)
            if wants_dict or not isinstance(output, ModelOutput):
                return output
            return output["sequences"]
        finally:
            with self.idle:
                self.running.discard(call)
                self.idle.notify_all()
            call.ended.set_result(None)

    def _generate_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Call the model's own method so that it returns a dict, without new warnings."""
        config = _by_name(args, kwargs).get("generation_config")
        if config is None or "return_dict_in_generate" in kwargs:
            return self.original(*args, **{**kwargs, "return_dict_in_generate": True})
        config = copy.deepcopy(config)
        config.return_dict_in_generate = True
        index = _PARAMETERS.index("generation_config")
        if len(args) > index:
            return self.original(*args[:index], config, *args[index + 1 :], **kwargs)
        return self.original(*args, **{**kwargs, "generation_config": config})

    def _tell_of_beginning(self) -> None:
        try:
            for reference in tuple(self._beginnings):
                if (before := reference()) is not None:
                    before()
        except Exception:  # the caller's answer must not be lost to its recording
            logger.exception("caches of earlier answers could not be dropped")

    def _tell(self, arguments: GenerateArguments, output: Any) -> None:
        try:
            generations = read_generations(arguments, output)
            for reference in tuple(self.listeners):
                listener = reference()
                if listener is not None:
                    listener(generations)
        except Exception:  # the caller's answer must not be lost to its recording
            logger.exception("this generation could not be recorded")


class RunningCall:
    """A running call of `generate`. `ended` is done at its end."""

    def __init__(self, arguments: GenerateArguments) -> None:
        self.ended: Future[None] = Future()
        self._arguments = arguments

    def read_prompts(self) -> list[tuple[int, ...]]:
        """The ids of the prompts of a call.

        If they cannot be read, it is empty and not recorded.
        """
        try:
            return self._arguments.prompt_ids
        except Exception:  # `generate` itself will refuse these arguments
            return []


def _by_name(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    return dict(zip(_PARAMETERS, args, strict=False)) | kwargs


@dataclass(frozen=True, eq=False)
class GenerateArguments:
    """The arguments of a `generate` call of a model, by name."""

    model: PreTrainedModel
    by_name: Mapping[str, Any]

    def setting(self, name: str) -> Any:
        """The value in the call: its own argument (even None), or its config's, or the model's."""
        if name in self.by_name:
            return self.by_name[name]
        value = getattr(self.by_name.get("generation_config"), name, None)
        return getattr(self.model.generation_config, name, None) if value is None else value

    @property
    def eos_ids(self) -> frozenset[int]:
        """The ids that end a response; empty without a setting."""
        eos = self.setting("eos_token_id")
        if eos is None:
            return frozenset()
        return frozenset(int(i) for i in torch.as_tensor(eos).flatten())

    @property
    def pad_id(self) -> int | None:
        pad_id = self.setting("pad_token_id")
        return None if pad_id is None else int(pad_id)

    @property
    def prompts(self) -> torch.Tensor | None:
        """The prompts' ids, [num_prompts, positions]; None if they are unknown.

        Prompts that were given only as embeddings have no positions. If only the ids after a filled
        cache were given, the prompts are unknown.
        """
        prompts = self.by_name.get("inputs")
        if prompts is None:
            prompts = self.by_name.get("input_ids")
        embeddings = self.by_name.get("inputs_embeds")
        if prompts is None and embeddings is not None:
            return torch.empty(len(embeddings), 0, dtype=torch.long)
        if prompts is None or prompts.dtype.is_floating_point:
            return None
        mask = self.by_name.get("attention_mask")
        if mask is not None and torch.as_tensor(mask).shape[1] > prompts.shape[1]:
            return None
        return cast(torch.Tensor, prompts)

    def mask(self, prompts: torch.Tensor) -> torch.Tensor:
        """The attention mask, given or inferred from padding as by `generate`, as bool."""
        mask = self.by_name.get("attention_mask")
        if mask is not None and prompts.shape[1]:
            return torch.as_tensor(mask).bool()
        if mask is not None or self.pad_id is None or self.pad_id in self.eos_ids:
            return torch.ones_like(prompts).bool()
        return torch.ne(prompts, self.pad_id)

    @property
    def prompt_ids(self) -> list[tuple[int, ...]]:
        """The ids of each prompt without padding; none if it had no ids."""
        prompts = self.prompts
        if prompts is None:
            return []
        rows = zip(prompts, self.mask(prompts), strict=True)
        return [tuple(row[visible].tolist()) for row, visible in rows if visible.any()]

    def max_new_tokens(self, num_prompt: int) -> int:
        """The most tokens of a response after so many positions of the prompt."""
        max_new_tokens = self.setting("max_new_tokens")
        if max_new_tokens is not None:
            return int(max_new_tokens)
        max_length = self.setting("max_length")
        return _DEFAULT_MAX_NEW_TOKENS if max_length is None else int(max_length) - num_prompt

    @property
    def settings(self) -> GenerationSettings:
        """The settings of the call. Later changes do not affect them."""
        values = {
            name: copy.deepcopy(value) if isinstance(value, GenerationConfig) else value
            for name, value in self.by_name.items()
            if name in _VALUES and not (name in _OUTPUT or name.startswith("output_"))
        }
        left_out = tuple(name for name in _STATEFUL if _is_set(self.by_name.get(name)))
        constraints = tuple(name for name in left_out if name in _CONSTRAINTS)
        return GenerationSettings(values, left_out, constraints)

    def conditioned_on(self, mask: torch.Tensor) -> tuple[str, ...]:
        """The names of inputs other than ids and their mask [num_prompts, positions].

        A model that sees images takes zeros as token types for text alone.
        """
        names = []
        if "prepare_inputs_for_generation" in vars(self.model):  # as in prompt and prefix tuning
            names.append("prepare_inputs_for_generation")
        for name, value in self.by_name.items():
            if name in _NO_CONDITIONING or value is None:
                continue
            if name == "position_ids" and _counts(value, mask):
                continue
            is_zero = isinstance(value, torch.Tensor) and not value.any()
            if is_zero and name.endswith("token_type_ids") and placeholder_ids(self.model):
                continue
            names.append(name)
        return tuple(names)


def _is_set(value: object) -> bool:
    return value is not None and not (isinstance(value, Sized) and len(value) == 0)


def _counts(value: object, mask: torch.Tensor) -> bool:
    """Whether positions follow from the mask: consecutive, without padding."""
    if not isinstance(value, torch.Tensor) or value.shape != mask.shape:
        return False
    expected = mask.long().cumsum(-1) - 1
    return bool((value.to(expected.device) == expected)[mask].all())


def read_generations(
    arguments: GenerateArguments, output: Mapping[str, Any] | torch.Tensor
) -> list[Generation]:
    """One Generation for each row of a finished `generate` call; none if the prompt is unknown."""
    if isinstance(output, torch.Tensor):
        output = {"sequences": output}
    model, prompts = arguments.model, arguments.prompts
    if prompts is None:
        return []
    sequences: torch.Tensor = output["sequences"]
    mask = arguments.mask(prompts)
    eos_ids = arguments.eos_ids
    rows_per_prompt = sequences.shape[0] // prompts.shape[0]
    response_start = prompts.shape[1]
    version = model_version(model)
    pad_id = arguments.pad_id if len(sequences) > 1 else None
    cached = _plain_cache(arguments, output)
    num_generated = sequences.shape[1] - response_start
    limit = arguments.max_new_tokens(response_start)
    settings = arguments.settings
    conditioned_on = arguments.conditioned_on(mask)
    generations = []
    for row, sequence in enumerate(sequences):
        index = row // rows_per_prompt
        prompt, visible = prompts[index], mask[index]
        prompt_ids = tuple(prompt[visible].tolist())  # a new tuple identifies the row
        response_ids = _until_eos(sequence[response_start:].tolist(), eos_ids, pad_id)
        follows = sequence[:response_start].tolist() == prompt.tolist()
        if not (response_ids and follows and (prompt_ids or conditioned_on)):
            continue
        cache = None
        padding = int(visible.numel() - visible.sum())
        if cached is not None and prompt_ids and bool(visible[padding:].all()):
            cache = _cache_row(cached, row, padding, prompts.shape[1])
        generations.append(
            Generation(
                prompt_ids,
                response_ids,
                cache,
                conditioned_on=conditioned_on,
                model_version=version,
                cut_at=limit if num_generated >= limit and len(response_ids) >= limit else None,
                unfinished=len(response_ids) == num_generated,
                settings=settings,
                span=current_span(),
            )
        )
    return generations


class PrefilledCache(DynamicCache):
    """Marks a cache that we filled with the prompt of a call, as the call would have done it."""


def _until_eos(ids: list[int], eos_ids: frozenset[int], pad_id: int | None) -> tuple[int, ...]:
    """The ids up to the first EOS. A row that a stop string ended has padding instead."""
    end = next((i for i, token_id in enumerate(ids) if token_id in eos_ids), None)
    if end is None:
        end = len(ids)
        while end and ids[end - 1] == pad_id:
            end -= 1
    return tuple(ids[:end])


def _plain_cache(
    arguments: GenerateArguments, output: Mapping[str, Any]
) -> list[DynamicLayer] | None:
    """The layers of the cache if all are plain tensors that still have every position.

    None if the caller set where it begins or its positions, and in training mode or autocast,
    because its numbers are then different from the scored model's.
    """
    model, by_name = arguments.model, arguments.by_name
    given = [by_name.get(name) for name in (*CACHE_NAMES, "position_ids")]
    is_set = any(value is not None and not isinstance(value, PrefilledCache) for value in given)
    cache = next((value for value in output.values() if isinstance(value, Cache)), None)
    device = model.device.type
    if is_set or model.training or device == "meta" or torch.is_autocast_enabled(device):
        return None
    if not isinstance(output, GenerateDecoderOnlyOutput) or not isinstance(cache, DynamicCache):
        return None
    if type(cache) not in (DynamicCache, PrefilledCache):
        return None
    num_cached = output["sequences"].shape[1] - 1
    layers = [layer for layer in cache.layers if type(layer) is DynamicLayer]
    if cache.offloading or len(layers) != len(cache.layers):
        return None
    if any(layer.get_seq_length() != num_cached for layer in layers):
        return None
    return layers


def _cache_row(layers: list[DynamicLayer], row: int, start: int, end: int) -> PromptCache:
    """The prompt's part of one row: a view, or a copy if others share the storage."""

    def cut(tensor: torch.Tensor | None) -> torch.Tensor:
        assert tensor is not None
        part = tensor[row : row + 1, :, start:end]
        return part if tensor.shape[0] == 1 else part.clone()

    return tuple(LayerCache(cut(layer.keys), cut(layer.values)) for layer in layers)


def unhooked(method: Callable[..., Any]) -> Callable[..., Any]:
    """The original method if this is a hook or a copy of one."""
    return method
