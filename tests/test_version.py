"""The versions of the packages."""

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


def test_all_packages_have_the_version_of_the_core() -> None:
    assert version("attribot-rag") == attribot_rag.__version__
    for module in (
        "attribot-batch/attribot_batch",
        "attribot-checks/attribot_checks",
        "attribot-server/attribot_server",
        "langchain-attribot/langchain_attribot",
        "llama-index-postprocessor-attribot/llama_index/postprocessor/attribot",
    ):
        text = (ROOT / "integrations" / module / "__init__.py").read_text("utf-8")
        (module_version,) = re.findall(r'^__version__ = "(.+)"$', text, re.MULTILINE)
        assert module_version == attribot_rag.__version__


def test_an_attribution_needs_no_installed_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    model = byte_level()
    attributor = Attributor(model, progress=False)
    monkeypatch.setattr("importlib.metadata.version", missing)
    attribution = attributor.attribute(rendered(model), ANSWER, list(DOCUMENTS))
    versions = dict(attribution.provenance.versions)
    assert versions.pop("python")
    assert versions == {
        "attribot-rag": attribot_rag.__version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
