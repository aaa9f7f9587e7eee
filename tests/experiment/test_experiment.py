"""Runs on a tiny model: all methods, resumed, killed, out of time."""

import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.scorers import many_documents
from support.tiny_models import byte_level

from attribot_rag.context import Document, DocumentSpan
from attribot_rag.errors import ContextTooLong
from attribot_rag.methods import Auto, LeaveOneOut, Masked, Method
from attribot_rag.methods.base import Scores
from attribot_rag.model.local_model import LocalModel
from attribot_rag.scoring import Scorer
from benchmarks.experiment.baselines import ContextCite
from benchmarks.experiment.example import Example
from benchmarks.experiment.experiment import Experiment, ExperimentOptions, ExperimentOutcome
from benchmarks.experiment.grid import EXACT, NAIVE
from benchmarks.experiment.measures import cases, group_correlation
from benchmarks.experiment.results import ResultStore

OPTIONS = ExperimentOptions(max_new_tokens=6, num_random=6)
EXAMPLES = [
    Example(
        key=f"tiny/{number}",
        question=f"who closed {number}?",
        documents=tuple(map(Document, many_documents(number + 2))),
        evidence=(DocumentSpan(1, 0, 5),),
    )
    for number in range(3)
]
METHODS: dict[str, Method] = {
    EXACT: LeaveOneOut(),
    NAIVE: LeaveOneOut(),
    "auto": Auto(),
    "masked": Masked(),
    "ContextCite, 8 ablations": ContextCite(8),
}


KEYS = [example.key for example in EXAMPLES]
DONE = ExperimentOutcome(keys=KEYS)


def experiment(
    path: Path,
    options: ExperimentOptions = OPTIONS,
    *,
    language_model: LocalModel | None = None,
    methods: dict[str, Method] = METHODS,
) -> Experiment:
    return Experiment(language_model or byte_level(), methods, ResultStore(path), options)


def evaluate(path: Path, options: ExperimentOptions = OPTIONS) -> ExperimentOutcome:
    return experiment(path, options).run(EXAMPLES)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("evaluation") / "results.jsonl"
    assert evaluate(path) == DONE
    return path


def test_every_method_has_a_result_for_every_example(path: Path) -> None:
    results = ResultStore(path)
    assert list(results.answers) == KEYS
    for name in METHODS:
        assert len(results.of_method(name)) == len(EXAMPLES)
    for answer in results.answers.values():
        assert answer.evidence == [3]
        assert len(answer.documents) == 3 * len(set(answer.documents))
    (setting,) = results.settings
    assert {answer.hardware for answer in results.answers.values()} == {setting.hardware}
    assert {score.hardware for score in results.scores.values()} == {setting.hardware}


def test_no_text_is_kept(path: Path) -> None:
    kept = path.read_text()
    assert "harbour" not in kept
    assert "closed" not in kept


def test_ablations_are_exact_scores(path: Path) -> None:
    results = ResultStore(path)
    for case in cases(results, EXACT):
        single = [ablation for ablation in case.ablations if len(ablation) == 1]
        for removed in single:
            (index,) = removed
            assert case.ablations[removed] == pytest.approx(case.exact[index], abs=2e-3)
        assert len(case.random) == OPTIONS.num_random
        groups = len(set(case.answered.documents))
        assert (group_correlation(case) is None) == (groups < 3)


def test_a_second_run_computes_nothing(path: Path) -> None:
    before = path.read_bytes()
    model = copy.deepcopy(byte_level().model)
    model.register_forward_pre_hook(fail)
    language_model = LocalModel(model, byte_level().tokenizer)
    assert experiment(path, language_model=language_model).run(EXAMPLES) == DONE
    assert path.read_bytes() == before


def fail(*_: object) -> None:
    raise AssertionError("the model was run")


def test_a_given_answer_is_scored_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    example = replace(EXAMPLES[0], response="The queen did.")
    experiment(path).run([example])
    (answered,) = ResultStore(path).answers.values()
    assert answered.seconds is None
    assert answered.response_tokens == len(byte_level().encode("The queen did."))
    before = path.read_bytes()
    experiment(path, replace(OPTIONS, max_new_tokens=60)).run([example])
    assert path.read_bytes() == before  # how long an answer may be says nothing of it


class Fussy(LeaveOneOut):
    """Leave-one-out that cannot take an example of two documents."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def run(self, scorer: Scorer) -> Scores:
        if len(scorer.context.documents) == 2:
            raise self.error
        return super().run(scorer)


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (ContextTooLong("too long for the proxy"), "too long for the proxy"),
        (torch.OutOfMemoryError("no room"), "does not fit into memory"),
    ],
)
def test_a_method_that_fails_for_one_example_is_tried_on_the_next(
    tmp_path: Path, error: Exception, problem: str
) -> None:
    path = tmp_path / "results.jsonl"
    methods: dict[str, Method] = {EXACT: LeaveOneOut(), "fussy": Fussy(error)}
    outcome = experiment(path, methods=methods).run(EXAMPLES[:2])
    assert problem in outcome.problems["tiny/0, fussy"]
    store = ResultStore(path)
    assert set(store.of_method("fussy")) == {"tiny/1"}
    assert set(store.of_method(EXACT)) == {"tiny/0", "tiny/1"}
