"""Runs rows through a model, in batches and within the budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from attribot_rag.context import Ablation
from attribot_rag.errors import ScoringFailed
from attribot_rag.model.generation import Generation
from attribot_rag.model.language_model import LanguageModel
from attribot_rag.scoring.base import Implementation, OutOfTime, Prefill, Reduction
from attribot_rag.scoring.implementations.cropped import CachedImplementation
from attribot_rag.scoring.implementations.memory import Batching, Footprint, unless_out_of_memory
from attribot_rag.scoring.implementations.probes import tolerance
from attribot_rag.scoring.implementations.reference import Reference
from attribot_rag.scoring.implementations.server import AnyScoringModels
from attribot_rag.scoring.log_likelihoods import Effects, Matrix, Patch
from attribot_rag.scoring.options import ScoringOptions
from attribot_rag.scoring.row import Row
from attribot_rag.scoring.session import Session, Usage

Result = TypeVar("Result")


@dataclass(eq=False)
class Engine:
    """The implementation that all scorers of a prompt share, prepared on first use.

    So the prompt is prefilled once, and not at all if only a proxy scores. Tokens and passes are
    counted in the session; seconds of rows are not, because a scorer times itself.
    """

    language_model: LanguageModel
    generation: Generation
    models: AnyScoringModels
    options: ScoringOptions
    session: Session
    branches: Sequence[int] = ()
    num_units: int = 0
    _implementation: Implementation | None = field(default=None, init=False)
    _out_of_time: bool = field(default=False, init=False)

    @property
    def implementation(self) -> Implementation:
        """The requested implementation, or the fastest that is right; its prefill is counted.

        Raises ScoringOutOfMemory, before the prompt is read, if scoring would take too much memory.
        """
        # Until Python 3.12, a cached_property would hold the prompts of all other engines up.
        if self._implementation is None:
            self._implementation = self._prepare()
        return self._implementation

    def _prepare(self) -> Implementation:
        if self.footprint is not None:
            self.footprint.check(self.options.max_memory, self.language_model.device)
        started = self.session.clock()
        prefill = Prefill(self.branches, self._before_piece, self.session.meter.deadline)
        implementation = self.models.select(self.options.implementation, self.generation, prefill)
        self.session.meter.spend(implementation.prefilled_tokens, self.session.clock() - started)
        self.usage.prefilled_tokens += implementation.prefilled_tokens
        return implementation

    @property
    def footprint(self) -> Footprint | None:
        """The estimated memory that scoring takes; None for a served model."""
        if not self.language_model.backend.generates_here:
            return None
        model = self.language_model.model
        return Footprint.of(model, self.kind, self.generation, self.branches, self.num_units)

    def _before_piece(self, position: int) -> None:
        """Let a generation go first; raises OutOfTime after the first piece if time is over."""
        self.session.before_batch()
        if position and self.session.meter.is_late:
            self.usage.prefilled_tokens += position
            raise OutOfTime

    def _is_ready(self) -> bool:
        """Whether the prompt is read, or could be, within the budget."""
        if not self._out_of_time:
            try:
                return self.implementation is not None
            except OutOfTime:
                self._out_of_time = True
        self.session.meter.exhausted = True
        return False

    @property
    def kind(self) -> type[Implementation]:
        """The class that the implementation has or will have; reads no prompt."""
        if self._implementation is not None:
            return type(self._implementation)
        return self.models.first(self.options.implementation, self.generation)

    @property
    def pass_tokens(self) -> int:
        """The number of tokens that take as long as what a pass takes whatever its tokens.

        0 unless passes are dear, and rows packed into one.
        """
        if not self.kind.packs_rows:
            return 0
        given = self.options.pass_tokens
        return self.models.pass_tokens if given is None else given

    @property
    def usage(self) -> Usage:
        return self.session.usage_of(self.language_model)

    @property
    def num_unread(self) -> int:
        """Tokens of the prompt that have to be read before anything can be scored."""
        cached = self._implementation is not None or self.generation.cache is not None
        if cached or not issubclass(self.kind, CachedImplementation):
            return 0
        return len(self.generation.prompt_ids) - 1

    def log_likelihoods(self, rows: Sequence[Row], *, has_full: bool) -> Tensor:
        """Log-probabilities in nats [num_scored_rows, num_response_tokens], float32 on the CPU.

        The first rows, as many as the budget allows; `has_full` says that the first of all is that
        of the full prompt. Raises ScoringOutOfMemory if a single row does not fit.
        """
        parts, done = [torch.empty(0, len(self.generation.response_ids))], 0
        meter = self.session.meter
        if (meter.tokens and not meter.affords(self.num_unread)) or not self._is_ready():
            return parts[0]
        while done < len(rows):
            self.session.before_batch()
            batch = self._affordable(
                self.batching.next_batch(rows, done), first=has_full and not done
            )
            if not batch:
                break
            started = self.session.clock()
            before = self.implementation.scored_tokens
            try:
                part = unless_out_of_memory(partial(self.implementation.log_likelihoods, batch))
            except OutOfTime:
                break
            if part is None:
                self.batching.halve(batch)
                continue
            parts.append(part)
            tokens = self.implementation.scored_tokens - before
            meter.spend(tokens, self.session.clock() - started)
            self.usage.scored_tokens += tokens
            self.usage.forward_passes += 1 if self.implementation.packs_rows else len(batch)
            self.session.progress.advance(len(batch) - (has_full and not done))
            done += len(batch)
        meter.exhausted |= done < len(rows)
        return torch.cat(parts)

    def weights(self, row: Row, reduction: Reduction) -> Tensor | None:
        """As `Implementation.weights`; None where budget or memory do not allow it."""
        return self._observed(row.num_tokens, 0, lambda model: model.weights(row, reduction))

    def effects(self, row: Row, patch: Patch) -> Effects | None:
        """As `Implementation.effects`; None where budget or memory do not allow it."""
        tokens = patch.num_rows * row.num_tokens
        # A backward pass takes as long as two forward passes, and so does reading off the effects.
        backward = 2 * (patch.num_backward + 1) * tokens
        effects = self._observed(tokens, backward, lambda model: model.effects(row, patch))
        if effects is not None:
            self.usage.backward_tokens += patch.num_backward * tokens
        return effects

    def _observed(
        self, tokens: int, backward: int, compute: Callable[[Implementation], Result]
    ) -> Result | None:
        """A result of these tokens, forward and backward, within the budget and the memory."""
        meter = self.session.meter
        if not meter.affords(self.num_unread + tokens, backward):
            return None
        began = self.session.clock()
        self.session.before_batch()
        if not self._is_ready():  # reads the prompt: not this row's time
            return None
        started = self.session.clock()
        result = unless_out_of_memory(partial(compute, self.implementation))
        if result is not None:
            seconds = self.session.clock() - started
            meter.spend(tokens, seconds * tokens / (tokens + backward))
            self.usage.observed(tokens, 0, self.session.clock() - began)
        return result

    @cached_property
    def batching(self) -> Batching:
        batching = self.models.batching(self.implementation, self.options.token_budget)
        max_memory = self.options.max_memory
        if max_memory is not None and self.footprint is not None:
            most = self.footprint.batch_tokens(max_memory)
            batching.budget = min(batching.budget, most)
        return batching

    def _affordable(self, batch: Sequence[Row], *, first: bool) -> Sequence[Row]:
        """As many of these rows as the budget allows.

        The full prompt alone is useless, except as the first row that is scored at all.
        """
        least = min(2 if first else 1, len(batch))
        for count in range(len(batch), least - 1, -1):
            tokens = sum(map(self.implementation.num_tokens, batch[:count]))
            if self.session.meter.allows(tokens):
                return batch[:count]
        return batch[:1] if first and not self.usage.scored_tokens else ()

    def check_finite(self, scored: Matrix, ablations: Sequence[Ablation]) -> None:
        """Raises ScoringFailed for a value that is not finite."""
        bad = np.argwhere(~np.isfinite(scored))
        if not len(bad):
            return
        row, token = (int(index) for index in bad[0])
        removed = ablations[row]
        what = "of the full prompt" if removed == Ablation() else f"without {removed}"
        text = self.language_model.decode([self.generation.response_ids[token]])
        raise ScoringFailed(
            f"the log-likelihood {what} is {scored[row, token]} at response token {token} "
            f"({text!r}); the model's weights or its {self.language_model.dtype} overflow: "
            "try float32 or bfloat16"
        )

    def check_against_reference(
        self, rows: Sequence[Row], scored: Matrix, full: Matrix, indices: Sequence[int]
    ) -> None:
        """Compare that of these rows which changes the log-likelihoods most, on the user's model.

        `full` is the row of the full prompt. Raises ScoringFailed if a token differs by more than
        rounding and the noise of a server.
        """
        changes = np.abs(scored - full).sum(axis=1)
        index = max(indices, key=lambda index: changes[index])
        with torch.no_grad():
            reference = Reference(self.models.original, self.generation)
            truth = reference.log_likelihoods([rows[index]]).double().numpy()[0]
        difference = float(np.abs(truth - scored[index]).max())
        self.session.self_check = max(difference, self.session.self_check or 0.0)
        model = self.language_model
        limit = tolerance(model.dtype) + (model.backend.noise or 0.0)
        if difference > limit:
            raise ScoringFailed(
                f"{self.kind.name!r} differs from the reference by {difference:.3g} nats at "
                f"a token, more than {limit}; use implementation='reference' and report the model"
            )
