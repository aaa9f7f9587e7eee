"""Scores, tokens, FLOPs and seconds of methods on an answer."""

from __future__ import annotations

from dataclasses import replace

from attribot_rag.context import Ablation
from attribot_rag.errors import ScoringOutOfMemory
from attribot_rag.evaluation.cached_scorer import CachedScorer
from attribot_rag.evaluation.generation import GeneratedAnswer
from attribot_rag.evaluation.grid import NAIVE, method_description
from attribot_rag.evaluation.results import AnswerRecord, ScoreRecord
from attribot_rag.evaluation.setting import CLOCKS
from attribot_rag.language_model import LanguageModel
from attribot_rag.methods import Method
from attribot_rag.methods.baselines import ContextCite
from attribot_rag.methods.cost import Workload
from attribot_rag.scoring import Scorer, ScoringModels

_NUM_NAIVE_ROWS = 3
_DECIMALS = 4


class Measurement:
    """Measures methods on an answer by the `clock`; ContextCite's samplings share ablations."""

    def __init__(
        self,
        answered: GeneratedAnswer,
        record: AnswerRecord,
        language_model: LanguageModel,
        models: ScoringModels,
        clock: str = "wall",
    ) -> None:
        self._answered = answered
        self.record = record
        self._language_model = language_model
        self._models = models
        self._clock = clock
        self._samples: dict[ContextCite, _Sample] = {}

    def run(self, name: str, method: Method) -> ScoreRecord:
        """Score the answer by the method; raises ScoringOutOfMemory if it does not fit."""
        if name == NAIVE:
            return self._naive(method)
        if isinstance(method, ContextCite):
            return self._sampled(name, method)
        return self._measured(name, method, self.scorer())

    def scorer(self, implementation: str = "auto") -> Scorer:
        """A new scorer of the answer, with nothing read yet."""
        return self._answered.scorer(self._language_model, self._models, implementation)

    def _measured(
        self, name: str, method: Method, scorer: Scorer, already: float = 0.0
    ) -> ScoreRecord:
        now = CLOCKS[self._clock]
        started = now()
        scores = method.run(scorer)
        seconds = already + now() - started
        if scorer.session.meter.exhausted and not any(row is not None for row in scores.totals):
            raise ScoringOutOfMemory(f"{name}: it does not fit into memory")
        expected = method.cost(Workload.of(scorer))
        usages = [usage for _, usage in scorer.session.usages]
        return ScoreRecord(
            key=self.record.key,
            digest=self.record.digest,
            method=name,
            options=method_description(method),
            scores=[None if one is None else round(one, _DECIMALS) for one in scores.totals],
            tokens=sum(usage.tokens for usage in usages),
            flops=sum(usage.flops for usage in usages),
            expected_tokens=expected.target_tokens + expected.proxy_tokens,
            expected_flops=expected.flops,
            seconds=round(seconds, 3),
            clock=self._clock,
            agreement=scores.agreement,
        )

    def _sampled(self, name: str, method: ContextCite) -> ScoreRecord:
        """ContextCite: a larger sample begins with a smaller sample, and includes its cost."""
        sampling = replace(method, num_ablations=ContextCite.num_ablations)
        sample = self._samples.get(sampling)
        if sample is None or sample.num_ablations > method.num_ablations:
            scorer = self._answered.scorer(self._language_model, self._models, of=CachedScorer)
            sample = self._samples[sampling] = _Sample(scorer)
        record = self._measured(name, method, sample.scorer, sample.seconds)
        sample.num_ablations, sample.seconds = method.num_ablations, record.seconds
        return record

    def _naive(self, method: Method) -> ScoreRecord:
        """The cost of leave-one-out without a cache, extrapolated from rows spread over the prompt.

        Logits are computed for the response only. There are no scores: they are the exact ones.
        """
        scorer = self.scorer("reference")
        count = len(scorer.units)
        places = sorted({int((i + 0.5) * count / _NUM_NAIVE_ROWS) for i in range(_NUM_NAIVE_ROWS)})
        now = CLOCKS[self._clock]
        started = now()
        scorer.score([Ablation.of(*scorer.units[place]) for place in places])
        seconds = now() - started
        share = (count + 1) / (len(places) + 1)
        expected = Workload.of(scorer).cost_without_cache()
        return ScoreRecord(
            key=self.record.key,
            digest=self.record.digest,
            method=NAIVE,
            options=method_description(method),
            scores=[],
            tokens=round(scorer.usage.tokens * share),
            flops=scorer.usage.flops * share,
            expected_tokens=expected.target_tokens,
            expected_flops=expected.flops,
            seconds=round(seconds * share, 3),
            clock=self._clock,
            extrapolated=True,
        )


class _Sample:
    """A scorer with the ablations of a sampling, and their cost so far."""

    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer
        self.num_ablations = 0
        self.seconds = 0.0
