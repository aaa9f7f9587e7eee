"""The one place where sources are ablated and the response is scored without them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

from attribot_rag.context import Context
from attribot_rag.errors import InvalidInput, ScoringFailed
from attribot_rag.generation import Generation
from attribot_rag.language_model import LanguageModel
from attribot_rag.scoring.base import Implementation
from attribot_rag.scoring.memory import Batching, is_out_of_memory
from attribot_rag.scoring.reference import Reference
from attribot_rag.scoring.row import Row
from attribot_rag.scoring.selection import ScoringModels, tolerance

Matrix = npt.NDArray[np.float64]
Ablation = Collection[int]


@dataclass(frozen=True, kw_only=True)
class ScoringOptions:
    """How log-likelihoods are computed.

    `implementation` is 'auto' (the fastest that is right for the model), 'packed', 'cropped' or
    'reference'. `token_budget` bounds the tokens of one forward pass; None takes what memory
    allows. `self_check` scores one ablation by the reference too and raises if they differ.
    """

    implementation: str = "auto"
    token_budget: int | None = None
    self_check: bool = False

    def __post_init__(self) -> None:
        if self.token_budget is not None and self.token_budget < 1:
            raise InvalidInput(f"token_budget={self.token_budget}; use at least 1, or None")


@dataclass(frozen=True, eq=False)
class LogLikelihoods:
    """Log-probabilities in nats of each response token.

    `full` [num_response_tokens] with nothing removed, `ablated` [num_ablations,
    num_response_tokens]; `in_step` says of each ablation whether its text was removed exactly.
    """

    full: Matrix
    ablated: Matrix
    in_step: tuple[bool, ...]


@dataclass
class Usage:
    """What scoring has cost so far. `self_check` is the largest difference seen, in nats."""

    prefilled_tokens: int = 0
    scored_tokens: int = 0
    forward_passes: int = 0
    seconds: float = 0.0
    self_check: float | None = None


@dataclass(eq=False)
class Scorer:
    """Scores one response under any ablations of its context.

    `before_batch` runs between forward passes: a chance to let a generation go first.
    """

    language_model: LanguageModel
    generation: Generation
    context: Context
    models: ScoringModels
    options: ScoringOptions = field(default_factory=ScoringOptions)
    before_batch: Callable[[], None] = lambda: None
    usage: Usage = field(default_factory=Usage)

    def __post_init__(self) -> None:
        started = time.perf_counter()
        self._implementation = self.models.select(self.options.implementation, self.generation)
        self._batching = Batching(
            self.language_model.model, self._implementation, self.options.token_budget
        )
        self.usage.prefilled_tokens = self._implementation.prefilled_tokens
        self.usage.seconds += time.perf_counter() - started

    @property
    def implementation(self) -> str:
        return self._implementation.name

    def score(
        self,
        ablations: Sequence[Ablation],
        *,
        advance: Callable[[int], object] = lambda count: None,
    ) -> LogLikelihoods:
        """Log-likelihoods with nothing removed and under each ablation (a set of source ids).

        `advance` is told how many ablations each batch has finished. Raises ScoringOutOfMemory
        if a single ablation does not fit, ScoringFailed for a log-likelihood that is not finite.
        """
        started = time.perf_counter()
        prompts = [self.context.ablate(ablation, self.language_model) for ablation in ablations]
        rows = [
            Row.exact(self.generation.prompt_ids, len(self.generation.prompt_ids), self.generation)
        ]
        rows += [Row.exact(prompt.ids, prompt.num_shared, self.generation) for prompt in prompts]
        scored = self._score_rows(rows, advance).double().numpy()
        self._check_finite(scored, ablations)
        if self.options.self_check:
            self._check_against_reference(rows, scored)
        self.usage.seconds += time.perf_counter() - started
        return LogLikelihoods(
            full=scored[0],
            ablated=scored[1:],
            in_step=tuple(prompt.in_step for prompt in prompts),
        )

    def _score_rows(self, rows: Sequence[Row], advance: Callable[[int], object]) -> torch.Tensor:
        parts: list[torch.Tensor] = []
        done = 0
        while done < len(rows):
            self.before_batch()
            batch = self._batching.next_batch(rows[done:])
            part = self._score_batch(batch)
            if part is None:
                self._batching.halve(batch)
                continue
            parts.append(part)
            self.usage.forward_passes += 1 if self.implementation == "packed" else len(batch)
            advance(len(batch) if done else len(batch) - 1)
            done += len(batch)
        self.usage.scored_tokens = self._implementation.scored_tokens
        return torch.cat(parts)

    def _score_batch(self, batch: Sequence[Row]) -> torch.Tensor | None:
        """The batch's log-likelihoods, or None if it was too large for the memory."""
        try:
            with torch.inference_mode():
                return self._implementation.log_likelihoods(batch)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            return None

    def _check_finite(self, scored: Matrix, ablations: Sequence[Ablation]) -> None:
        bad = np.argwhere(~np.isfinite(scored))
        if len(bad):
            row, token = (int(index) for index in bad[0])
            what = f"without sources {sorted(ablations[row - 1])}" if row else "of the full prompt"
            text = self.language_model.decode([self.generation.response_ids[token]])
            raise ScoringFailed(
                f"the log-likelihood {what} is {scored[row, token]} at response token {token} "
                f"({text!r}); the model's weights or its {self.language_model.dtype} overflow: "
                "try float32 or bfloat16"
            )

    def _check_against_reference(self, rows: Sequence[Row], scored: Matrix) -> None:
        """Compare the ablation that moved the response most."""
        changes = np.abs(scored - scored[0]).sum(axis=1)
        index = int(changes.argmax())
        reference: Implementation = self.models.make(Reference, self.generation)
        with torch.inference_mode():
            truth = reference.log_likelihoods([rows[index]]).double().numpy()[0]
        difference = float(np.abs(truth - scored[index]).max())
        self.usage.self_check = difference
        limit = tolerance(self.language_model.dtype)
        if difference > limit:
            raise ScoringFailed(
                f"{self.implementation!r} differs from the reference by {difference:.3g} nats at "
                f"a token, more than {limit}; use implementation='reference' and report the model"
            )
