"""The methods that are compared, by their options."""

from typing import Any

import pytest
from support.tiny_models import byte_level

from attribot_rag.methods import make_method
from benchmarks import ROOT
from benchmarks.experiment.grid import BASELINES, method_description, methods
from benchmarks.experiment.results import ResultStore


@pytest.mark.parametrize(
    ("row", "method", "options"),
    [
        ("leave-one-out", "leave_one_out", {}),
        ("hierarchical, keep 3", "hierarchical", {}),
        ("masked hierarchical, keep 3", "masked_hierarchical", {}),
        ("proxy", "leave_one_out", {"proxy": byte_level()}),
        ("proxy pruning, keep 5", "auto", {"proxy": byte_level(), "keep": 5}),
    ],
)
def test_a_row_is_the_method_that_the_documentation_names(
    row: str, method: str, options: dict[str, Any]
) -> None:
    assert method_description(methods(byte_level())[row]) == method_description(
        make_method(method, **options)
    )


def test_stored_scores_are_those_of_these_baselines() -> None:
    """A run that goes on from them computes none again."""
    stored = ResultStore(ROOT / "docs" / "evaluation" / "results.jsonl")
    for name, method in BASELINES.items():
        described = {record.options for record in stored.of_method(name).values()}
        assert described == {method_description(method)}
