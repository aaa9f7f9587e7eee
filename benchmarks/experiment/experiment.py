"""The experiment: methods on the answers to examples, with all results in a store."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace

from attribot_rag.context import Ablation
from attribot_rag.errors import AttributionError, InvalidInput, UnsupportedModel
from attribot_rag.methods import Auto, Method, Pruned
from attribot_rag.model.local_model import LocalModel
from attribot_rag.scoring import LocalBackend, Progress
from attribot_rag.scoring.memory import report_out_of_memory
from benchmarks.experiment.baselines import Similarity
from benchmarks.experiment.example import Example
from benchmarks.experiment.generation import TEMPLATES, answer_question, prepare
from benchmarks.experiment.grid import method_description
from benchmarks.experiment.measurement import Measurement
from benchmarks.experiment.measures import KEPT_TOPS, TOPS
from benchmarks.experiment.metrics import best
from benchmarks.experiment.results import (
    AblationRecord,
    AnswerRecord,
    ResultStore,
    ScoreRecord,
    SourceSet,
)
from benchmarks.experiment.setting import check_clock, setting
from benchmarks.experiment.turned import Turned

_DECIMALS = 4


@dataclass(frozen=True, kw_only=True)
class ExperimentOptions:
    """Options of the generation of answers, and of what is measured.

    Raises InvalidInput for an unknown template and for numbers that are too small.

    Args:
        template: The name of the prompt's template.
        max_new_tokens: The maximal length of an answer.
        num_random: The number of random ablations for the linear datamodeling score.
        minutes: The time after which nothing new is begun, unless the run has no result yet: a run
            shorter than one answer would never make progress.
        clock: One of CLOCKS.
        ablations: Whether sources are removed together to judge the scores.
    """

    template: str = "attribot"
    max_new_tokens: int = 64
    num_random: int = 16
    minutes: float | None = None
    clock: str = "wall"
    ablations: bool = True

    def __post_init__(self) -> None:
        if self.template not in TEMPLATES:
            names = ", ".join(TEMPLATES)
            raise InvalidInput(f"unknown prompt template {self.template!r}; choose one of {names}")
        if self.max_new_tokens < 1:
            raise InvalidInput(f"max_new_tokens={self.max_new_tokens!r}; use at least 1")
        if self.minutes is not None and not self.minutes > 0:
            raise InvalidInput(f"minutes={self.minutes!r}; use more than 0")
        if self.num_random < 0:
            raise InvalidInput(f"num_random={self.num_random!r}; use 0 or more")


@dataclass
class ExperimentOutcome:
    """The keys of examples with results, and the reasons for missing results.

    `problems` are by example, or example and method; `unsupported` are by method.
    """

    keys: list[str] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)
    unsupported: dict[str, str] = field(default_factory=dict)
    out_of_time: bool = False


class Experiment:
    """A model, the methods that are compared, and the store of the results."""

    def __init__(
        self,
        language_model: LocalModel,
        methods: Mapping[str, Method],
        results: ResultStore,
        options: ExperimentOptions,
        progress: Progress | None = None,
        turned: Turned | None = None,
    ) -> None:
        self._language_model = language_model
        self._methods = methods
        self._described = {name: method_description(method) for name, method in methods.items()}
        self._results = results
        self._turned = turned
        self._options = options
        self._progress = progress or Progress()
        self._models = LocalBackend(language_model.model)
        self._warm = self._has_progress = False
        check_clock(options.clock, language_model.device.type)
        self._setting = setting(language_model, options.clock)
        results.begin(self._setting)
        self._outcome = ExperimentOutcome()

    def run(self, examples: Sequence[Example]) -> ExperimentOutcome:
        """Compute missing results, example by example; each result is stored at once."""
        outcome = self._outcome = ExperimentOutcome()
        self._has_progress = False
        minutes = self._options.minutes
        ends = None if minutes is None else time.perf_counter() + 60 * minutes
        self._progress.expect(len(examples) * (len(self._methods) + 1))
        for example in examples:
            num_problems = len(outcome.problems)
            for _ in self._steps(example):
                self._progress.advance(1)
                if ends is not None and self._has_progress and time.perf_counter() > ends:
                    outcome.out_of_time = True
                    return outcome
            self._has_progress |= len(outcome.problems) > num_problems
        return outcome

    def _steps(self, example: Example) -> Iterator[None]:
        """A step for each method, and a step for the ablations by which methods are judged."""
        measurement = None
        try:
            measurement = self._measurement(example)
        except AttributionError as error:
            self._outcome.problems[example.key] = str(error)
        for name in self._methods:
            if measurement is not None:
                self._score(measurement, name)
            yield
        if measurement is not None:
            self._ablate(measurement)
        yield

    def _measurement(self, example: Example) -> Measurement | None:
        """The example's answer, to be measured; None if all is known, or there is no answer."""
        options = self._options
        if self._turned is not None:
            example = self._turned.answered(example)
        question = prepare(example, self._language_model, options.template, options.max_new_tokens)
        stored = self._results.answers.get(example.key)
        if stored is not None and stored.question == question.digest:
            # Evidence and number of ablations may have changed since the answer was stored.
            stored = replace(stored, evidence=question.evidence, num_random=options.num_random)
            if self._is_complete(stored):
                self._keep(stored)
                return None
        with report_out_of_memory(len(question.prompt_ids)):
            answered = answer_question(question, options.clock)
        if answered is None:
            self._outcome.problems[example.key] = "the model answered with nothing"
            return None
        record = answered.record(self._setting, options.num_random)
        if stored is not None and stored.digest == record.digest:
            record = stored
        self._keep(record)
        return Measurement(answered, record, self._models, self._setting)

    def _is_complete(self, record: AnswerRecord) -> bool:
        names = (name for name in self._methods if name not in self._outcome.unsupported)
        return all(self._known_scores(record, name) for name in names) and not self._missing(record)

    def _keep(self, record: AnswerRecord) -> None:
        self._outcome.keys.append(record.key)
        if record != self._results.answers.get(record.key):
            self._results.add(record)

    def _known_scores(self, record: AnswerRecord, name: str) -> ScoreRecord | None:
        return self._results.scored(record, name, self._described[name])

    def _turned_scores(self, record: AnswerRecord, name: str) -> ScoreRecord | None:
        if self._turned is None:
            return None
        return self._turned.scored(record, name, self._described[name], self._language_model)

    def _first_scores(self, record: AnswerRecord, method: Method) -> ScoreRecord | None:
        """What is known of the method that a Pruned one ranks by."""
        if not isinstance(method, Pruned):
            return None
        first = method_description(method.first)
        names = (name for name, described in self._described.items() if described == first)
        return next(filter(None, (self._known_scores(record, name) for name in names)), None)

    def _score(self, measurement: Measurement, name: str) -> None:
        record, method = measurement.record, self._methods[name]
        if name in self._outcome.unsupported or self._known_scores(record, name):
            return
        try:
            with _report_out_of_memory(record):
                self._warm_up(measurement)
                scores = self._turned_scores(record, name) or measurement.run(
                    name, method, self._first_scores(record, method)
                )
        except UnsupportedModel as error:
            self._outcome.unsupported[name] = str(error)
        except AttributionError as error:  # another example may fit
            self._outcome.problems[f"{record.key}, {name}"] = str(error)
        else:
            self._results.add(scores)
            self._has_progress = True

    def _warm_up(self, measurement: Measurement) -> None:
        """Run once what makes twins of the model or loads an embedder: no method's time has it."""
        if not self._warm:
            self._warm = True
            similar = (
                method for method in self._methods.values() if isinstance(method, Similarity)
            )
            methods: tuple[Method, ...] = (Auto(), *similar)
            for method in methods:
                with suppress(AttributionError), _report_out_of_memory(measurement.record):
                    method.run(measurement.answered.scorer(self._models))

    def _ablate(self, measurement: Measurement) -> None:
        record = measurement.record
        missing = [sorted(removed) for removed in self._missing(record)]
        if not missing:
            return
        scorer = measurement.answered.scorer(self._models)
        try:
            with _report_out_of_memory(record):
                scored = scorer.score([Ablation.of(*removed) for removed in missing])
        except AttributionError as error:
            self._outcome.problems[f"{record.key}, ablations"] = str(error)
            return
        scores = (scored.full - scored.ablated).sum(1).tolist()
        self._results.add(
            *(
                AblationRecord(record.key, record.digest, removed, round(score, _DECIMALS))
                for removed, score in zip(missing, scores, strict=True)
            )
        )
        self._has_progress = True

    def _missing(self, record: AnswerRecord) -> list[SourceSet]:
        if not self._options.ablations:
            return []
        stored = self._results.ablated(record)
        every = frozenset(range(len(record.documents)))
        ablations = [every, *record.groups, *record.random_ablations]
        for name in self._methods:
            if scored := self._known_scores(record, name):
                ranked = best(scored.scores, max(TOPS), record.key)
                ablations += (frozenset(ranked[:top]) for top in TOPS if len(ranked) >= top)
                ablations += (every.difference(ranked[:top]) for top in KEPT_TOPS)
        return [removed for removed in dict.fromkeys(ablations) if removed not in stored]


def _report_out_of_memory(record: AnswerRecord) -> AbstractContextManager[None]:
    return report_out_of_memory(record.prompt_tokens + record.response_tokens)
