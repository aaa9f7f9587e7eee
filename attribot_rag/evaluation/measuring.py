"""Methods on one answer, against a clock."""

from __future__ import annotations

from dataclasses import replace

from attribot_rag.context import Ablation
from attribot_rag.errors import ScoringOutOfMemory
from attribot_rag.evaluation.answering import Answer
from attribot_rag.evaluation.clock import CLOCKS
from attribot_rag.evaluation.grid import NAIVE, described
from attribot_rag.evaluation.remembering import RememberingScorer
from attribot_rag.evaluation.results import Answered, Scored
from attribot_rag.language_model import LanguageModel
from attribot_rag.methods import Method
from attribot_rag.methods.baselines import ContextCite
from attribot_rag.methods.cost import Workload
from attribot_rag.scoring import Scorer, ScoringModels

_NUM_NAIVE_ROWS = 3
_DECIMALS = 4


class Measuring:
    """What methods make of one answer, and what they take for it."""

    def __init__(
        self,
        answered: Answer,
        record: Answered,
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

    def run(self, name: str, method: Method) -> Scored:
        if name == NAIVE:
            return self._naive(method)
        if isinstance(method, ContextCite):
            return self._sampled(name, method)
        return self._measured(name, method, self.scorer())

    def scorer(self, implementation: str = "auto") -> Scorer:
        """A new one, that has read nothing yet."""
        return self._answered.scorer(self._language_model, self._models, implementation)

    def _measured(self, name: str, method: Method, scorer: Scorer, already: float = 0.0) -> Scored:
        now = CLOCKS[self._clock]
        started = now()
        scores = method.run(scorer)
        seconds = already + now() - started
        if scorer.session.meter.exhausted and not any(row is not None for row in scores.totals):
            raise ScoringOutOfMemory(f"{name}: it does not fit into memory")
        expected = method.cost(Workload.of(scorer))
        usages = [usage for _, usage in scorer.session.usages]
        return Scored(
            key=self.record.key,
            digest=self.record.digest,
            method=name,
            options=described(method),
            scores=[None if one is None else round(one, _DECIMALS) for one in scores.totals],
            tokens=sum(usage.tokens for usage in usages),
            flops=sum(usage.flops for usage in usages),
            expected_tokens=expected.target_tokens + expected.proxy_tokens,
            expected_flops=expected.flops,
            seconds=round(seconds, 3),
            clock=self._clock,
            agreement=scores.agreement,
        )

    def _sampled(self, name: str, method: ContextCite) -> Scored:
        """ContextCite, whose first ablations are the same however many follow.

        So the ablations of fewer, with their tokens and their time, are a part of those of more.
        """
        sampling = replace(method, num_ablations=ContextCite.num_ablations)
        sample = self._samples.get(sampling)
        if sample is None or sample.num_ablations > method.num_ablations:
            scorer = self._answered.scorer(self._language_model, self._models, of=RememberingScorer)
            sample = self._samples[sampling] = _Sample(scorer)
        found = self._measured(name, method, sample.scorer, sample.seconds)
        sample.num_ablations, sample.seconds = method.num_ablations, found.seconds
        return found

    def _naive(self, method: Method) -> Scored:
        """What leave-one-out takes without a cache, by a few rows spread over the prompt.

        Its head is on the response only. Its scores are those of exact leave-one-out.
        """
        scorer = self.scorer("reference")
        count = len(scorer.units)
        places = sorted({int((i + 0.5) * count / _NUM_NAIVE_ROWS) for i in range(_NUM_NAIVE_ROWS)})
        now = CLOCKS[self._clock]
        started = now()
        scorer.score([Ablation.of(*scorer.units[place]) for place in places])
        seconds = now() - started
        share = (count + 1) / (len(places) + 1)
        workload = Workload.of(scorer)
        row = workload.prompt_tokens + workload.response_tokens
        expected = workload.cost((workload.num_sources + 1) * row)
        return Scored(
            key=self.record.key,
            digest=self.record.digest,
            method=NAIVE,
            options=described(method),
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
    """A sampling as far as it has been scored."""

    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer
        self.num_ablations = 0
        self.seconds = 0.0
