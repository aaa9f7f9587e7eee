"""Caches in calls and outputs of models, whose name differs between releases and architectures."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any, get_args

from torch import nn
from transformers import Cache
from transformers.generation import utils

_NAMES = ("cache", "past_key_values", "cache_params")

CACHE_NAMES = (*_NAMES, *(name for name in utils.ALL_CACHE_NAMES if name not in _NAMES))
"""Names under which models are known to take a cache or states of recurrent layers."""


def cache_name(model: nn.Module) -> str | None:
    """The parameter by which a forward pass takes what the model remembers; None without any.

    A name in CACHE_NAMES, or any parameter that is annotated as a Cache.
    """
    parameters = inspect.signature(model.forward).parameters
    annotated = (name for name, parameter in parameters.items() if _is_cache(parameter.annotation))
    known = (name for name in CACHE_NAMES if name in parameters)
    return next(known, None) or next(annotated, None)


def cache_inputs(model: nn.Module, cache: Any) -> dict[str, Any]:
    """A cache as an argument of the model's forward pass; nothing if it takes none."""
    name = cache_name(model)
    return {} if name is None else {name: cache}


def returned_cache(model: nn.Module, output: Mapping[str, Any]) -> Any:
    """The cache in an output of the model's forward pass, or None."""
    name = cache_name(model)
    caches = (value for value in output.values() if isinstance(value, Cache))
    return next(caches, None if name is None else output.get(name))


def holds_cache(value: object) -> bool:
    """Whether a value is a Cache, or a container with one in it."""
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, list | tuple):
        return any(map(holds_cache, value))
    return isinstance(value, Cache)


def _is_cache(annotation: object) -> bool:
    kinds: Iterable[object] = get_args(annotation) or (annotation,)
    return any(isinstance(kind, type) and issubclass(kind, Cache) for kind in kinds)
