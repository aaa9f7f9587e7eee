"""Runs methods on examples, and keeps what comes out."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace

from attribot_rag.context import Ablation
from attribot_rag.errors import AttributionError, InvalidInput, UnsupportedModel
from attribot_rag.evaluation.ablations import (
    Removed,
    group_ablations,
    random_ablations,
    top_ablations,
)
from attribot_rag.evaluation.answering import Answer, AskingOptions, Question, answer, ask
from attribot_rag.evaluation.clock import check_clock
from attribot_rag.evaluation.example import Example
from attribot_rag.evaluation.grid import described
from attribot_rag.evaluation.measuring import Measuring
from attribot_rag.evaluation.results import Ablated, Answered, Results, Scored
from attribot_rag.evaluation.setting import setting
from attribot_rag.language_model import LanguageModel
from attribot_rag.methods import Auto, Method
from attribot_rag.methods.baselines import Similarity
from attribot_rag.scoring import Progress, ScoringModels
from attribot_rag.scoring.memory import naming_out_of_memory

_DECIMALS = 4


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions:
    """How examples are asked, and what is measured.

    `num_random` is the number of random ablations for the linear datamodeling score. After
    `minutes` nothing new is begun, if anything was kept or an example failed: else a run of fewer
    minutes than an answer takes would never get on. `clock` is one of CLOCKS.
    """

    asking: AskingOptions = field(default_factory=AskingOptions)
    num_random: int = 16
    minutes: float | None = None
    clock: str = "wall"

    def __post_init__(self) -> None:
        if self.minutes is not None and not self.minutes > 0:
            raise InvalidInput(f"minutes={self.minutes!r}; use more than 0")
        if self.num_random < 0:
            raise InvalidInput(f"num_random={self.num_random!r}; use 0 or more")


@dataclass
class Outcome:
    """How a run ended: the examples that have results, and what was left out, and why.

    `problems` are by example, or example and method, `unsupported` by method.
    """

    keys: list[str] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)
    unsupported: dict[str, str] = field(default_factory=dict)
    out_of_time: bool = False


class Evaluation:
    """One model, the methods that are compared, and the file that keeps the results."""

    def __init__(
        self,
        language_model: LanguageModel,
        methods: Mapping[str, Method],
        results: Results,
        options: EvaluationOptions,
        progress: Progress | None = None,
    ) -> None:
        self._language_model = language_model
        self._methods = methods
        self._described = {name: described(method) for name, method in methods.items()}
        self._results = results
        self._options = options
        self._progress = progress or Progress()
        self._models = ScoringModels(language_model.model)
        self._warm = self._got_on = False
        check_clock(options.clock, language_model.device.type)
        self._setting = setting(language_model, options.clock)
        results.begin(self._setting)
        self._outcome = Outcome()

    def run(self, examples: Sequence[Example]) -> Outcome:
        """All that is not known yet, example by example; each method's result is kept at once."""
        outcome = self._outcome = Outcome()
        self._got_on = False
        minutes = self._options.minutes
        ends = None if minutes is None else time.perf_counter() + 60 * minutes
        self._progress.expect(len(examples) * (len(self._methods) + 1))
        for example in examples:
            num_problems = len(outcome.problems)
            for _ in self._steps(example):
                self._progress.advance(1)
                if ends is not None and self._got_on and time.perf_counter() > ends:
                    outcome.out_of_time = True
                    return outcome
            self._got_on |= len(outcome.problems) > num_problems
        return outcome

    def _steps(self, example: Example) -> Iterator[None]:
        """One step for each method, and one for the ablations that they are judged by."""
        answered = None
        try:
            question = ask(example, self._language_model, self._options.asking)
            if self._is_known(question):
                self._outcome.keys.append(example.key)
                self._mark(question)
            else:
                with naming_out_of_memory(len(question.prompt_ids)):
                    answered = answer(question, self._language_model, self._options.clock)
                if answered is None:
                    self._outcome.problems[example.key] = "the model answered with nothing"
        except AttributionError as error:
            self._outcome.problems[example.key] = str(error)
        measuring = None if answered is None else self._measuring(answered)
        for name in self._methods:
            if measuring is not None:
                self._score(measuring, name)
            yield
        if measuring is not None:
            self._ablate(measuring)
        yield

    def _is_known(self, question: Question) -> bool:
        """Whether there is nothing left to do for it."""
        known = self._results.answers.get(question.example.key)
        if known is None or known.question != question.digest(self._language_model):
            return False
        names = (name for name in self._methods if name not in self._outcome.unsupported)
        return all(self._known_scores(known, name) for name in names) and not self._missing(known)

    def _mark(self, question: Question) -> None:
        """What it is judged by may have changed since the answer was kept."""
        known = self._results.answers[question.example.key]
        num_random = self._options.num_random
        marked = replace(known, evidence=_evidence(question), num_random=num_random)
        if marked != known:
            self._results.add(marked)

    def _measuring(self, answered: Answer) -> Measuring:
        record = replace(
            _record(answered, self._language_model),
            hardware=self._setting.hardware,
            num_random=self._options.num_random,
        )
        self._outcome.keys.append(record.key)
        known = self._results.answers.get(record.key)
        if known is not None and (known.question, known.digest) == (record.question, record.digest):
            record = replace(known, evidence=record.evidence, num_random=record.num_random)
        if record != known:
            self._results.add(record)
        clock = self._options.clock
        return Measuring(answered, record, self._language_model, self._models, clock)

    def _known_scores(self, record: Answered, name: str) -> Scored | None:
        return self._results.scored(record.key, record.digest, name, self._described[name])

    def _score(self, measuring: Measuring, name: str) -> None:
        if name in self._outcome.unsupported or self._known_scores(measuring.record, name):
            return
        record = measuring.record
        try:
            with _naming_out_of_memory(record):
                self._warm_up(measuring)
                found = measuring.run(name, self._methods[name])
        except UnsupportedModel as error:
            self._outcome.unsupported[name] = str(error)
        except AttributionError as error:  # another example may fit
            self._outcome.problems[f"{record.key}, {name}"] = str(error)
        else:
            self._results.add(replace(found, hardware=self._setting.hardware))
            self._got_on = True

    def _warm_up(self, measuring: Measuring) -> None:
        """What is made once, twins of the model say, or loaded, is no part of a method's time."""
        if not self._warm:
            self._warm = True
            loading = (one for one in self._methods.values() if isinstance(one, Similarity))
            first: list[Method] = [Auto(), *loading]
            for method in first:
                with suppress(AttributionError), _naming_out_of_memory(measuring.record):
                    method.run(measuring.scorer())

    def _ablate(self, measuring: Measuring) -> None:
        record = measuring.record
        missing = self._missing(record)
        if missing:
            try:
                with _naming_out_of_memory(record):
                    found = measuring.scorer().score([Ablation.of(*sorted(one)) for one in missing])
            except AttributionError as error:
                self._outcome.problems[f"{record.key}, ablations"] = str(error)
                return
            scores = (found.full - found.ablated).sum(1).tolist()
            self._results.add(
                *(
                    Ablated(record.key, record.digest, sorted(removed), round(score, _DECIMALS))
                    for removed, score in zip(missing, scores, strict=True)
                )
            )
            self._got_on = True

    def _missing(self, record: Answered) -> list[Removed]:
        """The ablations that are not known yet."""
        known = self._results.ablated(record.key, record.digest)
        scores = (self._known_scores(record, name) for name in self._methods)
        wanted = [
            *group_ablations(record),
            *random_ablations(record, self._options.num_random),
            *top_ablations(record, (one.scores for one in scores if one)),
        ]
        return [one for one in dict.fromkeys(wanted) if one not in known]


def _record(answered: Answer, language_model: LanguageModel) -> Answered:
    generation, context = answered.generation, answered.context
    return Answered(
        key=answered.question.example.key,
        question=answered.question.digest(language_model),
        digest=answered.digest(language_model),
        prompt_tokens=len(generation.prompt_ids),
        context_tokens=sum(len(context.prompt.tokens_in(region)) for region in context.regions),
        response_tokens=len(generation.response_ids),
        documents=[source.documents[0] for source in context.sources],
        evidence=_evidence(answered.question),
        seconds=None if answered.seconds is None else round(answered.seconds, 3),
        clock=answered.clock,
    )


def _naming_out_of_memory(record: Answered) -> AbstractContextManager[None]:
    return naming_out_of_memory(record.prompt_tokens + record.response_tokens)


def _evidence(question: Question) -> list[int]:
    """The sources that hold a part of what people marked."""
    return [
        source.id
        for source in question.prompt_input.context.sources
        if any(
            span.document == mark.document and span.start < mark.end and mark.start < span.end
            for place in source.occurrences
            for span in place.spans
            for mark in question.example.evidence
        )
    ]
