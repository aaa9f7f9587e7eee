"""The implementation of one scorer, made ready when it is first needed."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property

from attribot_rag.generation import Generation
from attribot_rag.language_model import LanguageModel
from attribot_rag.scoring.base import Implementation
from attribot_rag.scoring.cropped import CachedImplementation
from attribot_rag.scoring.memory import Batching
from attribot_rag.scoring.selection import ScoringModels
from attribot_rag.scoring.session import Session


@dataclass(eq=False)
class Engine:
    """Shared by all scorers of one prompt, which is read once, and not if only a proxy scores."""

    language_model: LanguageModel
    generation: Generation
    models: ScoringModels
    requested: str
    token_budget: int | None
    session: Session

    @cached_property
    def implementation(self) -> Implementation:
        """The requested implementation, or the fastest that is right; its prefill is counted.

        Not in the usage's seconds: whoever asks is at work, and times that.
        """
        started = time.perf_counter()
        implementation = self.models.select(self.requested, self.generation)
        seconds = time.perf_counter() - started
        self.session.meter.spend(implementation.prefilled_tokens, seconds)
        self.session.usage_of(
            self.language_model
        ).prefilled_tokens += implementation.prefilled_tokens
        return implementation

    @property
    def num_unread(self) -> int:
        """Tokens of the prompt that have to be read before anything can be scored."""
        cached = "implementation" in vars(self) or self.generation.cache is not None
        if cached or not issubclass(self.kind, CachedImplementation):
            return 0
        return len(self.generation.prompt_ids) - 1

    @cached_property
    def batching(self) -> Batching:
        return Batching(self.language_model.model, self.implementation, self.token_budget)

    @property
    def kind(self) -> type[Implementation]:
        """What the implementation is or will be; reads no prompt."""
        if "implementation" in vars(self):
            return type(self.implementation)
        return self.models.first(self.requested, self.generation)
