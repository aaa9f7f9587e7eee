"""The options of scoring."""

from __future__ import annotations

from dataclasses import dataclass

from attribot_rag.errors import InvalidInput
from attribot_rag.scoring.backend import Requested
from attribot_rag.scoring.local.backend import requested_kinds


@dataclass(frozen=True, kw_only=True)
class ScoringOptions:
    """Options of the computation of log-likelihoods.

    Raises InvalidInput for an unknown implementation, or a budget or memory below 1.

    Args:
        implementation: 'auto' (the fastest that is right for the model), 'packed', 'cropped' or
            'reference', or a class of one's own; for a served model 'auto' or 'server'.
        token_budget: The most tokens of a forward pass; with None, memory decides.
        max_memory: The most bytes that scoring may take beyond weights and a recorded cache; with
            None, those that are free. Where more is needed by an estimate, ScoringOutOfMemory is
            raised before the prompt is read.
        self_check: Also score an ablation by the reference; raises ScoringFailed if they differ.
    """

    implementation: Requested = "auto"
    token_budget: int | None = None
    max_memory: int | None = None
    self_check: bool = False

    def __post_init__(self) -> None:
        if self.implementation != "server":
            requested_kinds(self.implementation)
        if self.token_budget is not None and self.token_budget < 1:
            raise InvalidInput(f"token_budget={self.token_budget}; use at least 1, or None")
        if self.max_memory is not None and self.max_memory < 1:
            raise InvalidInput(f"max_memory={self.max_memory}; use at least 1 byte, or None")
