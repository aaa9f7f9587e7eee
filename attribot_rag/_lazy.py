"""Imports a package's names when they are used: PyTorch and Transformers take seconds."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def lazily(
    package: str, names: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package with these names, by their modules."""
    modules = {name: module for module in names for name in names[module]}

    def import_name(name: str) -> Any:
        """Import the name or the module."""
        if name in modules:
            value = getattr(importlib.import_module(modules[name], package), name)
        else:
            try:
                value = importlib.import_module(f"{package}.{name}")
            except ModuleNotFoundError as error:
                if error.name != f"{package}.{name}":
                    raise  # a module of ours whose extra is not installed
                raise AttributeError(f"module {package!r} has no attribute {name!r}") from error
        setattr(sys.modules[package], name, value)
        return value

    def all_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    return import_name, all_names, [*modules]
