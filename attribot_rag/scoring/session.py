"""What all scorers of one attribution share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from attribot_rag.language_model import LanguageModel
from attribot_rag.scoring.budget import Meter


@dataclass
class Usage:
    """What one model has done: tokens, forward passes, seconds.

    `backward_tokens` are those of the tokens that gradients went back through.
    """

    model: str
    num_parameters: int
    prefilled_tokens: int = 0
    scored_tokens: int = 0
    backward_tokens: int = 0
    forward_passes: int = 0
    seconds: float = 0.0

    @property
    def tokens(self) -> int:
        return self.prefilled_tokens + self.scored_tokens

    @property
    def flops(self) -> float:
        """2 FLOPs per parameter and token (AttriBoT, section 3), and twice that on the way back."""
        return 2.0 * self.num_parameters * (self.tokens + 2 * self.backward_tokens)


class Progress:
    """Told how many ablations are to be scored, and how many were; this one shows nothing."""

    def expect(self, count: int) -> None:
        """So many more are to come."""

    def advance(self, count: int) -> None:
        """So many more are done."""


@dataclass(eq=False)
class Session:
    """The budget, the progress and the usage of one attribution.

    `self_check` is the largest difference to the reference that was seen, in nats.

    `before_batch` runs between forward passes: a chance to let a generation go first.
    """

    meter: Meter = field(default_factory=Meter)
    progress: Progress = field(default_factory=Progress)
    before_batch: Callable[[], None] = lambda: None
    self_check: float | None = None
    usages: list[tuple[LanguageModel, Usage]] = field(default_factory=list)

    def usage_of(self, language_model: LanguageModel) -> Usage:
        for known, usage in self.usages:
            if known is language_model:
                return usage
        usage = Usage(language_model.name, language_model.num_parameters)
        self.usages.append((language_model, usage))
        return usage
