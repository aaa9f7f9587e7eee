"""The default: masked on documents, masked on sentences of the best, exact on the survivors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from attribot_rag.context import Ablation
from attribot_rag.context.grouping import Level
from attribot_rag.errors import InvalidInput
from attribot_rag.language_model import LanguageModel
from attribot_rag.methods.base import Method, Row, Scores, best, num_kept
from attribot_rag.methods.cost import Cost, Workload
from attribot_rag.methods.hierarchical import best_of_each_sentence
from attribot_rag.methods.leave_one_out import LeaveOneOut, scores_of
from attribot_rag.methods.proxy import Proxy
from attribot_rag.methods.screening import Screening
from attribot_rag.scoring import Scorer


@dataclass(frozen=True)
class Auto:
    """Masked ablation finds the candidates, exact ablation in the full context scores them.

    `keep` groups (a number, or a fraction) are looked into, and the best `rescore` units, with the
    best one of every answer sentence, are scored exactly. Where masked and exact scores of these
    agree less than `min_agreement` (0 to 1), the candidates are not to be trusted and up to
    `max_rescored` units (a number, or a fraction) are scored exactly, which costs what
    leave-one-out does: a budget, or a smaller number, bounds it. That happens where nothing stands
    out. Where the architecture does not allow masking, groups and units are scored exactly; a
    `proxy` finds the candidates where that takes fewer FLOPs.
    """

    keep: int | float = 3
    rescore: int = 3
    level: Level = "passage"
    min_agreement: float = 0.65
    max_rescored: int | float = 1.0
    proxy: LanguageModel | None = None

    name = "auto"

    def __post_init__(self) -> None:
        if isinstance(self.rescore, bool) or self.rescore < 0:
            raise InvalidInput(f"rescore={self.rescore!r}; use a number of at least 0")
        if not 0 <= self.min_agreement <= 1:
            raise InvalidInput(f"min_agreement={self.min_agreement!r}; use a value in [0, 1]")
        num_kept(self.max_rescored, 1, "max_rescored")

    def run(self, scorer: Scorer) -> Scores:
        whole = scorer.score([scorer.context.whole])
        reliance = whole.changes[0]
        screening = self._screening(scorer)
        scores = screening.run(scorer)
        rows, exact = list(scores.token_scores), list(scores.exact)
        order = [index for index in best(scores.totals, len(rows)) if rows[index] is not None]
        first = [*dict.fromkeys([*order[: self.rescore], *best_of_each_sentence(scorer, rows)])]
        if screening is self._on_target and scorer.masked_refusal is not None:
            first = []  # what the screening scored is as exact as it can be
        seen: list[tuple[Row, Row]] = []
        num_dropped = scores.num_dropped

        def score_again(chosen: Sequence[int]) -> float | None:
            nonlocal num_dropped
            found = scorer.score([Ablation.of(*scorer.units[index]) for index in chosen])
            for index, row, in_step in zip(chosen, found.changes, found.in_step, strict=True):
                before = scores.token_scores[index]
                if row is not None:
                    rows[index], exact[index] = row, in_step
                    num_dropped += not in_step
                    seen.extend([] if before is None else [(before, row)])
            return agreement_of(seen)

        agreement = score_again(first) if first else None
        if agreement is not None and agreement < self.min_agreement:
            others = dict.fromkeys([*first, *order, *_by_group(scores), *range(len(rows))])
            limit = num_kept(self.max_rescored, len(rows))
            if limit > len(first):
                agreement = score_again([*others][len(first) : limit])
        return replace(
            scores,
            token_log_likelihoods=scores_of(whole).token_log_likelihoods,
            token_scores=tuple(rows),
            exact=tuple(exact),
            context_reliance=reliance,
            agreement=agreement,
            screened=scores.token_scores,
            num_dropped=num_dropped,
            notes=tuple(self._notes(scores, agreement, all(exact))),
        )

    def cost(self, workload: Workload) -> Cost:
        """Without widening, one answer sentence, candidates found on the target itself."""
        whole = replace(workload, context_tokens=0, num_sources=1, num_groups=1)
        share = min(self.rescore, workload.num_sources) / workload.num_sources
        again = LeaveOneOut().cost(workload.narrowed(share)) if self.rescore else Cost(0, 0, 0)
        return LeaveOneOut().cost(whole) + self._on_target.cost(workload) + again

    def _screening(self, scorer: Scorer) -> Method:
        """What finds the candidates."""
        on_proxy = self._on_proxy
        if on_proxy is not None and self._proxy_pays(scorer, on_proxy.language_model):
            return on_proxy
        return self._on_target

    @cached_property
    def _on_target(self) -> Screening:
        return Screening(self.keep, self.level)

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

    def _notes(self, scores: Scores, agreement: float | None, exact: bool) -> Iterator[str]:
        yield from scores.notes
        if agreement is not None and agreement < self.min_agreement:
            why = f"Approximate and exact scores agree little here ({agreement:.2f} of 1)"
            if exact:
                yield f"{why}, so that all sources were scored exactly."
            else:
                yield f"{why}: use leave-one-out where every source matters."


def _by_group(scores: Scores) -> Iterator[int]:
    """Units in the order of their groups, the best group first."""
    for one in sorted(scores.groups, key=lambda one: -sum(one.token_scores)):
        yield from one.units


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
