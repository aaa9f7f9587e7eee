"""The options of scoring, and its budget."""

from __future__ import annotations

from dataclasses import dataclass

from attribot_rag.errors import InvalidInput

_NAMES = ("auto", "packed", "cropped", "reference", "server")

Requested = str | type
"""'auto', the name of an implementation, or one of one's own."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """An upper bound in seconds, in tokens, or both.

    Whatever fits is done, the most useful first, and the result says that it is partial. In any
    case a pass is spent, and before it, where generation's cache is missing, the prompt's prefill.
    Raises InvalidInput for a bound that is not above 0.

    Args:
        seconds: After them nothing is begun; a prefill ends after a piece of 512 tokens (2,048 on a
            GPU).
        tokens: That go through forward passes.
    """

    seconds: float | None = None
    tokens: int | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None and not value > 0:
                raise InvalidInput(f"budget of {value} {name}; use more than 0, or None")


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
        pass_tokens: What a forward pass takes whatever its tokens, in tokens that take as long. If
            it is large, rows that may be needed are scored with those that are; 0 means that
            tokens are the price. With None, it is measured once for the model; for a served model
            it is 0 then, else what a round trip takes.
        self_check: Also score an ablation by the reference; raises ScoringFailed if they differ.
    """

    implementation: Requested = "auto"
    token_budget: int | None = None
    max_memory: int | None = None
    pass_tokens: int | None = None
    self_check: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.implementation, type) and self.implementation not in _NAMES:
            raise InvalidInput(
                f"unknown implementation {self.implementation!r}; choose one of "
                f"{', '.join(_NAMES)}, or a class of one's own"
            )
        if self.token_budget is not None and self.token_budget < 1:
            raise InvalidInput(f"token_budget={self.token_budget}; use at least 1, or None")
        if self.pass_tokens is not None and self.pass_tokens < 0:
            raise InvalidInput(f"pass_tokens={self.pass_tokens}; use at least 0, or None")
        if self.max_memory is not None and self.max_memory < 1:
            raise InvalidInput(f"max_memory={self.max_memory}; use at least 1 byte, or None")
