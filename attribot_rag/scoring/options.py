"""The options of scoring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from attribot_rag.errors import InvalidInput
from attribot_rag.scoring.selection import IMPLEMENTATIONS


@dataclass(frozen=True, kw_only=True)
class ScoringOptions:
    """How log-likelihoods are computed.

    `implementation` is 'auto' (the fastest that is right for the model), 'packed', 'cropped' or
    'reference', for a served model 'auto' or 'server'. `token_budget` bounds the tokens of a
    forward pass; with None, memory does. `max_memory` bounds the bytes that scoring may take beyond
    weights and a recorded cache; with None, that is what is free. Where more is needed by an
    estimate, ScoringOutOfMemory is raised before the prompt is read. `self_check` also scores an
    ablation by the reference and raises ScoringFailed if they differ. With `half_precision`,
    approximate scores (masked ablation, patching, attention) of a float32 model come from linear
    layers in bfloat16, whose weights are copied. With 'auto' they do where that is faster: on
    processors with instructions for bfloat16, for models of 20 million parameters or more whose
    copy takes at most an eighth of the memory. Then approximate scores depend a little on the
    machine; with False they do not. The provenance tells what was done, and
    docs/evaluation/benchmarks.md what it saves and changes. Raises InvalidInput for an unknown
    implementation, or a budget or memory below 1.
    """

    implementation: str = "auto"
    token_budget: int | None = None
    max_memory: int | None = None
    self_check: bool = False
    half_precision: bool | Literal["auto"] = "auto"

    def __post_init__(self) -> None:
        known = ["auto", *(kind.name for kind in IMPLEMENTATIONS), "server"]
        if self.implementation not in known:
            raise InvalidInput(
                f"unknown implementation {self.implementation!r}; choose one of {', '.join(known)}"
            )
        if self.half_precision not in (True, False, "auto"):
            raise InvalidInput(
                f"half_precision={self.half_precision!r}; choose one of True, False, 'auto'"
            )
        if self.token_budget is not None and self.token_budget < 1:
            raise InvalidInput(f"token_budget={self.token_budget}; use at least 1, or None")
        if self.max_memory is not None and self.max_memory < 1:
            raise InvalidInput(f"max_memory={self.max_memory}; use at least 1 byte, or None")
