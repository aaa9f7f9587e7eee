"""A stand-in for a model's `generate`, by which its generations are read."""

from __future__ import annotations

import copy
import functools
import inspect
import logging
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, cast

import torch
from transformers import GenerationMixin, LogitsProcessorList, PreTrainedModel
from transformers.utils.generic import ModelOutput

from attribot_rag.model.generation import Generation
from attribot_rag.model.threads import ForkSafe
from attribot_rag.recording.arguments import GenerateArguments
from attribot_rag.recording.processors import ProcessorHook, ProcessorWatch, unhooked
from attribot_rag.recording.reading import read_generations

logger = logging.getLogger(__name__)

Listener = Callable[[list[Generation]], None]
Beginning = Callable[[], None]

_PARAMETERS = tuple(inspect.signature(GenerationMixin.generate).parameters)[1:]
_MAKE_PROCESSORS = "_get_logits_processor"
_installing = threading.RLock()


class RunningCall:
    """A running call of `generate`; `ended` is done at its end."""

    def __init__(self, arguments: GenerateArguments) -> None:
        self.ended: Future[None] = Future()
        self._arguments = arguments

    def read_prompts(self) -> list[tuple[int, ...]]:
        """The ids of the prompts of a call; empty, and not recorded, if they cannot be read."""
        try:
            return self._arguments.prompt_ids
        except Exception:  # of arguments that `generate` itself is going to refuse
            return []


class GenerateHook(ForkSafe):
    """Stands in for `model.generate` and hands its listeners the generations.

    A hook serves all recorders of a model; with the last recorder it goes, and the model's own
    method is back. Callers get exactly the output that they asked for. A `generate` of the caller's
    own is called as it is, so its caches are read only if it returns a dict. Processors of logits
    are watched. Listeners, bound methods of what they stand for, are not kept alive.
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
        """Notify the listener of every generation of the model; call `before` before each."""
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
            if listener in self.listeners:  # else it left before, while a generation told it
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
        """Call the model's own method for a dict, without new warnings."""
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
            logger.exception("caches of earlier answers could not be let go")

    def _tell(self, arguments: GenerateArguments, output: Any, watch: ProcessorWatch) -> None:
        try:
            generations = read_generations(arguments, output, watch.changing)
            for reference in tuple(self.listeners):
                listener = reference()
                if listener is not None:
                    listener(generations)
        except Exception:  # the caller's answer must not be lost to its recording
            logger.exception("this generation could not be recorded")


def _by_name(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    return dict(zip(_PARAMETERS, args, strict=False)) | kwargs
