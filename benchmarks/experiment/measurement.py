"""Scores, tokens, FLOPs and seconds of methods on an answer."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from attribot_rag.context import Ablation
from attribot_rag.errors import ScoringOutOfMemory
from attribot_rag.methods import Method, Pruned
from attribot_rag.methods.base import Cost, Scores, Workload
from attribot_rag.scoring import LocalBackend, Scorer
from benchmarks.experiment.baselines import ContextCite
from benchmarks.experiment.generation import GeneratedAnswer
from benchmarks.experiment.grid import NAIVE, method_description
from benchmarks.experiment.results import AnswerRecord, ScoreRecord, Setting
from benchmarks.experiment.setting import CLOCKS

_NUM_NAIVE_ROWS = 3
_DECIMALS = 4


@dataclass(eq=False)
class _Sampling:
    """What ContextCite has sampled so far on a scorer, which scores an ablation once."""

    scorer: Scorer
    num_ablations: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Known(Method):
    """Scores that were measured before, for the whole response, as a method that costs nothing."""

    totals: tuple[float | None, ...]
    name: str = "known"

    def run(self, scorer: Scorer) -> Scores:
        rows = tuple(None if total is None else (total,) for total in self.totals)
        return Scores(None, rows, exact=(False,) * len(rows), of_proxy=True)

    def cost(self, workload: Workload) -> Cost:
        return Cost(0.0, 0.0, 0.0)


@dataclass(eq=False)
class Measurement:
    """Measures methods on an answer in a setting; ContextCite's samplings share ablations."""

    answered: GeneratedAnswer
    record: AnswerRecord
    backend: LocalBackend
    setting: Setting
    _samplings: dict[ContextCite, _Sampling] = field(init=False, default_factory=dict)

    def run(self, name: str, method: Method, first: ScoreRecord | None = None) -> ScoreRecord:
        """Score the answer by the method; raises ScoringOutOfMemory if it does not fit.

        `first` are known scores by the method that a Pruned one ranks by.
        """
        if name == NAIVE:
            return self._naive(method)
        if isinstance(method, ContextCite):
            return self._sampled(name, method)
        if isinstance(method, Pruned) and first is not None:
            return self._pruned(name, method, first)
        return self._measured(name, method, self.answered.scorer(self.backend))

    def _measured(
        self, name: str, method: Method, scorer: Scorer, already: float = 0.0
    ) -> ScoreRecord:
        now = CLOCKS[self.setting.clock]
        started = now()
        scores = method.run(scorer)
        seconds = already + now() - started
        if scorer.session.meter.exhausted and not any(row is not None for row in scores.totals):
            raise ScoringOutOfMemory(f"{name}: it does not fit into memory")
        totals = [None if total is None else round(total, _DECIMALS) for total in scores.totals]
        record = self._record(name, method, scorer, method.cost(Workload.of(scorer)), seconds)
        return replace(record, scores=totals)

    def _sampled(self, name: str, method: ContextCite) -> ScoreRecord:
        """ContextCite: a larger sample begins with a smaller sample, and includes its cost."""
        kind = replace(method, num_ablations=ContextCite.num_ablations)
        sampling = self._samplings.get(kind)
        if sampling is None or sampling.num_ablations > method.num_ablations:
            sampling = self._samplings[kind] = _Sampling(self.answered.scorer(self.backend))
        record = self._measured(name, method, sampling.scorer, sampling.seconds)
        sampling.num_ablations, sampling.seconds = method.num_ablations, record.seconds
        return record

    def _pruned(self, name: str, method: Pruned, first: ScoreRecord) -> ScoreRecord:
        """The second stage is run; the cost is that of both."""
        scorer = self.answered.scorer(self.backend)
        then = self._measured(name, replace(method, first=Known(tuple(first.scores))), scorer)
        expected = method.cost(Workload.of(scorer))
        return replace(
            then,
            options=method_description(method),
            tokens=first.tokens + then.tokens,
            flops=first.flops + then.flops,
            expected_tokens=expected.target_tokens + expected.proxy_tokens,
            expected_flops=expected.flops,
            seconds=round(first.seconds + then.seconds, 3),
        )

    def _naive(self, method: Method) -> ScoreRecord:
        """The cost of leave-one-out without a cache, extrapolated from rows spread over the prompt.

        Logits are computed for the response only. There are no scores: they are the exact ones.
        """
        scorer = self.answered.scorer(self.backend, "reference")
        count = len(scorer.units)
        places = sorted({int((i + 0.5) * count / _NUM_NAIVE_ROWS) for i in range(_NUM_NAIVE_ROWS)})
        now = CLOCKS[self.setting.clock]
        started = now()
        scorer.score([Ablation.of(*scorer.units[place]) for place in places])
        seconds = now() - started
        share = (count + 1) / (len(places) + 1)
        expected = Workload.of(scorer).cost_without_cache()
        record = self._record(NAIVE, method, scorer, expected, seconds, share)
        return replace(record, extrapolated=True)

    def _record(
        self,
        name: str,
        method: Method,
        scorer: Scorer,
        expected: Cost,
        seconds: float,
        share: float = 1.0,
    ) -> ScoreRecord:
        """The cost of what was scored, `share` times."""
        usages = [usage for _, usage in scorer.session.usages]
        return ScoreRecord(
            key=self.record.key,
            digest=self.record.digest,
            method=name,
            options=method_description(method),
            scores=[],
            tokens=round(sum(usage.tokens for usage in usages) * share),
            flops=sum(usage.flops for usage in usages) * share,
            expected_tokens=expected.target_tokens + expected.proxy_tokens,
            expected_flops=expected.flops,
            seconds=round(seconds * share, 3),
            clock=self.setting.clock,
            hardware=self.setting.hardware,
        )
