"""Runs on a tiny model: all methods, resumed, killed, out of time."""

import copy
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from support.processes import forked
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


def test_a_run_that_is_killed_goes_on(path: Path, tmp_path: Path) -> None:
    """The scores are in the end those of a run that was left alone."""
    cut = tmp_path / "results.jsonl"
    killed = 0
    for lines in (2, 12):
        process = forked(evaluate, cut)
        process.start()
        while process.is_alive():
            if cut.exists() and cut.read_bytes().count(b"\n") >= lines:
                process.kill()
                killed += 1
                break
            time.sleep(0.005)
        process.join()
    assert killed > 0
    evaluate(cut)
    whole, again = ResultStore(path), ResultStore(cut)
    for name in set(METHODS) - {NAIVE}:
        expected, resumed = whole.of_method(name), again.of_method(name)
        assert expected.keys() == resumed.keys()
        for key, score in expected.items():
            np.testing.assert_allclose(
                np.array(resumed[key].scores, dtype=float),
                np.array(score.scores, dtype=float),
                atol=2e-3,
            )
    for key, answered in whole.answers.items():
        assert again.ablated(again.answers[key]).keys() == whole.ablated(answered).keys()


def no_room(*_: object, **__: object) -> None:
    raise torch.OutOfMemoryError("no room")


def test_an_example_that_does_not_fit_into_memory_ends_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    language_model = LocalModel(copy.deepcopy(byte_level().model), byte_level().tokenizer)
    evaluation = experiment(tmp_path / "results.jsonl", language_model=language_model)
    with monkeypatch.context() as patched:
        patched.setattr(language_model.model, "generate", no_room)
        problems = evaluation.run(EXAMPLES).problems
    assert all("does not fit into memory" in problems[example.key] for example in EXAMPLES)
    with monkeypatch.context() as patched:
        patched.setattr(Scorer, "score", no_room)
        problems = evaluation.run(EXAMPLES[:1]).problems
    assert "does not fit into memory" in problems["tiny/0, ablations"]
    assert "does not fit into memory" in problems[f"tiny/0, {EXACT}"]
    assert evaluation.run(EXAMPLES) == DONE


class Fussy(LeaveOneOut):
    """Leave-one-out that cannot take an example of two documents."""

    def run(self, scorer: Scorer) -> Scores:
        if len(scorer.context.documents) == 2:
            raise ContextTooLong("too long for the proxy")
        return super().run(scorer)


def test_a_method_that_fails_for_one_example_is_tried_on_the_next(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    methods: dict[str, Method] = {EXACT: LeaveOneOut(), "fussy": Fussy()}
    outcome = experiment(path, methods=methods).run(EXAMPLES[:2])
    assert outcome.problems["tiny/0, fussy"] == "too long for the proxy"
    store = ResultStore(path)
    assert set(store.of_method("fussy")) == {"tiny/1"}
    assert set(store.of_method(EXACT)) == {"tiny/0", "tiny/1"}
