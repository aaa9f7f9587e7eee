"""The default: masked ablation of the most attended sources, exact scores of the best of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from attribot_rag.context import Ablation
from attribot_rag.context.groups import Level
from attribot_rag.errors import InvalidInput
from attribot_rag.language_model import LanguageModel
from attribot_rag.methods.base import WORTHWHILE, Method, Row, Scores, best, num_kept
from attribot_rag.methods.cost import Cost, Workload
from attribot_rag.methods.hierarchical import best_of_each_sentence
from attribot_rag.methods.leave_one_out import LeaveOneOut, scores_of
from attribot_rag.methods.proxy import Proxy
from attribot_rag.methods.screening import Screening
from attribot_rag.scoring import Scorer

_SHARE = 0.05
_AT_STAKE = 1.0


@dataclass(frozen=True)
class Auto:
    """The whole context, masked candidates, exact scores of the best of them in the full prompt.

    Candidates are the `candidates` units that the question and the answer attend to most, scored
    by masked ablation. Scored exactly are the best of them and the most attended one, and as far
    as they are worth half a nat the best `rescore`, down to a twentieth of the best, and the best
    one of every answer sentence. Where masked and exact scores of these agree less than
    `min_agreement` (0 to 1), and a nat is at stake, all candidates are scored exactly. So are all
    units where there are no more than `rescore`.

    Where attention is not seen, groups find the candidates, and `keep` of them (a number, or a
    fraction) are looked into; where the architecture does not allow masking, all is scored
    exactly. A `proxy` finds the candidates where that takes fewer FLOPs.
    """

    candidates: int = 16
    rescore: int = 6
    min_agreement: float = 0.75
    keep: int | float = 3
    level: Level = "passage"
    proxy: LanguageModel | None = None

    name = "auto"

    def __post_init__(self) -> None:
        for name, least in (("candidates", 1), ("rescore", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise InvalidInput(f"{name}={value!r}; use a whole number of at least {least}")
        if not 0 <= self.min_agreement <= 1:
            raise InvalidInput(f"min_agreement={self.min_agreement!r}; use a value in [0, 1]")
        num_kept(self.keep, 1)

    def run(self, scorer: Scorer) -> Scores:
        whole = scorer.score([scorer.context.whole])
        screening = self._screening(scorer)
        scores = screening.run(scorer)
        exact = isinstance(screening, LeaveOneOut)
        exact |= screening is self._on_target and scorer.masked_refusal is not None
        chosen = [] if exact else self._chosen(scorer, scores)
        again = _Again(scorer, scores)
        agreement = again.score(chosen) if chosen else None
        at_stake = again.best >= _AT_STAKE
        if at_stake and agreement is not None and agreement < self.min_agreement:
            order = best(scores.totals, len(scorer.units))
            others = [index for index in order if scores.token_scores[index] is not None]
            agreement = again.score([index for index in others if index not in chosen])
        return replace(
            scores,
            token_log_likelihoods=scores_of(whole).token_log_likelihoods,
            token_scores=tuple(again.rows),
            exact=tuple(again.exact),
            context_reliance=whole.changes[0],
            agreement=agreement,
            screened=scores.token_scores,
            num_dropped=again.num_dropped,
            notes=tuple(self._notes(scores, agreement if at_stake else None)),
        )

    def _chosen(self, scorer: Scorer, scores: Scores) -> list[int]:
        """What is worth an exact score, in the order of its worth."""
        rows = scores.token_scores
        order = [index for index in best(scores.totals, len(rows)) if rows[index] is not None]
        if not self.rescore or not order:
            return []
        totals = {index: sum(rows[index] or ()) for index in order}
        floor = max(WORTHWHILE, _SHARE * totals[order[0]])
        worthwhile = [index for index in order[: self.rescore] if totals[index] >= floor]
        attended = [index for index in best(scores.attention or (), 1) if index in totals]
        return [
            *dict.fromkeys([order[0], *worthwhile, *attended, *best_of_each_sentence(scorer, rows)])
        ]

    def cost(self, workload: Workload) -> Cost:
        """Without widening, one answer sentence, candidates found on the target itself."""
        few = workload.num_sources <= self.rescore
        found = (LeaveOneOut() if few else self._on_target).cost(workload)
        read = workload.after(found)
        whole = LeaveOneOut().cost(replace(read, context_tokens=0, num_sources=1, num_groups=1))
        if few or not self.rescore:
            return whole + found
        share = self.rescore / workload.num_sources
        return whole + found + LeaveOneOut().cost(read.narrowed(share))

    def _screening(self, scorer: Scorer) -> Method:
        """What finds the candidates; exact scores of all where they are few."""
        if len(scorer.units) <= self.rescore:
            return LeaveOneOut()
        on_proxy = self._on_proxy
        if on_proxy is not None and self._proxy_pays(scorer, on_proxy.language_model):
            return on_proxy
        return self._on_target

    @cached_property
    def _on_target(self) -> Screening:
        return Screening(self.candidates, self.keep, self.level)

    @cached_property
    def _on_proxy(self) -> Proxy | None:
        return None if self.proxy is None else Proxy(self.proxy, self._on_target)

    def _proxy_pays(self, scorer: Scorer, proxy: LanguageModel) -> bool:
        """Whether the proxy, which has to read the prompt first, finds candidates cheaper."""
        generation, context = scorer.generation, scorer.context
        num_prompt, num_response = len(generation.prompt_ids), len(generation.response_ids)
        masked = scorer.masked_refusal is None
        per_ablation = (num_prompt - context.end if masked else num_prompt // 2) + num_response
        tokens = self._on_target.num_ablations(scorer) * per_ablation
        own = scorer.language_model.num_parameters * tokens
        return proxy.num_parameters * (num_prompt + tokens) < own

    def _notes(self, scores: Scores, agreement: float | None) -> Iterator[str]:
        yield from scores.notes
        if agreement is not None and agreement < self.min_agreement:
            yield (
                f"Approximate and exact scores agree little here ({agreement:.2f} of 1): use "
                "leave-one-out where every source matters."
            )


class _Again:
    """Scores with some units scored again, exactly."""

    def __init__(self, scorer: Scorer, scores: Scores) -> None:
        self._scorer = scorer
        self._scores = scores
        self._pairs: list[tuple[Row, Row]] = []
        self.rows = list(scores.token_scores)
        self.exact = list(scores.exact)
        self.num_dropped = scores.num_dropped
        self.best = 0.0

    def score(self, chosen: Sequence[int]) -> float | None:
        """The agreement of all that was scored twice so far."""
        units = self._scorer.units
        found = self._scorer.score([Ablation.of(*units[index]) for index in chosen])
        for index, row, in_step in zip(chosen, found.changes, found.in_step, strict=True):
            before = self._scores.token_scores[index]
            if row is not None and before is not None:
                self.rows[index], self.exact[index] = row, in_step
                self.num_dropped += not in_step
                self._pairs.append((before, row))
                self.best = max(self.best, sum(row))
        return agreement_of(self._pairs)


def agreement_of(pairs: Sequence[tuple[Row, Row]]) -> float | None:
    """How well approximate scores meet exact ones: 1 where all are equal, 0 where none has to do
    with the other.

    1 less the differences' share of the magnitudes, each source counting with its total; where
    hardly anything is at stake (less than a nat), a difference counts by itself.
    """
    if not pairs:
        return None
    totals = [(sum(approximate), sum(exact)) for approximate, exact in pairs]
    difference = sum(abs(left - right) for left, right in totals)
    magnitude = sum(abs(left) + abs(right) for left, right in totals)
    return 1.0 - difference / max(magnitude, 1.0, difference)
