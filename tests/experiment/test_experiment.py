"""Runs on a tiny model: all methods, resumed, killed, out of time."""

import copy
import json
import shutil
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
from attribot_rag.errors import ContextTooLong, UnsupportedModel
from attribot_rag.methods import Auto, LeaveOneOut, Masked, Method
from attribot_rag.methods.base import Scores, whole_response
from attribot_rag.model.language_model import LanguageModel
from attribot_rag.scoring import Scorer
from benchmarks.experiment.baselines import ContextCite
from benchmarks.experiment.example import Example
from benchmarks.experiment.experiment import Experiment, ExperimentOptions, ExperimentOutcome
from benchmarks.experiment.grid import EXACT, NAIVE
from benchmarks.experiment.measures import cases, group_correlation
from benchmarks.experiment.results import AblationRecord, ResultStore

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
    language_model: LanguageModel | None = None,
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


@pytest.fixture
def copied(path: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(path, tmp_path / "copied.jsonl"))


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


def test_the_naive_cost_is_that_of_leave_one_out_without_a_cache(path: Path) -> None:
    results = ResultStore(path)
    for key, naive in results.of_method(NAIVE).items():
        answered = results.answers[key]
        row = answered.prompt_tokens + answered.response_tokens - 1
        rows = len(answered.documents) + 1
        assert naive.extrapolated
        assert 0.85 < naive.tokens / (row * rows) <= 1.0


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


def test_random_ablations_do_not_depend_on_other_results(copied: Path) -> None:
    """Of few sources, any subset may have been asked for by some method."""
    results = ResultStore(copied)
    before = {case.answered.key: case.random for case in cases(results, EXACT)}
    for case in cases(results, EXACT):
        key, digest = case.answered.key, case.answered.digest
        drawn = replace(case.answered, num_random=60).random_ablations
        more = [ablation for ablation in drawn if ablation not in case.ablations]
        assert more
        results.add(*(AblationRecord(key, digest, sorted(ablation), 0.0) for ablation in more))
    assert {case.answered.key: case.random for case in cases(results, EXACT)} == before


def test_more_random_ablations_are_added(copied: Path) -> None:
    for number in (20, OPTIONS.num_random):
        evaluate(copied, replace(OPTIONS, num_random=number))
        for case in cases(ResultStore(copied), EXACT):
            drawn = replace(case.answered, num_random=number).random_ablations
            assert case.random.keys() == set(drawn)


def test_a_second_run_computes_nothing(path: Path) -> None:
    before = path.read_bytes()
    model = copy.deepcopy(byte_level().model)
    model.register_forward_pre_hook(fail)
    language_model = LanguageModel(model, byte_level().tokenizer)
    assert experiment(path, language_model=language_model).run(EXAMPLES) == DONE
    assert path.read_bytes() == before


def fail(*_: object) -> None:
    raise AssertionError("the model was run")


def test_missing_results_are_added(copied: Path) -> None:
    lines = copied.read_text().splitlines(keepends=True)
    copied.write_text("".join(line for line in lines if '"masked"' not in line))
    evaluate(copied)
    added = copied.read_text().splitlines()[-3:]
    assert [json.loads(line)["method"] for line in added] == ["masked"] * 3


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


def test_corrected_evidence_is_kept_and_nothing_is_computed_again(path: Path, copied: Path) -> None:
    corrected = replace(EXAMPLES[0], evidence=(DocumentSpan(0, 0, 5), DocumentSpan(1, 0, 5)))
    experiment(copied).run([corrected])
    before, after = ResultStore(path), ResultStore(copied)
    expected = replace(before.answers[corrected.key], evidence=[0, 3])
    assert after.answers[corrected.key] == expected
    assert len(copied.read_text().splitlines()) == len(path.read_text().splitlines()) + 1
    (case,) = (case for case in cases(after, EXACT) if case.answered.key == corrected.key)
    assert case.answered.evidence == [0, 3]


def test_each_run_goes_on_and_keeps_its_results_however_little_time(
    path: Path, tmp_path: Path
) -> None:
    """An answer may take longer than the minutes that were given."""
    cut, soon = tmp_path / "results.jsonl", replace(OPTIONS, minutes=1e-6)
    assert evaluate(cut, soon).out_of_time
    assert ResultStore(cut).methods() == [EXACT]
    for _ in range(len(EXAMPLES) * (len(METHODS) + 1)):
        evaluate(cut, soon)
    assert not evaluate(cut, soon).out_of_time
    assert ResultStore(cut).scores.keys() == ResultStore(path).scores.keys()


LONG = [Example(f"tiny/long {i}", "who?", (Document("A word. " * 3000),)) for i in range(9)]


def test_the_time_is_up_where_every_example_fails(tmp_path: Path) -> None:
    outcome = experiment(tmp_path / "results.jsonl", replace(OPTIONS, minutes=1e-6)).run(LONG)
    assert outcome.out_of_time
    assert len(outcome.problems) == 2


def test_examples_that_fail_are_named(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    outcome = experiment(path).run([LONG[0], EXAMPLES[0]])
    assert list(outcome.problems) == [LONG[0].key]
    assert list(ResultStore(path).answers) == ["tiny/0"]


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


def test_sources_cut_otherwise_are_scored_anew(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by another release of the splitter: nothing of both cuttings is mixed."""
    monkeypatch.setattr(Example, "source_unit", "paragraph")
    assert evaluate(copied) == DONE
    store = ResultStore(copied)
    for name in set(METHODS) - {NAIVE}:
        for key, score in store.of_method(name).items():
            documents = store.answers[key].documents
            assert len(score.scores) == len(documents) == len(set(documents))


def no_room(*_: object, **__: object) -> None:
    raise torch.OutOfMemoryError("no room")


def test_an_example_that_does_not_fit_into_memory_ends_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    language_model = LanguageModel(copy.deepcopy(byte_level().model), byte_level().tokenizer)
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


def test_only_the_method_that_fails_to_warm_up_is_unsupported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*_: object) -> None:
        raise UnsupportedModel("not this one")

    monkeypatch.setattr(Auto, "run", unsupported)
    outcome = evaluate(tmp_path / "results.jsonl")
    assert outcome.unsupported == {"auto": "not this one"}


class Fussy(LeaveOneOut):
    """Leave-one-out that cannot take an example of two documents."""

    def run(self, scorer: Scorer) -> Scores:
        if len(scorer.context.documents) == 2:
            raise ContextTooLong("too long for the proxy")
        return super().run(scorer)


class Forgetful(LeaveOneOut):
    """Leave-one-out whose weights do not fit into memory."""

    def run(self, scorer: Scorer) -> Scores:
        scorer.session.meter.exhausted = True
        return whole_response(scorer, None, "attention")


def test_a_method_that_fails_for_one_example_is_tried_on_the_next(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    methods: dict[str, Method] = {EXACT: LeaveOneOut(), "fussy": Fussy(), "forgetful": Forgetful()}
    outcome = experiment(path, methods=methods).run(EXAMPLES[:2])
    assert outcome.problems["tiny/0, fussy"] == "too long for the proxy"
    assert "memory" in outcome.problems["tiny/1, forgetful"]
    store = ResultStore(path)
    assert set(store.of_method("fussy")) == {"tiny/1"}
    assert "forgetful" not in store.methods()
    assert set(store.of_method(EXACT)) == {"tiny/0", "tiny/1"}
