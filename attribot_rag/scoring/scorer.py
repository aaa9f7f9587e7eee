"""The scorer, the only place where sources are ablated and the response is scored."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from attribot_rag.cached_property import cached_property
from attribot_rag.context import Ablation, Context, PromptInput, TokenizedText
from attribot_rag.context.context import Unit, reduce_context
from attribot_rag.errors import ScoringFailed, ScoringOutOfMemory, UnsupportedModel
from attribot_rag.model.generation import Generation
from attribot_rag.model.language_model import LanguageModel
from attribot_rag.scoring.backend import (
    Backend,
    Batching,
    OutOfTime,
    Prefix,
    Reading,
    tolerance,
)
from attribot_rag.scoring.memory import REMEDY, unless_out_of_memory
from attribot_rag.scoring.patching import Patch
from attribot_rag.scoring.row import FULL_PROMPT, Recomputed, Request, Row, make_row, masked_row
from attribot_rag.scoring.session import ScoringOptions, Session, Usage

Matrix = npt.NDArray[np.float64]
Result = TypeVar("Result")
_SPARE_ROW = 2  # tokens of a row, as a multiple of its question and response


@dataclass(frozen=True, eq=False)
class LogLikelihoods:
    """Log-probabilities in nats of each response token.

    `full` [num_response_tokens] is the baseline with nothing removed, and `ablated` is
    [num_ablations, num_response_tokens]. Both are NaN after the budget ran out, and at tokens that
    an ablation does not score. `exact` says for each ablation whether it was scored, and its text
    removed to the character.
    """

    full: Matrix
    ablated: Matrix
    exact: tuple[bool, ...]

    @property
    def is_scored(self) -> tuple[bool, ...]:
        """For each ablation whether it was scored."""
        return tuple(bool(np.isfinite(row).any()) for row in self.ablated)

    @property
    def changes(self) -> list[tuple[float, ...] | None]:
        """For each ablation the drop of each token's log-likelihood in nats; None if not scored."""
        return [
            tuple((self.full - row).tolist()) if is_scored else None
            for row, is_scored in zip(self.ablated, self.is_scored, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class ScoredRow:
    """The log-likelihood of each response token in a row, and its loss, in nats.

    `is_exact` says whether its text was removed to the character.
    """

    log_likelihoods: tuple[float, ...]
    is_exact: bool
    loss: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Estimates:
    """Estimated effects of a scorer's units: `effects` [num_parts, num_units] in nats.

    `attention` [num_units] sums the largest attention weights on a unit's tokens, over tokens,
    heads and layers.
    """

    effects: Tensor
    attention: list[float]


@dataclass(eq=False)
class Scorer:
    """Scores a response under any ablations of its context.

    `units` are the sets of source ids that a method scores, each ablated together; by default each
    source alone. `narrowed`, `rebased` and `rebased_without` return new scorers with the same
    session. `prompt_input` lets a proxy encode the same prompt. `decoded` is the response's text,
    if it is known. `scored` has all scored rows of this prompt, so each is scored only once;
    narrowed scorers share it.
    """

    language_model: LanguageModel
    generation: Generation
    context: Context
    backend: Backend
    options: ScoringOptions = field(default_factory=ScoringOptions)
    session: Session = field(default_factory=Session)
    prompt_input: PromptInput | None = None
    decoded: TokenizedText | None = None
    units: tuple[Unit, ...] = ()

    def __post_init__(self) -> None:
        self.units = self.units or tuple((source_id,) for source_id in self.context.present)
        self._engine = Engine(
            self.language_model, self.generation, self.backend, self.options, self.session
        )
        self.scored: dict[Request, ScoredRow] = {}

    @property
    def prefix(self) -> Prefix:
        """The prompt and the implementation that scores after it."""
        return self._engine.prefix

    @property
    def usage(self) -> Usage:
        """The work of this scorer's model in the session."""
        return self._engine.usage

    @cached_property
    def response(self) -> TokenizedText:
        """The response's tokens with their text. Special tokens are empty."""
        return self.decoded or TokenizedText.of(
            self.generation.response_ids, self.language_model, skip_special_tokens=True
        )

    @property
    def why_no_masks(self) -> str | None:
        """Why masked ablation is not available here; None if it is."""
        return self.prefix.why_no_masks

    @property
    def can_mask(self) -> bool:
        """Whether masked ablation is available here."""
        return self.why_no_masks is None

    @property
    def sees_attention(self) -> bool:
        """Whether `estimate_effects` is available here."""
        return self.prefix.sees_attention

    @property
    def num_spare_rows(self) -> int:
        """How many rows, of the response after a short prompt, at most double the time of a pass.

        0 if tokens determine the time of a pass, or if they are limited.
        """
        if self.session.meter.counts_tokens:
            return 0
        tail = (
            len(self.generation.prompt_ids)
            - self.context.query_start
            + len(self.generation.response_ids)
        )
        return self.prefix.pass_tokens // (_SPARE_ROW * tail)

    def rows_for_one_pass(
        self, requests: Sequence[Request], prefetch: Iterable[Request]
    ) -> dict[Request, Row]:
        """The requested rows that one pass has room for, then rows to prefetch that also fit.

        The full prompt takes no room. This stops when not even a row as short as the shortest one
        so far would fit, because making a row to discard it costs time.
        """
        prefix, made = self.prefix, dict[Request, Row]()
        room = shortest = prefix.pass_tokens
        for request in requests:
            if room < 0:
                return made
            if request not in made and request not in self.scored:
                made[request] = row = self._row(request)
                length = 0 if request == FULL_PROMPT else prefix.num_tokens(row)
                shortest = min(shortest, length or shortest)
                room -= length
        for request in prefetch:
            if room < shortest:
                break
            if request not in made and request not in self.scored:
                row = self._row(request)
                length = prefix.num_tokens(row)
                shortest = min(shortest, length)
                if length <= room:
                    made[request] = row
                    room -= length
        return made

    def _row(self, request: Request) -> Row:
        return make_row(request, self.context, self.generation, self.language_model)

    def narrowed(self, units: Sequence[Unit]) -> Scorer:
        """The same prompt, with these units to score."""
        other = copy.copy(self)
        other.units = tuple(units)
        return other

    def rebased(self, kept: Collection[int]) -> Scorer | None:
        """A scorer whose prompt has only these sources, with its own baseline.

        The shorter prompt is prefilled again; None if the budget does not allow that. Units lose
        the sources that the prompt lacks.
        """
        gone = Ablation(frozenset(self.context.present) - frozenset(kept))
        return self.rebased_without(gone) if gone.source_ids else self

    def rebased_without(self, removed: Ablation) -> Scorer | None:
        """A scorer of the same response after the reduced prompt; None beyond the budget."""
        context = reduce_context(self.context, removed, self.language_model)
        if not self.session.meter.fit_or_stop(len(context.prompt.ids)):
            return None
        present = frozenset(context.present)
        units = (tuple(i for i in unit if i in present) for unit in self.units)
        return replace(
            self,
            generation=replace(self.generation, prompt_ids=context.prompt.ids, cache=None),
            context=context,
            units=tuple(filter(None, units)),
        )

    def score(
        self, ablations: Sequence[Ablation], *, recompute: Recomputed | None = None
    ) -> LogLikelihoods:
        """Log-likelihoods with nothing removed, and under each ablation that the budget allows.

        An ablation is scored only once.

        Without `recompute`, the ablated text is removed, and everything after it is encoded again.
        This is exact. With `recompute`, the prompt stays encoded, and only some tokens are encoded
        again, without attending to the ablated tokens (see `masked_row`). With 'rest', no remaining
        token has attended to the ablated tokens. So it differs from the exact score only in the
        positions of tokens.

        Raises UnsupportedModel if the architecture does not allow masking, ScoringOutOfMemory if a
        single ablation does not fit, and ScoringFailed for a log-likelihood that is not finite.
        """
        return self.score_each([Request(ablation, recompute) for ablation in ablations])

    def score_each(
        self, requests: Sequence[Request], prefetch: Iterable[Request] = ()
    ) -> LogLikelihoods:
        """As `score`, with its own `recompute` for each ablation.

        Rows to `prefetch` are scored in the same pass if they fit, and `scored` has them. No row is
        prefetched if only tokens cost time.
        """
        if any(request.recompute for request in requests) and not self.can_mask:
            raise UnsupportedModel(
                f"masked ablation is not available for this model: {self.why_no_masks}; use "
                "leave-one-out or hierarchical attribution"
            )
        self._score(requests, prefetch)
        num_tokens = len(self.generation.response_ids)
        undone = ScoredRow((np.nan,) * num_tokens, False, ())
        rows = [self.scored.get(request, undone) for request in [FULL_PROMPT, *requests]]
        full, *ablated = np.array([row.log_likelihoods for row in rows])
        return LogLikelihoods(
            full,
            np.array(ablated).reshape(-1, num_tokens),
            tuple(row.is_exact for row in rows[1:]),
        )

    def _score(self, requests: Sequence[Request], prefetch: Iterable[Request]) -> None:
        """Score the requests that are not scored yet, after the full prompt."""
        new = [x for x in dict.fromkeys([FULL_PROMPT, *requests]) if x not in self.scored]
        if not new:
            return
        started, has_full_prompt = self.session.meter.clock(), new[0] == FULL_PROMPT
        made: dict[Request, Row] = {}
        if prefetch and self.num_spare_rows:
            made = self.rows_for_one_pass(new, prefetch)
        new = [*dict.fromkeys([*new, *made])]
        is_exact: dict[Request, bool] = {}

        def make_rows() -> Iterator[Row]:
            """One by one, because each may be as long as the prompt."""
            for request in new:
                row = made.get(request) or self._row(request)
                is_exact[request] = row.is_exact
                yield row

        self.session.progress.expect(len(new) - has_full_prompt)
        scores = self._engine.log_likelihoods(make_rows(), has_full_prompt=has_full_prompt)
        self.usage.seconds += self.session.meter.clock() - started
        done = dict(zip(new, scores.double().numpy(), strict=False))  # what the budget allowed
        if not done:
            return
        self._engine.check_finite(done)
        full = (
            done[FULL_PROMPT]
            if has_full_prompt
            else np.array(self.scored[FULL_PROMPT].log_likelihoods)
        )
        for request, row in done.items():
            loss = tuple((full - row).tolist())
            self.scored[request] = ScoredRow(tuple(row.tolist()), is_exact[request], loss)
        if self.options.self_check:
            self._check_largest(done, full)

    def _check_largest(self, done: Mapping[Request, Matrix], full: Matrix) -> None:
        """Compare with the reference the row, of a prompt with text removed, that changed most."""
        removed = [x for x in done if not x.recompute and x != FULL_PROMPT]
        if removed:
            most = max(removed, key=lambda request: np.nansum(np.abs(done[request] - full)))
            self._engine.check_against_reference(self._row(most), done[most])

    def score_other(self, generation: Generation) -> list[float] | None:
        """The log-likelihoods of another, short generation's response, by the reference.

        None beyond the budget, or if one of them is not finite.
        """
        meter = self.session.meter
        row = Row.for_prompt(generation.prompt_ids, 0, generation)
        if not meter.try_fit(row.num_new):
            return None
        started = meter.clock()
        with torch.no_grad():
            scores = self.backend.reference(generation).log_likelihoods([row])
        seconds = meter.clock() - started
        self.usage.count_pass(row.num_new, 0, seconds)
        meter.spend(row.num_new, seconds)
        return scores[0].double().tolist() if bool(scores.isfinite().all()) else None

    def estimate_effects(
        self,
        parts: Sequence[Sequence[int]],
        gates: int = 1,
        *,
        single_backward_pass: bool = False,
    ) -> Estimates | None:
        """Estimated effects of each unit on each part of the response. Parts are response tokens.

        The attention of question and response to a unit is removed from each attention head, and
        the log-likelihood follows to first order (attribution patching). This takes a forward pass,
        and a backward pass for each part.

        None beyond the budget, and if it does not fit into memory. Raises UnsupportedModel if
        attention cannot be observed.

        Args:
            parts: The response tokens of each part.
            gates: With several, the attention to all units is scaled by as many factors between 0
                and 1, in rows of one pass, and the derivatives are averaged (integrated gradients,
                arXiv 1703.01365). This sees effects that saturate.
            single_backward_pass: Whether all parts share a backward pass. An effect counts for the
                part whose tokens attend to the unit, and one through the question's tokens for each
                part. The ranks are nearly the same.
        """
        engine = self.engine_for_attention()
        self.session.progress.expect(gates)
        row = masked_row(self.context, self.generation, Ablation(), "question")
        members = np.zeros((len(self.generation.prompt_ids), len(self.units)), dtype=np.float32)
        for index, unit in enumerate(self.units):
            members[self.context.hidden_tokens(Ablation.of(*unit)), index] = 1.0
        members[row.positions[0] :] = 0.0  # tokens that are encoded again are in no cache
        factors = tuple((2 * i + 1) / (2 * gates) for i in range(gates)) if gates > 1 else ()
        patch = Patch(torch.from_numpy(members), parts, factors, single_backward_pass)
        effects = engine.run_pass(
            lambda: engine.prefix.effects(row, patch),
            patch.num_rows * row.num_new,
            patch.num_backward,
        )
        if effects is None:
            return None
        self.session.progress.advance(gates)
        return Estimates(effects.by_part, (effects.weights @ patch.members).tolist())

    def engine_for_attention(self) -> Engine:
        """The engine. Raises UnsupportedModel if attention cannot be observed."""
        if not self.sees_attention:
            reason = f": {self.why_no_masks}" if self.why_no_masks else ""
            raise UnsupportedModel(
                f"attention is not seen in {self.language_model.public_name!r}{reason}; use 'auto'"
            )
        return self._engine


@dataclass(eq=False)
class Engine:
    """The prefix that all scorers of a prompt share. It is read on first use.

    So the prompt is read once, and not at all if only a proxy scores. Tokens and passes are counted
    in the session. Seconds of rows are not, because a scorer times itself.
    """

    language_model: LanguageModel
    generation: Generation
    backend: Backend
    options: ScoringOptions
    session: Session
    _is_read: bool | None = field(default=None, init=False)  # None before it is tried

    @cached_property
    def prefix(self) -> Prefix:
        options = self.options
        return self.backend.prefix_for(self.generation, options.implementation, options.pass_tokens)

    @cached_property
    def usage(self) -> Usage:
        return self.session.usage_of(self.language_model)

    @cached_property
    def batching(self) -> Batching:
        """The batches after the prompt is read."""
        return self.prefix.batching(self.options.token_budget)

    def _ensure_read(self) -> bool:
        """Read the prompt, unless that was tried before. Whether it is read within the budget."""
        meter = self.session.meter
        if self._is_read is None:
            started = self.session.meter.clock()
            try:
                self.prefix.read(Reading(self._before_piece, meter.deadline))
            except OutOfTime:
                self._is_read = False
            else:
                self._is_read = True
                meter.spend(self.prefix.prefilled_tokens, self.session.meter.clock() - started)
                self.usage.prefilled_tokens += self.prefix.prefilled_tokens
        meter.exhausted = meter.exhausted or not self._is_read
        return self._is_read

    def _before_piece(self, position: int) -> None:
        """Let a generation go first. Raises OutOfTime after the first piece if time is up."""
        self.session.before_batch()
        if position and self.session.meter.is_late:
            self.usage.prefilled_tokens += position
            raise OutOfTime

    def log_likelihoods(self, rows: Iterator[Row], *, has_full_prompt: bool) -> Tensor:
        """Log-probabilities in nats [num_scored_rows, num_response_tokens], float32 on the CPU.

        They are of the first rows, as many as the budget allows. `has_full_prompt` says that the
        first row is the full prompt. Raises ScoringOutOfMemory if a single row does not fit.
        """
        batches = [torch.empty(0, len(self.generation.response_ids))]
        meter = self.session.meter
        if (
            meter.tokens and not meter.fit_or_stop(self.prefix.num_unread)
        ) or not self._ensure_read():
            return batches[0]
        waiting: list[Row] = []
        while batch := self.batching.next_batch(waiting, rows):
            self.session.before_batch()
            batch = self._affordable(batch, has_full_prompt=has_full_prompt)
            if not batch:
                break
            started = self.session.meter.clock()
            before = self.prefix.scored_tokens
            try:
                scores = unless_out_of_memory(partial(self.prefix.log_likelihoods, batch))
            except OutOfTime:
                break
            if scores is None:
                if len(batch) == 1:
                    raise ScoringOutOfMemory(
                        f"one ablation of {self.prefix.num_tokens(batch[0])} tokens does not fit "
                        f"into memory; {REMEDY}"
                    )
                self.batching.halve(batch)
                torch.cuda.empty_cache()  # does nothing without a GPU
                continue
            batches.append(scores)
            tokens = self.prefix.scored_tokens - before
            meter.spend(tokens, self.session.meter.clock() - started)
            self.usage.scored_tokens += tokens
            self.usage.forward_passes += 1 if self.prefix.packs_rows else len(batch)
            self.session.progress.advance(len(batch) - has_full_prompt)
            has_full_prompt = False
            del waiting[: len(batch)]
        meter.exhausted = meter.exhausted or bool(waiting)
        return torch.cat(batches)

    def run_pass(
        self, compute: Callable[[], Result], tokens: int, passes_back: int = 0
    ) -> Result | None:
        """A result of a pass over these tokens; None if budget or memory do not allow it.

        A backward pass takes as long as two forward passes, and so does reading its results.
        """
        backward = 2 * (passes_back + 1) * tokens if passes_back else 0
        meter = self.session.meter
        if not meter.fit_or_stop(self.prefix.num_unread + tokens, backward):
            return None
        began = self.session.meter.clock()
        self.session.before_batch()
        if not self._ensure_read():  # reads the prompt, which is not this row's time
            return None
        started = self.session.meter.clock()
        result = unless_out_of_memory(compute)
        if result is not None:
            seconds = self.session.meter.clock() - started
            meter.spend(tokens, seconds * tokens / (tokens + backward))
            self.usage.count_pass(tokens, passes_back * tokens, self.session.meter.clock() - began)
        return result

    def _affordable(self, batch: list[Row], *, has_full_prompt: bool) -> list[Row]:
        """As many of these rows as the budget allows.

        The full prompt alone is useless, unless it is the first row that is scored at all.
        """
        least = min(2 if has_full_prompt else 1, len(batch))
        for count in range(len(batch), least - 1, -1):
            tokens = sum(map(self.prefix.num_tokens, batch[:count]))
            if self.session.meter.try_fit(tokens):
                return batch[:count]
        return batch[:1] if has_full_prompt and not self.usage.scored_tokens else []

    def check_finite(self, scored: Mapping[Request, Matrix]) -> None:
        """Raises ScoringFailed for a value that is not finite."""
        for request, row in scored.items():
            removed = request.ablation
            places = np.flatnonzero(~np.isfinite(row)).tolist()
            bad = [token for token in places if token in (removed.kept_response or (token,))]
            if bad:
                what = "of the full prompt" if removed == Ablation() else f"without {removed}"
                text = self.language_model.decode([self.generation.response_ids[bad[0]]])
                raise ScoringFailed(
                    f"the log-likelihood {what} is {row[bad[0]]} at response token {bad[0]} "
                    f"({text!r}); the model's weights or its {self.language_model.dtype} overflow: "
                    "try float32 or bfloat16"
                )

    def check_against_reference(self, row: Row, scored: Matrix) -> None:
        """Compare a row's log-likelihoods [num_response_tokens] with the user's own model.

        Raises ScoringFailed if a token differs by more than rounding and the model's noise.
        """
        with torch.no_grad():
            reference = self.backend.reference(self.generation)
            truth = reference.log_likelihoods([row]).double().numpy()[0]
        difference = float(np.nanmax(np.abs(truth - scored)))
        self.session.largest_difference = max(difference, self.session.largest_difference or 0.0)
        model = self.language_model
        limit = tolerance(model.dtype) + (model.weights.noise or 0.0)
        if difference > limit:
            raise ScoringFailed(
                f"{self.prefix.name!r} differs from the reference by {difference:.3g} nats at "
                f"a token, more than {limit}; use implementation='reference' and report the model"
            )
