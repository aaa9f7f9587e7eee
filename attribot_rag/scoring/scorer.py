"""The scorer, the only place where sources are ablated and the response is scored."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from attribot_rag.cached_property import cached_property
from attribot_rag.context import Ablation, Context, PromptInput, TokenizedText
from attribot_rag.context.context import Unit, reduced
from attribot_rag.errors import UnsupportedModel
from attribot_rag.model.generation import Generation, PromptCache
from attribot_rag.model.language_model import LanguageModel
from attribot_rag.scoring.attention import UnitAttention
from attribot_rag.scoring.backend import Backend
from attribot_rag.scoring.engine import Engine, Matrix
from attribot_rag.scoring.options import ScoringOptions
from attribot_rag.scoring.row import NOTHING, AblatedRows, Reencoded, Request
from attribot_rag.scoring.session import Session, Usage

_SPARE_ROW = 2  # the tokens of a row, in those of its question and response


@dataclass(frozen=True, eq=False)
class LogLikelihoods:
    """Log-probabilities in nats of each response token.

    `full` [num_response_tokens] is the baseline with nothing removed, `ablated` [num_ablations,
    num_response_tokens]; both are NaN where the budget ran out, and at tokens that an ablation does
    not say. `in_step` says for each ablation that was scored whether its text was removed exactly.
    """

    full: Matrix
    ablated: Matrix
    in_step: tuple[bool, ...]

    @property
    def scored(self) -> tuple[bool, ...]:
        """For each ablation whether it was scored."""
        return tuple(bool(np.isfinite(row).any()) for row in self.ablated)

    @property
    def changes(self) -> list[tuple[float, ...] | None]:
        """For each ablation the drop of each token's log-likelihood in nats, None if not scored."""
        return [
            tuple((self.full - row).tolist()) if scored else None
            for row, scored in zip(self.ablated, self.scored, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class _Scored:
    """A row's log-likelihoods [num_response_tokens], and what they lose, in nats.

    `in_step` says whether its text was removed exactly.
    """

    row: Matrix
    in_step: bool
    loss: tuple[float, ...]


@dataclass(eq=False)
class Scorer:
    """Scores a response under any ablations of its context.

    `units` are the sets of source ids that a method scores, each ablated together; by default each
    source alone. A scorer is never changed: `narrowed`, `rebased` and `rebased_without` return
    other scorers with the same session. `prompt_input` lets a proxy encode the same prompt;
    `decoded` is the response's text, where it is known.
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
            self.language_model,
            self.generation,
            self.backend,
            self.options,
            self.session,
            min(self.context.branches, default=0),
            len(self.units),
        )
        # With the same prompt and response, a row is scored once, whoever asks for it.
        self._scored: dict[Request, _Scored] = {}

    @property
    def implementation(self) -> str:
        """The name of the implementation that scores."""
        return self._engine.prefix.name

    @property
    def fallback(self) -> str | None:
        """Why 'auto' does not use the fastest implementation for this model, None if it does."""
        return self._engine.prefix.fallback

    @property
    def prompt_cache(self) -> tuple[PromptCache, int | None]:
        """The cache of the prompt, and the version of the model that read it; empty if unread."""
        return self._engine.prefix.prompt_cache, self._engine.prefix.model_version

    @property
    def usage(self) -> Usage:
        """The work of this scorer's model in the session."""
        return self._engine.usage

    @cached_property
    def response(self) -> TokenizedText:
        """The response's tokens with their text, in which special tokens are empty."""
        return self.decoded or TokenizedText.of(
            self.generation.response_ids, self.language_model, skip_special_tokens=True
        )

    @property
    def masked_refusal(self) -> str | None:
        """Why masked ablation is not available here, or None if it is."""
        return self._engine.prefix.masked_refusal

    @property
    def attention(self) -> UnitAttention | None:
        """The attention to the units, None where it is not seen."""
        is_seen = self._engine.prefix.attention is not None
        return UnitAttention(self._engine, self.context, self.units) if is_seen else None

    def require_attention(self) -> UnitAttention:
        """The attention to the units; raises UnsupportedModel where it is not seen."""
        if self.attention is not None:
            return self.attention
        reason = f": {self.masked_refusal}" if self.masked_refusal else ""
        raise UnsupportedModel(
            f"attention is not seen in {self.language_model.public_name!r}{reason}; use 'auto'"
        )

    @property
    def num_spare(self) -> int:
        """Rows, of the response after a short prompt, that add next to nothing to a pass's time.

        0 where tokens are the price of a pass, or bounded.
        """
        if self.session.meter.counts_tokens:
            return 0
        tail = (
            len(self.generation.prompt_ids) - self.context.end + len(self.generation.response_ids)
        )
        return self._engine.prefix.pass_tokens // (_SPARE_ROW * tail)

    def filling(self, asked: Sequence[Request], others: Iterable[Request]) -> Iterator[Request]:
        """Those of the others that fill a pass of what is asked, up to `pass_tokens` together.

        It ends once the shortest row so far would not fit: to make a row takes time as well.
        """
        prefix = self._engine.prefix
        requests, room, shortest = [*asked, *others], prefix.pass_tokens, prefix.pass_tokens
        rows = AblatedRows(self.context, self.generation, self.language_model, requests)
        for index, (request, row) in enumerate(zip(requests, rows, strict=True)):
            is_asked, num_tokens = index < len(asked), prefix.num_tokens(row)
            shortest = min(shortest, num_tokens)
            if is_asked or num_tokens <= room:
                room -= num_tokens
                if not is_asked:
                    yield request
            if room < shortest and index + 1 >= len(asked):
                return

    def narrowed(self, units: Sequence[Unit]) -> Scorer:
        """The same prompt, with these units to score."""
        other = copy.copy(self)
        other.units = tuple(units)
        return other

    def rebased(self, kept: Collection[int]) -> Scorer | None:
        """A scorer whose prompt holds only these sources, with a baseline of its own.

        A reduced prompt is prefilled again; None if the budget does not allow that. Units lose
        the sources that the prompt lacks.
        """
        gone = Ablation(frozenset(self.context.present) - frozenset(kept))
        return self.rebased_without(gone) if gone.source_ids else self

    def rebased_without(self, removed: Ablation) -> Scorer | None:
        """A scorer of the same response after the reduced prompt; None beyond the budget."""
        context = reduced(self.context, removed, self.language_model)
        if not self.session.meter.affords(len(context.prompt.ids)):
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
        self, ablations: Sequence[Ablation], *, recompute: Reencoded | None = None
    ) -> LogLikelihoods:
        """Log-likelihoods with nothing removed and under each ablation, as far as the budget goes.

        An ablation that was scored before is not scored again.

        Without `recompute` the ablated text is removed and everything after it is encoded again:
        exact. With `recompute` the prompt stays encoded, and only some tokens are encoded again,
        without attending to the ablated tokens (see `masked_row`). With 'rest' no remaining token
        has attended to the ablated tokens, so it differs from the exact score only in the
        positions of tokens.

        Raises UnsupportedModel if the architecture does not allow masking, ScoringOutOfMemory if a
        single ablation does not fit, ScoringFailed for a log-likelihood that is not finite.
        """
        return self.score_each([(ablation, recompute) for ablation in ablations])

    def score_each(self, requests: Sequence[Request]) -> LogLikelihoods:
        """As `score`, with a `recompute` of each ablation's own."""
        if any(recompute for _, recompute in requests) and self.masked_refusal is not None:
            raise UnsupportedModel(
                f"masked ablation is not available for this model: {self.masked_refusal}; use "
                "leave-one-out or hierarchical attribution"
            )
        self._score(requests)
        undone = _Scored(np.full(len(self.generation.response_ids), np.nan), False, ())
        full, *rows = (self._scored.get(request, undone) for request in [NOTHING, *requests])
        return LogLikelihoods(
            full.row,
            np.stack([each.row for each in rows]) if rows else np.empty((0, len(full.row))),
            tuple(each.in_step for each in rows),
        )

    def known(self, request: Request) -> tuple[float, ...] | None:
        """The loss of each response token in this row, in nats, None if it was not scored."""
        scored = self._scored.get(request)
        return None if scored is None else scored.loss

    def likely(self, request: Request) -> tuple[float, ...] | None:
        """The log-likelihood of each response token in this row, None if it was not scored."""
        scored = self._scored.get(request)
        return None if scored is None else tuple(scored.row.tolist())

    def _score(self, requests: Sequence[Request]) -> None:
        """Score those of the requests that were not scored, after the full prompt."""
        new = [x for x in dict.fromkeys([NOTHING, *requests]) if x not in self._scored]
        if not new:
            return
        started, has_full = self.session.clock(), new[0] == NOTHING
        rows = AblatedRows(self.context, self.generation, self.language_model, new)
        self.session.progress.expect(len(new) - has_full)
        scored = self._engine.log_likelihoods(rows, has_full=has_full).double().numpy()
        self.usage.seconds += self.session.clock() - started
        if not len(scored):
            return
        self._engine.check_finite(scored, [ablation for ablation, _ in new])
        full = scored[0] if has_full else self._scored[NOTHING].row
        for request, row, in_step in zip(new, scored, rows.in_step, strict=False):
            self._scored[request] = _Scored(row, in_step, tuple((full - row).tolist()))
        exact = [i for i, each in enumerate(new[: len(scored)]) if each != NOTHING and not each[1]]
        if self.options.self_check and exact:
            self._engine.check_against_reference(rows, scored, full, exact)
