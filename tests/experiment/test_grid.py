"""The methods that are compared, by their options."""

from benchmarks import ROOT
from benchmarks.experiment.grid import BASELINES, method_description
from benchmarks.experiment.results import ResultStore


def test_stored_scores_are_those_of_these_baselines() -> None:
    """A run that goes on from them computes none again."""
    stored = ResultStore(ROOT / "docs" / "evaluation" / "results.jsonl")
    for name, method in BASELINES.items():
        described = {record.options for record in stored.of_method(name).values()}
        assert described == {method_description(method)}
