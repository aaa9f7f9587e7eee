"""Runs rows through a model, in batches and within the budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from attribot_rag.cached_property import cached_property
from attribot_rag.context import Ablation
from attribot_rag.errors import ScoringFailed, ScoringOutOfMemory, UnsupportedModel
from attribot_rag.model.generation import Generation
from attribot_rag.model.language_model import LanguageModel
from attribot_rag.scoring.backend import (
    Attention,
    Backend,
    Batching,
    OutOfTime,
    Prefix,
    Reading,
    Unsupported,
)
from attribot_rag.scoring.local.probes import tolerance
from attribot_rag.scoring.memory import REMEDY, Footprint, unless_out_of_memory
from attribot_rag.scoring.options import ScoringOptions
from attribot_rag.scoring.row import Row
from attribot_rag.scoring.session import Session, Usage

Matrix = npt.NDArray[np.float64]
Result = TypeVar("Result")


@dataclass(eq=False)
class Engine:
    """The prefix that all scorers of a prompt share, read on first use.

    So the prompt is read once, and not at all if only a proxy scores. Tokens and passes are counted
    in the session; seconds of rows are not, because a scorer times itself. `branch` is the first
    position of the prompt from which rows go on.
    """

    language_model: LanguageModel
    generation: Generation
    backend: Backend
    options: ScoringOptions
    session: Session
    branch: int = 0
    num_units: int = 0
    _prefix: Prefix | None = field(default=None, init=False)
    _is_read: bool = field(default=False, init=False)
    _out_of_time: bool = field(default=False, init=False)

    @property
    def prefix(self) -> Prefix:
        if self._prefix is None:
            chosen = self.options.implementation
            worth = self.options.pass_tokens
            self._prefix = self.backend.encode_prefix(self.generation, chosen, worth)
        return self._prefix

    @cached_property
    def footprint(self) -> Footprint | None:
        """The estimated memory that scoring takes here."""
        return self.prefix.footprint(self.branch, self.num_units)

    @cached_property
    def batching(self) -> Batching:
        batching = self.prefix.batching(self.options.token_budget)
        if self.options.max_memory is not None and self.footprint is not None:
            most = self.footprint.batch_tokens(self.options.max_memory)
            batching.budget = min(batching.budget, most)
        return batching

    def _read(self) -> None:
        """Read the prompt, which is counted; raises OutOfTime.

        Raises ScoringOutOfMemory, before that, if scoring would take too much memory.
        """
        if self.footprint is not None:
            self.footprint.check(self.options.max_memory, self.language_model.device)
        started = self.session.clock()
        try:
            self.prefix.read(Reading(self._before_piece, self.session.meter.deadline))
        except Unsupported as error:  # which no probe showed
            reason = f"{self.prefix.name}: {error}"
            if self.options.implementation != "auto":
                raise UnsupportedModel(f"{reason}; use 'auto'") from error
            self._prefix = self.backend.encode_prefix(self.generation, "reference")
            self._prefix.fallback = reason
        self.session.meter.spend(self.prefix.prefilled_tokens, self.session.clock() - started)
        self.usage.prefilled_tokens += self.prefix.prefilled_tokens
        self._is_read = True

    def _before_piece(self, position: int) -> None:
        """Let a generation go first; raises OutOfTime after the first piece if time is over."""
        self.session.before_batch()
        if position and self.session.meter.is_late:
            self.usage.prefilled_tokens += position
            raise OutOfTime

    def _is_ready(self) -> bool:
        """Whether the prompt is read, or could be, within the budget."""
        try:
            if not self._is_read and not self._out_of_time:
                self._read()
        except OutOfTime:
            self._out_of_time = True
        self.session.meter.exhausted |= not self._is_read
        return self._is_read

    @property
    def usage(self) -> Usage:
        return self.session.usage_of(self.language_model)

    def log_likelihoods(self, rows: Sequence[Row], *, has_full: bool) -> Tensor:
        """Log-probabilities in nats [num_scored_rows, num_response_tokens], float32 on the CPU.

        The first rows, as many as the budget allows; `has_full` says that the first of all is that
        of the full prompt. Raises ScoringOutOfMemory if a single row does not fit.
        """
        parts, done = [torch.empty(0, len(self.generation.response_ids))], 0
        meter = self.session.meter
        if (meter.tokens and not meter.affords(self.prefix.num_unread)) or not self._is_ready():
            return parts[0]
        while done < len(rows):
            self.session.before_batch()
            batch = self._affordable(
                self.batching.next_batch(rows, done), first=has_full and not done
            )
            if not batch:
                break
            started = self.session.clock()
            before = self.prefix.scored_tokens
            try:
                part = unless_out_of_memory(partial(self.prefix.log_likelihoods, batch))
            except OutOfTime:
                break
            if part is None:
                self._make_room(batch)
                continue
            parts.append(part)
            tokens = self.prefix.scored_tokens - before
            meter.spend(tokens, self.session.clock() - started)
            self.usage.scored_tokens += tokens
            self.usage.forward_passes += 1 if self.prefix.packs_rows else len(batch)
            self.session.progress.advance(len(batch) - (has_full and not done))
            done += len(batch)
        meter.exhausted |= done < len(rows)
        return torch.cat(parts)

    def observed(
        self, compute: Callable[[Attention], Result], tokens: int, passes_back: int = 0
    ) -> Result | None:
        """A result of attention to these tokens; None where budget or memory do not allow it.

        A pass back takes as long as two forward, and so does reading off what it gives.
        """
        attention = self.prefix.attention
        assert attention is not None, "attention is seen"
        backward = 2 * (passes_back + 1) * tokens if passes_back else 0
        meter = self.session.meter
        if not meter.affords(self.prefix.num_unread + tokens, backward):
            return None
        began = self.session.clock()
        self.session.before_batch()
        if not self._is_ready():  # reads the prompt: not this row's time
            return None
        started = self.session.clock()
        result = unless_out_of_memory(partial(compute, attention))
        if result is not None:
            seconds = self.session.clock() - started
            meter.spend(tokens, seconds * tokens / (tokens + backward))
            self.usage.observed(tokens, passes_back * tokens, self.session.clock() - began)
        return result

    def _make_room(self, batch: Sequence[Row]) -> None:
        """Smaller batches, after one did not fit; raises ScoringOutOfMemory for a single row."""
        if len(batch) == 1:
            raise ScoringOutOfMemory(
                f"one ablation of {self.prefix.num_tokens(batch[0])} tokens does not fit into "
                f"memory; {REMEDY}"
            )
        self.batching.halve(batch)
        torch.cuda.empty_cache()  # nothing without a GPU

    def _affordable(self, batch: Sequence[Row], *, first: bool) -> Sequence[Row]:
        """As many of these rows as the budget allows.

        The full prompt alone is useless, except as the first row that is scored at all.
        """
        least = min(2 if first else 1, len(batch))
        for count in range(len(batch), least - 1, -1):
            tokens = sum(map(self.prefix.num_tokens, batch[:count]))
            if self.session.meter.allows(tokens):
                return batch[:count]
        return batch[:1] if first and not self.usage.scored_tokens else ()

    def check_finite(self, scored: Matrix, ablations: Sequence[Ablation]) -> None:
        """Raises ScoringFailed for a value that is not finite."""
        said = [ablation.said for ablation in ablations]
        places = np.argwhere(~np.isfinite(scored)).tolist()
        bad = [(row, token) for row, token in places if token in (said[row] or (token,))]
        if not bad:
            return
        row, token = bad[0]
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
        changes = np.nansum(np.abs(scored - full), axis=1)
        index = max(indices, key=lambda index: changes[index])
        with torch.no_grad():
            reference = self.backend.reference(self.generation)
            truth = reference.log_likelihoods([rows[index]]).double().numpy()[0]
        difference = float(np.nanmax(np.abs(truth - scored[index])))
        self.session.self_check = max(difference, self.session.self_check or 0.0)
        model = self.language_model
        limit = tolerance(model.dtype) + (model.weights.noise or 0.0)
        if difference > limit:
            raise ScoringFailed(
                f"{self.prefix.name!r} differs from the reference by {difference:.3g} nats at "
                f"a token, more than {limit}; use implementation='reference' and report the model"
            )
