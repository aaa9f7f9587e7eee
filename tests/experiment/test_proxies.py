"""A proxy's scores are used again: by pruning, and where model and proxy are exchanged."""

from dataclasses import replace
from pathlib import Path

import pytest
from experiment.test_experiment import EXAMPLES, OPTIONS, experiment
from support.tiny_models import byte_level, larger

from attribot_rag.methods import LeaveOneOut, Method, Proxy, Pruned
from attribot_rag.model.local_model import LocalModel
from benchmarks import proxies
from benchmarks.experiment.experiment import Experiment
from benchmarks.experiment.grid import EXACT, NAIVE, PROXY
from benchmarks.experiment.results import ResultStore
from benchmarks.experiment.turned import Turned

PRUNING = "proxy pruning, keep 2"
ANSWERED = [replace(example, response="The queen did.") for example in EXAMPLES]


def with_proxy(proxy: LocalModel) -> dict[str, Method]:
    return {
        EXACT: LeaveOneOut(),
        NAIVE: LeaveOneOut(),
        PROXY: Proxy(proxy),
        PRUNING: Pruned(Proxy(proxy), keep=2),
    }


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("proxies") / "results.jsonl"
    outcome = experiment(path, methods=with_proxy(larger())).run(ANSWERED)
    assert not outcome.problems
    return path


def test_pruning_by_a_known_proxy_is_pruning_by_the_proxy(measured: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone.jsonl"
    methods = with_proxy(larger())
    del methods[PROXY]
    experiment(alone, methods=methods).run(ANSWERED)
    known, fresh = (ResultStore(path).of_method(PRUNING) for path in (measured, alone))
    for key, record in fresh.items():
        assert known[key].scores == pytest.approx(record.scores, abs=1e-3)
        assert known[key].options == record.options
        assert known[key].expected_tokens == record.expected_tokens
        assert known[key].tokens == pytest.approx(record.tokens, rel=0.2)


def test_exchanged_models_have_the_scores_of_each_other(measured: Path, tmp_path: Path) -> None:
    answering, path = byte_level(), tmp_path / "turned.jsonl"
    results = ResultStore(measured)
    turned = Turned(results, answering, OPTIONS.template, OPTIONS.max_new_tokens)
    methods = with_proxy(answering)
    outcome = Experiment(larger(), methods, ResultStore(path), OPTIONS, turned=turned).run(ANSWERED)
    assert not outcome.problems
    plain = tmp_path / "plain.jsonl"
    experiment(plain, language_model=larger(), methods=methods).run(ANSWERED)
    for name in (EXACT, PROXY, PRUNING):
        taken, computed = (ResultStore(file).of_method(name) for file in (path, plain))
        assert len(taken) == len(ANSWERED)
        for key, record in computed.items():
            assert taken[key].scores == pytest.approx(record.scores, abs=1e-3)
    (target, proxy), exchanged = map(rows_of_proxies, (ResultStore(path), results))
    assert [proxy, target] == exchanged
    assert target.startswith("tiny | proxy | 3 |")


def rows_of_proxies(store: ResultStore) -> list[str]:
    """The rows of leave-one-out on a proxy, without the target's name."""
    lines = proxies.table([store]).splitlines()
    return [line.split(" | ", 1)[1] for line in lines if " | proxy | " in line]


def test_another_answer_is_not_taken(measured: Path, tmp_path: Path) -> None:
    turned = Turned(ResultStore(measured), byte_level(), OPTIONS.template, OPTIONS.max_new_tokens)
    methods = with_proxy(byte_level())
    store = ResultStore(tmp_path / "other.jsonl")
    others = [replace(example, response="The king did.") for example in EXAMPLES]
    outcome = Experiment(larger(), methods, store, OPTIONS, turned=turned).run(others)
    assert all("another answer" in problem for problem in outcome.problems.values())
    assert len(outcome.problems) == len(ANSWERED)
