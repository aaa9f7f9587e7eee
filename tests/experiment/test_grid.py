"""The methods that are compared, by their options."""

from typing import Any

import pytest
from support.scorers import sibling
from support.tiny_models import byte_level

from attribot_rag.methods import Hierarchical, Masked, make_method
from benchmarks import ROOT
from benchmarks.experiment.grid import BASELINES, method_description, methods
from benchmarks.experiment.results import ResultStore


@pytest.mark.parametrize(
    ("row", "method", "options"),
    [
        ("leave-one-out", "leave_one_out", {}),
        ("auto", "auto", {}),
        ("masked", "masked", {}),
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


def test_a_method_is_described_with_its_options() -> None:
    assert method_description(Hierarchical(5)) != method_description(Hierarchical(3))
    assert "Masked(recompute='question')" in method_description(Hierarchical(coarse=Masked()))
    proxied = method_description(methods(byte_level())["proxy pruning, keep 3"])
    assert "parameters" in proxied
    assert method_description(methods(sibling())["proxy pruning, keep 3"]) != proxied
    assert "object at" not in proxied
    described = {method_description(method) for method in methods(byte_level()).values()}
    assert len(described) == len(methods(byte_level())) - 1  # without a cache: the same method
