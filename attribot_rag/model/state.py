"""The state of a model's forward pass, and values that are made of it until it changes."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from transformers import PreTrainedConfig

from attribot_rag.model.forking import ForkSafe

Value = TypeVar("Value")

_PRIMITIVES = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, Enum)
_NO_STATE = frozenset(
    {
        *("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"),
        *("training", "generate", "_get_logits_processor", "generation_config"),
        "_compiled_call_impl",
        *("_is_hf_initialized", "_backward_hooks", "_backward_pre_hooks", "_is_full_backward_hook"),
        *("_state_dict_hooks", "_state_dict_pre_hooks"),
        *("_load_state_dict_pre_hooks", "_load_state_dict_post_hooks"),
    }
)
_CONTAINERS = (Mapping, list, tuple, set, frozenset)
_PLAIN = frozenset({type(None), bool, int, float, str})


@dataclass(frozen=True, eq=False)
class ModelState:
    """Everything on the modules of a model that its forward pass may go by.

    The tensors that they hold, and all that is set on them: active adapters, hooks, replaced
    attributes and methods, the configuration. Two states are equal if none of that changed in
    between. A hook or a replaced method may read something else, which is not noticed
    (`reads_elsewhere`).
    """

    key: tuple[object, ...]
    by_identity: tuple[weakref.ref[Any], ...]
    """The objects that stand in the key by their identity, which is another object's later."""

    @classmethod
    def of(cls, model: torch.nn.Module) -> ModelState:
        """The state of a model at this moment; takes about 10 ms for 400 modules."""
        reader = _Reader()
        key: list[object] = []
        for module in model.modules():
            own = vars(module).copy()  # other threads may attach a recorder meanwhile
            key += (
                (name, value if type(value) in _PLAIN else reader.describe(value))
                for name, value in own.items()
                if name not in _NO_STATE
            )
            key += map(
                reader.describe, chain(own["_parameters"].values(), own["_buffers"].values())
            )
        return cls(tuple(key), tuple(reader.by_identity))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ModelState)
            and self.key == other.key
            and all(ref() is not None for ref in chain(self.by_identity, other.by_identity))
        )

    __hash__ = None  # type: ignore[assignment]


_versions: WeakKeyDictionary[torch.nn.Module, tuple[int, ModelState]] = WeakKeyDictionary()
_comparing = threading.Lock()


def model_version(model: torch.nn.Module) -> int:
    """A number that becomes larger with every change of the model's state that is noticed here."""
    current = ModelState.of(model)
    with _comparing:
        version, latest = _versions.get(model, (0, None))
        if current != latest:
            version += 1
            _versions[model] = version, current
        return version


def reads_elsewhere(model: torch.nn.Module) -> bool:
    """Whether hooks or replaced methods may change its forward pass without changing its state."""
    return any(
        own["_forward_hooks"] or own["_forward_pre_hooks"] or "forward" in own
        for own in map(vars, model.modules())
    )


class Derived(ForkSafe):
    """Values by their keys, which are forgotten when the model is changed: moved, adapted, patched.

    One thread at a time makes them.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        super().__init__()
        self._version = 0
        self._values: dict[Hashable, Any] = {}

    def _begin(self) -> None:
        self._lock = threading.RLock()
        self._num_trusting_blocks = 0

    @contextmanager
    def taken_for_unchanged(self) -> Iterator[None]:
        """Within it the model is taken for unchanged: looking takes 10 ms for 400 modules."""
        self._look()
        self._num_trusting_blocks += 1  # attributions may take turns
        try:
            yield
        finally:
            self._num_trusting_blocks -= 1

    @property
    def version(self) -> int:
        """The version of the model, see `model_version`."""
        if not self._num_trusting_blocks:
            self._look()
        return self._version

    def value(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The value of this key, made if it is not there."""
        with self._lock:
            _ = self.version
            if key not in self._values:
                self._values[key] = make()
            value: Value = self._values[key]
            return value

    def forget(self) -> None:
        self._values.clear()

    def _look(self) -> None:
        version = model_version(self._model)
        if version != self._version:
            self._version = version
            self.forget()


class _Reader:
    """Describes values so that equal descriptions mean equal values."""

    def __init__(self) -> None:
        self.by_identity: list[weakref.ref[Any]] = []
        self._described: dict[int, object] = {}

    def describe(self, value: Any) -> object:
        if isinstance(value, _PRIMITIVES):
            return value
        if isinstance(value, _CONTAINERS) and not value:
            return ()
        if id(value) not in self._described:
            self._described[id(value)] = id(value)  # for what holds itself
            self._described[id(value)] = self._describe(value)
        return self._described[id(value)]

    def _describe(self, value: Any) -> object:
        if isinstance(value, torch.Tensor) and value.is_meta:
            return value.shape  # offloaded: a new tensor takes its place after every forward pass
        if isinstance(value, torch.Tensor):
            version = None if value.is_inference() else value._version
            return self._identity(value), value.device, value.data_ptr(), version
        if isinstance(value, PreTrainedConfig):
            value = vars(value)
        if isinstance(value, Mapping):
            parts = tuple(value.items())
            return tuple((self.describe(key), self.describe(part)) for key, part in parts)
        if isinstance(value, list | tuple):
            return tuple(map(self.describe, value))
        if isinstance(value, set | frozenset):
            return frozenset(map(self.describe, value))
        return self._identity(value)

    def _identity(self, value: object) -> int:
        with suppress(TypeError):  # of an object with slots
            self.by_identity.append(weakref.ref(value))
        return id(value)
