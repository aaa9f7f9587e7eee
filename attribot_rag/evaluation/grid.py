"""The methods that are compared, by name."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path

from attribot_rag.errors import InvalidInput
from attribot_rag.evaluation.setting import fingerprint
from attribot_rag.language_model import LanguageModel
from attribot_rag.methods import Auto, Hierarchical, LeaveOneOut, Masked, Method, Proxy, Pruned
from attribot_rag.methods.baselines import (
    AttentionWeights,
    ContextCite,
    GradientNorm,
    Similarity,
)

EXACT = "leave-one-out"
NAIVE = "leave-one-out, no cache"
CEILING = "masked, rest"
KEPT_GROUPS = (1, 3, 5)
KEPT_SOURCES = (3, 5, 10)
NUM_ABLATIONS = (32, 64, 128, 256)


def methods(proxy: LanguageModel | None = None) -> dict[str, Method]:
    """All of them; those that need a proxy only if there is one."""
    found: dict[str, Method] = {
        EXACT: LeaveOneOut(),
        NAIVE: LeaveOneOut(),
        "auto": Auto(),
        "masked": Masked(),
        "masked, response": Masked("response"),
        "masked, document": Masked("document"),
        CEILING: Masked("rest"),
    }
    for keep in KEPT_GROUPS:
        found[f"hierarchical, keep {keep}"] = Hierarchical(keep)
        found[f"masked hierarchical, keep {keep}"] = Hierarchical(
            keep, coarse=Masked(), fine=Masked(), shorten=False
        )
    for keep in KEPT_SOURCES:
        found[f"pruning by masked, keep {keep}"] = Pruned(Masked(), keep=keep)
    if proxy is not None:
        found["proxy"] = Proxy(proxy)
        for keep in KEPT_GROUPS:
            found[f"proxy, hierarchical, keep {keep}"] = Proxy(proxy, Hierarchical(keep))
        for keep in KEPT_SOURCES:
            found[f"proxy pruning, keep {keep}"] = Pruned(Proxy(proxy), keep=keep)
    for count in NUM_ABLATIONS:
        found[f"ContextCite, {count} ablations"] = ContextCite(count)
    return found | {
        "attention weights": AttentionWeights(),
        "gradient norm": GradientNorm(),
        "similarity": Similarity(),
    }


BASELINES = (
    *(f"ContextCite, {count} ablations" for count in NUM_ABLATIONS),
    "attention weights",
    "gradient norm",
    "similarity",
)


def named(wanted: Sequence[str], known: Collection[str]) -> list[str]:
    """The known methods of these names, or of these families ('hierarchical', 'ContextCite').

    Case, spaces, hyphens and underscores make no difference; 'all' is all. Raises InvalidInput for
    another name.
    """
    if [_plain(one) for one in wanted] == ["all"]:
        return list(known)
    found = []
    for name in wanted:
        exact = [one for one in known if _plain(one) == _plain(name)]
        family = [one for one in known if _plain(one.split(",")[0]) == _plain(name)]
        if not exact and not family:
            lacking = " (those with a proxy need --proxy)" * _plain(name).startswith("proxy")
            names = "; ".join(known)
            raise InvalidInput(
                f"unknown method {name!r}{lacking}; choose one or more, parted by blanks, in "
                f"quotes where they hold blanks: {names}"
            )
        found += exact or family
    return found


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]+", "", name).lower()


DEFAULT = (
    EXACT,
    NAIVE,
    "auto",
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
"""Which run when none is named; those with a proxy only if there is one."""


def described(value: object) -> str:
    """A method with all its options, the same in every process."""
    if isinstance(value, LanguageModel):
        checkpoint = f"{value.num_parameters} parameters, {value.dtype}, {fingerprint(value)}"
        return f"{Path(value.name).name} ({checkpoint})"
    if is_dataclass(value) and not isinstance(value, type):
        held = {one.name: getattr(value, one.name) for one in fields(value) if one.repr}
        inside = ", ".join(f"{name}={described(one)}" for name, one in held.items())
        return f"{type(value).__name__}({inside})"
    if isinstance(value, Mapping):
        return str({key: described(one) for key, one in value.items()})
    return repr(value)
