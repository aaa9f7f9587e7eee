"""The versions of the three packages."""

import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
import torch
import transformers
from support.scripted_generation import ANSWER, DOCUMENTS, rendered
from support.tiny_models import byte_level

import attribot_rag
from attribot_rag import Attributor

ROOT = Path(__file__).parents[1]


def test_the_metadata_has_the_package_s_version() -> None:
    assert version("attribot-rag") == attribot_rag.__version__


@pytest.mark.parametrize(
    "module",
    [
        "langchain-attribot/langchain_attribot",
        "llama-index-postprocessor-attribot/llama_index/postprocessor/attribot",
    ],
)
def test_an_integration_has_the_version_of_the_core(module: str) -> None:
    text = (ROOT / "integrations" / module / "__init__.py").read_text("utf-8")
    assert re.findall(r'^__version__ = "(.+)"$', text, re.MULTILINE) == [attribot_rag.__version__]


def test_an_attribution_needs_no_installed_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    model = byte_level()
    attributor = Attributor(model.model, model.tokenizer, progress=False)
    monkeypatch.setattr("importlib.metadata.version", missing)
    found = attributor.attribute(rendered(model), ANSWER, list(DOCUMENTS))
    versions = dict(found.provenance.versions)
    assert versions.pop("python")
    assert versions == {
        "attribot-rag": attribot_rag.__version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
