"""Replaces a model's `generate`, and reads the arguments and generations of its calls."""

from __future__ import annotations

import copy
import functools
import inspect
import logging
import threading
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Sized
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
from transformers import (
    Cache,
    DynamicCache,
    GenerationConfig,
    GenerationMixin,
    LogitsProcessor,
    LogitsProcessorList,
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
_MAKE_PROCESSORS = "_get_logits_processor"
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

# These may forbid or force tokens, if they were not watched.
_CONSTRAINTS = ("logits_processor", "prefix_allowed_tokens_fn")
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
    `generate`, that is called unchanged, so its caches are read only if it returns a dict. Logits
    processors are watched. Listeners, which are bound methods, are not kept alive.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = weakref.ref(model)
        self._shadowed = {
            name: model.__dict__[name]
            for name in ("generate", _MAKE_PROCESSORS)
            if name in model.__dict__
        }
        self.original = cast(Callable[..., Any], model.generate)
        self._processors = ProcessorHook(getattr(model, _MAKE_PROCESSORS, LogitsProcessorList))
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
            model.__dict__[_MAKE_PROCESSORS] = hook._processors
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
            model.__dict__.pop(_MAKE_PROCESSORS, None)
            model.__dict__.update(self._shadowed)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copied or unpickled model generates with its own weights, unrecorded."""
        return unhooked, (self.original,)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        model = self._model()
        assert model is not None
        arguments = GenerateArguments(model, _by_name(args, kwargs))
        is_own = "generate" in self._shadowed
        wants_dict = is_own or arguments.setting("return_dict_in_generate")
        watch = ProcessorWatch(arguments.eos_ids)
        call = RunningCall(arguments)
        with self.idle:
            self.running.add(call)
        self._tell_of_beginning()
        try:
            with self._processors.watched_by(watch):
                output = (self.original if wants_dict else self._generate_dict)(*args, **kwargs)
            if isinstance(output, ModelOutput | torch.Tensor):
                self._tell(arguments, output, watch)
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

    def _tell(self, arguments: GenerateArguments, output: Any, watch: ProcessorWatch) -> None:
        try:
            generations = read_generations(arguments, output, watch.changing)
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
        """The prompts' ids, [num_prompts, positions]; None without ids.

        Prompts that were given only as embeddings have no positions.
        """
        prompts = self.by_name.get("inputs")
        if prompts is None:
            prompts = self.by_name.get("input_ids")
        embeddings = self.by_name.get("inputs_embeds")
        if prompts is None and embeddings is not None:
            return torch.empty(len(embeddings), 0, dtype=torch.long)
        if prompts is None or prompts.dtype.is_floating_point:
            return None
        return cast(torch.Tensor, prompts)

    def mask(self, prompts: torch.Tensor) -> torch.Tensor:
        """The attention mask, given or inferred from padding as by `generate`: bool, like prompts.

        If a mask also covers a cache, the part for the given ids.
        """
        mask = self.by_name.get("attention_mask")
        if mask is not None and prompts.shape[1]:
            return torch.as_tensor(mask).bool()[:, -prompts.shape[1] :]
        if mask is not None or self.pad_id is None or self.pad_id in self.eos_ids:
            return torch.ones_like(prompts).bool()
        return torch.ne(prompts, self.pad_id)

    def refusal(self, prompts: torch.Tensor) -> str | None:
        """Why the prompts are unknown: only the ids after a filled cache were given."""
        mask, num_ids = self.by_name.get("attention_mask"), prompts.shape[1]
        num_cached = 0 if mask is None else torch.as_tensor(mask).shape[1] - num_ids
        if not num_ids or num_cached <= 0:
            return None
        return (
            f"generate was given the last {num_ids} ids of its prompt, and a cache of the "
            f"{num_cached} before them, from which they cannot be read; pass all ids with the cache"
        )

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

    def settings(self, changing: Sequence[str] | None) -> GenerationSettings:
        """The settings of the call. Later changes do not affect them.

        `changing` names the logits processors that changed tokens; None if they were not watched.
        """
        values = {
            name: copy.deepcopy(value) if isinstance(value, GenerationConfig) else value
            for name, value in self.by_name.items()
            if name in _VALUES and not (name in _OUTPUT or name.startswith("output_"))
        }
        left_out = tuple(name for name in _STATEFUL if _is_set(self.by_name.get(name)))
        unwatched = _CONSTRAINTS if changing is None else ()
        constraints = tuple(name for name in left_out if name in (*unwatched, "custom_generate"))
        return GenerationSettings(values, left_out, (*(changing or ()), *constraints))

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
    arguments: GenerateArguments,
    output: Mapping[str, Any] | torch.Tensor,
    changing: Sequence[str] | None = None,
) -> list[Generation]:
    """One Generation for each row of a finished `generate` call; none if the prompt had no ids.

    If only the last ids of a prompt were given, it has these, and a `refusal`.

    `changing` names the logits processors that changed tokens; None if they were not watched.
    """
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
    settings = arguments.settings(changing)
    refusal, conditioned_on = arguments.refusal(prompts), arguments.conditioned_on(mask)
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
                refusal=refusal,
            )
        )
    return generations


class PromptRead(DynamicCache):
    """A cache of the prompt of the call that gets it, as the call would have made it."""


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
    is_set = any(value is not None and not isinstance(value, PromptRead) for value in given)
    cache = next((value for value in output.values() if isinstance(value, Cache)), None)
    device = model.device.type
    if is_set or model.training or device == "meta" or torch.is_autocast_enabled(device):
        return None
    if not isinstance(output, GenerateDecoderOnlyOutput) or not isinstance(cache, DynamicCache):
        return None
    if type(cache) not in (DynamicCache, PromptRead):
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


class ProcessorWatch:
    """Compares the best token before and after each processor of one call, at each step."""

    def __init__(self, eos_ids: Collection[int]) -> None:
        self._eos_ids = torch.tensor(sorted(eos_ids), dtype=torch.long)
        self._best: torch.Tensor | None = None
        self._changed: dict[str, torch.Tensor] | None = None

    def around(self, processors: Sequence[Any]) -> LogitsProcessorList:
        """The same processors between observers, which change nothing."""
        self._changed = {}
        watched = LogitsProcessorList([_Look(self._begin)] if processors else [])
        for processor in processors:
            name = getattr(processor, "__name__", type(processor).__name__)
            watched += [processor, _Look(partial(self._compare, name))]
        return watched

    @property
    def changing(self) -> tuple[str, ...] | None:
        """Processors that changed the best token, except to end. None if they were not seen."""
        if self._changed is None:
            return None
        return tuple(name for name, changed in self._changed.items() if changed)

    def _begin(self, scores: torch.Tensor) -> None:
        self._best = scores.argmax(-1)  # now, because a processor may change the scores

    def _compare(self, name: str, scores: torch.Tensor) -> None:
        best, before = scores.argmax(-1), self._best
        assert self._changed is not None
        if before is None or before.shape != best.shape:  # guidance joins rows with and without it
            changed = torch.tensor(True, device=best.device)
        else:
            changed = ((best != before) & ~torch.isin(best, self._eos_ids.to(best.device))).any()
        self._changed[name] = self._changed[name] | changed if name in self._changed else changed
        self._best = best


class _Look(LogitsProcessor):
    """Passes the scores to a function, and returns them unchanged."""

    def __init__(self, look: Callable[[torch.Tensor], None]) -> None:
        self._look = look

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        self._look(scores)
        return scores


class ProcessorHook:
    """Replaces the model's method that makes logits processors."""

    def __init__(self, original: Callable[..., Any]) -> None:
        self.original = original
        self._thread = threading.local()

    @contextmanager
    def watched_by(self, watch: ProcessorWatch) -> Iterator[None]:
        """Watch the processors that this thread's calls make."""
        outer = getattr(self._thread, "watch", None)
        self._thread.watch = watch
        try:
            yield
        finally:
            self._thread.watch = outer

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        processors = self.original(*args, **kwargs)
        watch = getattr(self._thread, "watch", None)
        return processors if watch is None else watch.around(processors)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copied or unpickled model makes its own."""
        return unhooked, (self.original,)


def unhooked(method: Callable[..., Any]) -> Callable[..., Any]:
    """The original method if this is a hook or a copy of one."""
    return method
