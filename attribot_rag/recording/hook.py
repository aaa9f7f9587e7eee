"""A stand-in for a model's `generate`, by which its generations are read."""

from __future__ import annotations

import copy
import functools
import inspect
import logging
import threading
import weakref
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from typing import Any, cast

import torch
from transformers import (
    GenerationMixin,
    LogitsProcessor,
    LogitsProcessorList,
    PreTrainedModel,
)
from transformers.utils.generic import ModelOutput

from attribot_rag.model.forking import ForkSafe
from attribot_rag.model.generation import Generation
from attribot_rag.recording.arguments import GenerateArguments
from attribot_rag.recording.reading import read_generations

logger = logging.getLogger(__name__)

Listener = Callable[[list[Generation]], None]

_PARAMETERS = tuple(inspect.signature(GenerationMixin.generate).parameters)[1:]
_CERTAIN = 0.999  # a probability
_installing = threading.RLock()


class ProcessorWatch:
    """Compares the scores before and after a caller's processors of logits, at each step."""

    def __init__(self, eos_ids: Collection[int]) -> None:
        self._eos_ids = sorted(eos_ids)
        self._before: torch.Tensor | None = None
        self._constrained: torch.Tensor | None = None

    def around(self, processors: Sequence[Any]) -> LogitsProcessorList:
        """The same processors between two of ours, which change nothing."""
        return LogitsProcessorList([_Look(self._begin), *processors, _Look(self._end)])

    @property
    def constrained(self) -> bool:
        """Whether a score was changed, other than to end the response: then EOS is certain."""
        return self._constrained is not None and bool(self._constrained)

    def _begin(self, scores: torch.Tensor) -> None:
        self._before = scores.clone()  # a processor may write to the scores

    def _end(self, scores: torch.Tensor) -> None:
        assert self._before is not None
        changed = (scores != self._before).any(-1)
        ends = scores.softmax(-1)[:, self._eos_ids].sum(-1) > _CERTAIN
        constrained = (changed & ~ends).any()
        earlier = self._constrained
        self._constrained = constrained if earlier is None else earlier | constrained


class _Look(LogitsProcessor):
    """Shows the scores to a function and gives them on as they are."""

    def __init__(self, look: Callable[[torch.Tensor], None]) -> None:
        self._look = look

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        self._look(scores)
        return scores


class RunningCall:
    """A call of `generate` that has not ended; `ended` is done as soon as it has."""

    def __init__(self, arguments: GenerateArguments) -> None:
        self.ended: Future[None] = Future()
        self._arguments = arguments

    def read_prompts(self) -> list[tuple[int, ...]]:
        """The ids of its prompts; none where they cannot be read, so that it is not recorded."""
        try:
            return self._arguments.prompt_ids
        except Exception:  # of arguments that `generate` itself is going to refuse
            return []


class GenerateHook(ForkSafe):
    """Stands in for `model.generate` and hands its listeners the generations.

    A hook serves all recorders of a model; with the last recorder it goes, and the model's own
    method is back. Callers get exactly the output that they asked for. A `generate` of the caller's
    own is called as it is, so its caches are read only if it returns a dict, and its processors of
    logits are not watched. Listeners, bound methods, are not kept alive.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = weakref.ref(model)
        self._was_shadowed = "generate" in model.__dict__
        self.original = cast(Callable[..., Any], model.generate)
        self.listeners: list[weakref.WeakMethod[Listener]] = []
        super().__init__()
        functools.update_wrapper(self, self.original)

    def _begin(self) -> None:
        self.idle = threading.Condition()
        self.running: set[RunningCall] = set()

    @classmethod
    def attach(cls, model: PreTrainedModel, listener: Listener) -> GenerateHook:
        """Have the listener told of every generation of the model."""
        with _installing:
            hook = model.__dict__.get("generate")
            if not isinstance(hook, cls):
                hook = cls(model)
            hook.listeners.append(weakref.WeakMethod(listener, hook._remove))
            model.__dict__["generate"] = hook
            return hook

    def detach(self, listener: Listener) -> None:
        self._remove(weakref.WeakMethod(listener))

    def _remove(self, listener: weakref.WeakMethod[Listener]) -> None:
        with _installing:
            if listener in self.listeners:  # else it left before, while a generation told it
                self.listeners.remove(listener)
            model = self._model()
            if self.listeners or model is None or model.__dict__.get("generate") is not self:
                return
            if self._was_shadowed:
                model.__dict__["generate"] = self.original
            else:
                del model.__dict__["generate"]

    def __reduce__(self) -> tuple[Any, ...]:
        """A copied or unpickled model generates with its own weights, unrecorded."""
        return _unhooked, (self.original,)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        model = self._model()
        assert model is not None
        arguments = GenerateArguments(model, _by_name(args, kwargs))
        wants_dict = self._was_shadowed or arguments.setting("return_dict_in_generate")
        processors = arguments.by_name.get("logits_processor")
        watch = None
        if not self._was_shadowed and isinstance(processors, list):
            watch = ProcessorWatch(arguments.eos_ids)
            args, kwargs = _with(args, kwargs, "logits_processor", watch.around(processors))
        call = RunningCall(arguments)
        with self.idle:
            self.running.add(call)
        try:
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
        """Call the model's own method so that it returns a dict, and warns of nothing new."""
        config = _by_name(args, kwargs).get("generation_config")
        if config is None or "return_dict_in_generate" in kwargs:
            return self.original(*args, **{**kwargs, "return_dict_in_generate": True})
        config = copy.deepcopy(config)
        config.return_dict_in_generate = True
        args, kwargs = _with(args, kwargs, "generation_config", config)
        return self.original(*args, **kwargs)

    def _tell(
        self, arguments: GenerateArguments, output: Any, watch: ProcessorWatch | None
    ) -> None:
        try:
            constrain = watch is None or watch.constrained
            generations = read_generations(arguments, output, processors_constrain=constrain)
            for reference in tuple(self.listeners):
                listener = reference()
                if listener is not None:
                    listener(generations)
        except Exception:  # the caller's answer must not be lost to its recording
            logger.exception("this generation could not be recorded")


def _by_name(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    return dict(zip(_PARAMETERS, args, strict=False)) | kwargs


def _with(
    args: tuple[Any, ...], kwargs: dict[str, Any], name: str, value: Any
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call of `generate` with another value for one of them."""
    index = _PARAMETERS.index(name)
    if len(args) > index:
        return (*args[:index], value, *args[index + 1 :]), kwargs
    return args, {**kwargs, name: value}


def _unhooked(generate: Callable[..., Any]) -> Callable[..., Any]:
    return generate
