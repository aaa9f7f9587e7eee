"""The package beside others of LlamaIndex's namespace, and its cost for engines without it."""

import importlib
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import llama_index
import pytest


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


def test_pytorch_is_imported_when_something_is_scored() -> None:
    program = "import llama_index.postprocessor.attribot, sys; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_namespace_belongs_to_nobody() -> None:
    assert llama_index.__file__ is None
    assert importlib.import_module("llama_index.postprocessor").__file__ is None
    shared = {Path("llama_index/__init__.py"), Path("llama_index/postprocessor/__init__.py")}
    for distribution in distributions(name="llama-index-postprocessor-attribot"):
        assert shared.isdisjoint(Path(str(file)) for file in distribution.files or ())
