"""The package beside others of LlamaIndex's namespace, and its cost for engines without it."""

import importlib
from importlib.metadata import distributions
from pathlib import Path

import llama_index
import pytest
from conftest import QUESTION
from engines import index_of
from llama_index.core.llms import MockLLM
from llama_index.postprocessor.attribot.query_tracker import QueryTracker, installed


@pytest.mark.parametrize(
    "name",
    [
        "core",
        "postprocessor.attribot",
        "postprocessor.colbert_rerank",
    ],
)
def test_it_shadows_no_other_package(name: str) -> None:
    assert importlib.import_module(f"llama_index.{name}").__file__


def test_the_namespace_belongs_to_nobody() -> None:
    assert llama_index.__file__ is None
    assert importlib.import_module("llama_index.postprocessor").__file__ is None
    shared = {Path("llama_index/__init__.py"), Path("llama_index/postprocessor/__init__.py")}
    for distribution in distributions(name="llama-index-postprocessor-attribot"):
        assert shared.isdisjoint(Path(str(file)) for file in distribution.files or ())


def test_nothing_is_kept_of_engines_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[int] = []
    end = QueryTracker.prepare_to_exit_span

    def count(spans: QueryTracker, id_: str, *args: object, **kwargs: object) -> None:
        kept.append(spans.num_observed)
        end(spans, id_, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(QueryTracker, "prepare_to_exit_span", count)
    installed()
    response = index_of().as_query_engine(llm=MockLLM(max_tokens=5)).query(QUESTION)
    assert "attribution" not in response.metadata
    assert len(kept) > 5
    assert set(kept) == {0}
