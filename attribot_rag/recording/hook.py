"""Standing in for a model's `generate`, so that what it generates can be read."""

from __future__ import annotations

import copy
import functools
import inspect
import logging
import threading
import weakref
from collections.abc import Callable
from types import MethodType
from typing import Any, cast

from transformers import PreTrainedModel
from transformers.utils.generic import ModelOutput

from attribot_rag.generation import Generation
from attribot_rag.recording.reading import read_generations

logger = logging.getLogger(__name__)

Listener = Callable[[list[Generation]], None]


class GenerateHook:
    """Stands in for `model.generate` and tells its listeners what was generated.

    One hook serves all recorders of a model; the last one to leave puts the model's own method
    back. Callers get exactly what they asked for.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = weakref.ref(model)
        self._shadowed = model.__dict__.get("generate")
        self.original = cast(Callable[..., Any], model.generate)
        self.listeners: list[Listener] = []
        self.idle = threading.Condition()
        self.in_flight = 0
        functools.update_wrapper(self, self.original)

    @classmethod
    def of(cls, model: PreTrainedModel) -> GenerateHook:
        hook = model.__dict__.get("generate")
        if not isinstance(hook, cls):
            hook = cls(model)
            model.__dict__["generate"] = hook
        return hook

    def remove(self, listener: Listener) -> None:
        self.listeners.remove(listener)
        model = self._model()
        if self.listeners or model is None or model.__dict__.get("generate") is not self:
            return
        if self._shadowed is None:
            del model.__dict__["generate"]
        else:
            model.__dict__["generate"] = self._shadowed

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """A copied model generates with its own weights, unrecorded."""
        twin = memo.get(id(self._model()))
        return MethodType(cast(Any, type(twin)).generate, twin)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        call = inspect.signature(self.original).bind_partial(*args, **kwargs)
        call.arguments.update(call.arguments.pop("kwargs", {}))
        wants_dict = self._ask_for_dict(call.arguments)
        with self.idle:
            self.in_flight += 1
        try:
            output = self.original(**call.arguments)
            if not isinstance(output, ModelOutput):
                return output
            self._tell(call.arguments, output)
            return output if wants_dict else output["sequences"]
        finally:
            with self.idle:
                self.in_flight -= 1
                self.idle.notify_all()

    def _ask_for_dict(self, arguments: dict[str, Any]) -> bool:
        """Make the call return a dict, and say whether the caller wanted one."""
        given = arguments.get("generation_config")
        wanted = arguments.get("return_dict_in_generate")
        for config in (given, getattr(self._model(), "generation_config", None)):
            if wanted is None:
                wanted = getattr(config, "return_dict_in_generate", None)
        if given is None or "return_dict_in_generate" in arguments:
            arguments["return_dict_in_generate"] = True
        else:
            arguments["generation_config"] = copy.deepcopy(given)
            arguments["generation_config"].return_dict_in_generate = True
        return bool(wanted)

    def _tell(self, arguments: dict[str, Any], output: ModelOutput) -> None:
        model = self._model()
        if model is None:
            return
        try:
            generations = read_generations(model, arguments, output)
            for listener in tuple(self.listeners):
                listener(generations)
        except Exception:  # the caller's answer must not be lost to its recording
            logger.exception("this generation could not be recorded")
