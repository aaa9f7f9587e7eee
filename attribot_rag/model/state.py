"""What a model's forward pass goes by, so that a copy that is stale is noticed."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from typing import Any
from weakref import WeakKeyDictionary

import torch
from transformers import PreTrainedConfig

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


@dataclass(frozen=True, eq=False)
class ModelState:
    """What the modules of a model tell of its forward pass.

    The tensors that they hold, and all that is set on them: active adapters, hooks, replaced
    attributes and methods, the configuration. Two states are equal if none of that changed in
    between. What a hook or a replaced method reads from elsewhere is not seen (`reads_elsewhere`).
    """

    key: tuple[object, ...]
    known: tuple[weakref.ref[Any], ...]
    """What the key knows by its identity only, which is another object's after its end."""

    @classmethod
    def of(cls, model: torch.nn.Module) -> ModelState:
        """The state of a model at this moment; takes about 10 ms for 400 modules."""
        reader = _Reader()
        key: list[object] = []
        for module in model.modules():
            own = vars(module)
            key += (
                (name, value if type(value) in _PLAIN else reader.describe(value))
                for name, value in own.items()
                if name not in _NO_STATE
            )
            key += map(
                reader.describe, chain(own["_parameters"].values(), own["_buffers"].values())
            )
        return cls(tuple(key), tuple(reader.known))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ModelState)
            and self.key == other.key
            and all(known() is not None for known in chain(self.known, other.known))
        )

    __hash__ = None  # type: ignore[assignment]


_PLAIN = frozenset({type(None), bool, int, float, str})


_versions: WeakKeyDictionary[torch.nn.Module, tuple[int, ModelState]] = WeakKeyDictionary()
_comparing = threading.Lock()


def model_version(model: torch.nn.Module) -> int:
    """A number that becomes larger with every change of the model's state that is noticed here.

    Takes what `ModelState.of` takes.
    """
    current = ModelState.of(model)
    with _comparing:
        version, known = _versions.get(model, (0, None))
        if current != known:
            version += 1
            _versions[model] = version, current
        return version


def reads_elsewhere(model: torch.nn.Module) -> bool:
    """Whether its forward pass may go by what no state shows: it has hooks or replaced methods."""
    return any(
        own["_forward_hooks"] or own["_forward_pre_hooks"] or "forward" in own
        for own in map(vars, model.modules())
    )


class _Reader:
    """Describes values so that equal descriptions mean equal values."""

    def __init__(self) -> None:
        self.known: list[weakref.ref[Any]] = []
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
            return tuple((self.describe(key), self.describe(one)) for key, one in value.items())
        if isinstance(value, list | tuple):
            return tuple(map(self.describe, value))
        if isinstance(value, set | frozenset):
            return frozenset(map(self.describe, value))
        return self._identity(value)

    def _identity(self, value: object) -> int:
        with suppress(TypeError):  # of an object with slots
            self.known.append(weakref.ref(value))
        return id(value)
