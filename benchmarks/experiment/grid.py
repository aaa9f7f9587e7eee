"""The methods that are compared, by name."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path

from attribot_rag.errors import InvalidInput
from attribot_rag.methods import (
    Auto,
    Hierarchical,
    LeaveOneOut,
    Masked,
    Method,
    Patching,
    Proxy,
    Pruned,
    Thorough,
)
from attribot_rag.model.local_model import LocalModel
from benchmarks.experiment.baselines import AttentionWeights, ContextCite, GradientNorm, Similarity
from benchmarks.experiment.setting import model_digest

EXACT = "leave-one-out"
NAIVE = "leave-one-out, no cache"
CEILING = "masked, rest"
PROXY = "proxy"
KEPT_GROUPS = (1, 3, 5)
KEPT_SOURCES = (3, 5, 10)
KEPT_BY_PROXY = (3, 5, 10, 20)

BASELINES: dict[str, Method] = {
    **{f"ContextCite, {count} ablations": ContextCite(count) for count in (32, 64, 128, 256)},
    "attention weights": AttentionWeights(),
    "gradient norm": GradientNorm(),
    "similarity": Similarity(),
}


def methods(proxy: LocalModel | None = None) -> dict[str, Method]:
    """All methods by name; those with a proxy only if it is given."""
    grid: dict[str, Method] = {
        EXACT: LeaveOneOut(),
        NAIVE: LeaveOneOut(),
        "auto": Auto(),
        "thorough": Thorough(),
        "masked": Masked(),
        "masked, response": Masked("response"),
        "masked, document": Masked("document"),
        CEILING: Masked("rest"),
        "patching, 2 gates": Patching(2),
    }
    for keep in KEPT_GROUPS:
        grid[f"hierarchical, keep {keep}"] = Hierarchical(keep)
        grid[f"masked hierarchical, keep {keep}"] = Hierarchical(
            keep, coarse=Masked(), fine=Masked(), shorten=False
        )
    for keep in KEPT_SOURCES:
        grid[f"pruning by masked, keep {keep}"] = Pruned(Masked(), keep=keep)
    if proxy is not None:
        grid[PROXY] = Proxy(proxy)
        grid["proxy, masked"] = Proxy(proxy, Masked())
        for keep in KEPT_GROUPS:
            grid[f"proxy, hierarchical, keep {keep}"] = Proxy(proxy, Hierarchical(keep))
        for keep in KEPT_BY_PROXY:
            grid[f"proxy pruning, keep {keep}"] = Pruned(Proxy(proxy), keep=keep)
            grid[f"proxy pruning, keep {keep}, full prompt"] = Pruned(
                Proxy(proxy), keep=keep, shorten=False
            )
        # The paper's "KV + all".
        grid["proxy pruning by groups, keep 10"] = Pruned(Proxy(proxy, Hierarchical()), keep=10)
    return grid | BASELINES


def select_methods(wanted: Sequence[str], available: Collection[str]) -> list[str]:
    """The available methods of these names, or of these families ('hierarchical', 'ContextCite').

    Case, spaces, hyphens and underscores make no difference; 'all' selects all. Raises
    InvalidInput for an unknown name.
    """
    if [_plain(name) for name in wanted] == ["all"]:
        return list(available)
    selected = []
    for name in wanted:
        exact = [other for other in available if _plain(other) == _plain(name)]
        family = [other for other in available if _plain(other.split(",")[0]) == _plain(name)]
        if not exact and not family:
            lacking = " (those with a proxy need --proxy)" * _plain(name).startswith("proxy")
            names = "; ".join(available)
            raise InvalidInput(
                f"unknown method {name!r}{lacking}; choose one or more, separated by spaces, in "
                f"quotes where they contain spaces: {names}"
            )
        selected += exact or family
    return selected


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]+", "", name).lower()


DEFAULT = (
    EXACT,
    NAIVE,
    "auto",
    "thorough",
    "masked",
    "hierarchical, keep 3",
    "masked hierarchical, keep 3",
    "pruning by masked, keep 5",
    "proxy",
    "proxy pruning, keep 5",
    "ContextCite, 32 ablations",
    "attention weights",
    "gradient norm",
    "similarity",
)
"""The methods that run unless others are named; those with a proxy only if it is given."""


def method_description(value: object) -> str:
    """The method with all its options as text, equal in every process."""
    if isinstance(value, LocalModel):
        checkpoint = (
            f"{value.weights.num_parameters} parameters, {value.dtype}, {model_digest(value)}"
        )
        return f"{Path(value.name).name} ({checkpoint})"
    if is_dataclass(value) and not isinstance(value, type):
        options = ", ".join(
            f"{option.name}={method_description(getattr(value, option.name))}"
            for option in fields(value)
            if option.repr
        )
        return f"{type(value).__name__}({options})"
    return repr(value)
