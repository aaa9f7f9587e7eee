"""Results of one model, device and clock are not mixed with those of another."""

from dataclasses import replace
from pathlib import Path

import pytest
from support.scorers import sibling
from support.tiny_models import byte_level

from attribot_rag.errors import InvalidInput
from attribot_rag.model.local_model import LocalModel
from benchmarks.experiment.experiment import Experiment, ExperimentOptions
from benchmarks.experiment.results import ResultStore
from benchmarks.experiment.setting import model_digest, setting


def test_checkpoints_have_different_digests() -> None:
    """Of the same name and size."""
    assert model_digest(byte_level()) == model_digest(byte_level())
    assert model_digest(byte_level()) != model_digest(sibling())


@pytest.mark.parametrize(
    ("language_model", "clock", "message"),
    [(sibling(), "wall", "weights"), (byte_level(), "cpu", "clock 'wall', not 'cpu'")],
)
def test_results_of_another_model_or_clock_are_refused(
    language_model: LocalModel, clock: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "results.jsonl"
    Experiment(byte_level(), {}, ResultStore(path), ExperimentOptions())
    with pytest.raises(InvalidInput, match=f"{message}.*pass another --output"):
        Experiment(language_model, {}, ResultStore(path), ExperimentOptions(clock=clock))


def test_another_machine_goes_on_and_both_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    here = setting(byte_level(), "wall")
    there = replace(here, hardware="64 threads of another")
    for machine in (here, there, here):
        ResultStore(path).begin(machine)
    assert ResultStore(path).settings == [here, there]
