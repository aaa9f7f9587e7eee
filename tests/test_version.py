"""The versions of the three packages."""

import re
from importlib.metadata import version
from pathlib import Path

import pytest

import attribot_rag

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
