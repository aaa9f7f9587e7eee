"""The origin of an attribution's scores."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from attribot_rag.model.language_model import without_folder

Basis = Literal["cause", "reader"]
Value = TypeVar("Value")

WORDS = "words"
"""The method that compares words, without a model."""
WORD_COMPARISON = "word comparison"
"""What stands for the name of a model there."""


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """The models, implementation and options behind the scores, and their cost."""

    method: str
    """Which ablations were asked for."""
    model: str
    basis: Basis = "cause"
    """What the scores are about. 'cause': `model` gave the answer, so they say what made it do so.
    'reader': another model gave it, and `model` read the prompt and the answer, so they say which
    texts support the answer."""
    answered_by: str | None = None
    """The model that gave an answer that a reader read, null if its name is not known."""
    dtype: str
    """'unknown' for a served model."""
    device: str
    """Where the model ran, the URL of a server for example."""
    implementation: str
    """How the model was run: packed, cropped or reference, or by a server."""
    fallback: str | None = None
    """Why a faster implementation was not used, None if the fastest or the requested one was."""
    retokenized: bool
    """True if the ids were made from text and need not be those that the model saw or gave."""
    prompt_tokens: int
    prefilled_tokens: int
    """Tokens encoded before the first ablation; 0 if the generation's own cache was used."""
    scored_tokens: int
    """Tokens that went through the model for all ablations together."""
    forward_passes: int
    """Calls of all models."""
    seconds: float
    proxy_tokens: int = 0
    """Tokens that went through a smaller model instead."""
    flops: float = 0.0
    """2 for each parameter and token of every model that was run."""
    naive_tokens: int = 0
    """What leave-one-out of every source without a cache would have taken."""
    expected_tokens: int = 0
    """What the cost model expects of the method, verdicts not counted."""
    self_check: float | None = None
    """The largest difference to the reference implementation in nats, if it was asked for."""
    noise: float | None = None
    """How much a server's log-probabilities of the same tokens were seen to differ from one call to
    the next, at most, in nats at a token; null for a model that ran here."""
    options: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)
    """The options of the context, the scorer and the budget."""
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def model_name(self) -> str:
        """The model's name without its folder."""
        return without_folder(self.model)


class ByProvenance(Generic[Value]):
    """A value for each attribution, by its provenance, which its copies share.

    It is kept as long as one of them is.
    """

    def __init__(self) -> None:
        self._values: dict[int, tuple[weakref.ref[Provenance], Value]] = {}

    def __setitem__(self, provenance: Provenance, value: Value) -> None:
        key, this = id(provenance), weakref.ref(self)

        def forget(_: object) -> None:
            kept = this()
            if kept is not None:
                kept._values.pop(key, None)

        self._values[key] = weakref.ref(provenance, forget), value

    def get(self, provenance: Provenance) -> Value | None:
        """The value of this very provenance, None without."""
        kept = self._values.get(id(provenance))
        return None if kept is None else kept[1]
