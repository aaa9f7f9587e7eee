"""What a model's forward pass goes by, so that a copy that is stale is noticed."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from typing import Any

import torch
from transformers import PreTrainedConfig

_PRIMITIVES = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, Enum)
_NO_STATE = frozenset(
    {
        *("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"),
        *("training", "generate", "generation_config", "_compiled_call_impl"),
        "_attribot_rag_versions",
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
    held: tuple[object, ...]  # what is known by its identity, which nothing else may get meanwhile

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
        return cls(tuple(key), tuple(reader.held))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ModelState) and self.key == other.key

    __hash__ = None  # type: ignore[assignment]


_PLAIN = frozenset({type(None), bool, int, float, str})


class _Versions:
    """The last known state of a model, which the model itself keeps: it lives as long."""

    NAME = "_attribot_rag_versions"

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.state: ModelState | None = None
        self.version = 0

    def __reduce__(self) -> tuple[Any, ...]:
        """A copied or unpickled model begins anew."""
        return _Versions, ()


def model_version(model: torch.nn.Module) -> int:
    """A number that becomes larger with every change of the model's state that is noticed here.

    Takes what `ModelState.of` takes.
    """
    versions: _Versions = vars(model).setdefault(_Versions.NAME, _Versions())
    current = ModelState.of(model)
    with versions.lock:
        if current != versions.state:
            versions.version += 1
            versions.state = current
        return versions.version


def reads_elsewhere(model: torch.nn.Module) -> bool:
    """Whether its forward pass may go by what no state shows: it has hooks or replaced methods."""
    return any(
        own["_forward_hooks"] or own["_forward_pre_hooks"] or "forward" in own
        for own in map(vars, model.modules())
    )


class _Reader:
    """Describes values so that equal descriptions mean equal values."""

    def __init__(self) -> None:
        self.held: list[object] = []
        self._known: dict[int, object] = {}

    def describe(self, value: Any) -> object:
        if isinstance(value, _PRIMITIVES):
            return value
        if isinstance(value, _CONTAINERS) and not value:
            return ()
        if id(value) not in self._known:
            self.held.append(value)
            self._known[id(value)] = id(value)  # for what holds itself
            self._known[id(value)] = self._described(value)
        return self._known[id(value)]

    def _described(self, value: Any) -> object:
        if isinstance(value, torch.Tensor):
            version = None if value.is_inference() else value._version
            return id(value), value.device, value.data_ptr(), version
        if isinstance(value, PreTrainedConfig):
            value = vars(value)
        if isinstance(value, Mapping):
            return tuple((self.describe(key), self.describe(one)) for key, one in value.items())
        if isinstance(value, list | tuple):
            return tuple(map(self.describe, value))
        if isinstance(value, set | frozenset):
            return frozenset(map(self.describe, value))
        return id(value)
