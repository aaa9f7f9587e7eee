"""The notebook about LangChain runs, offline, and shows what caused its answers."""

import pytest
from support.notebooks import run_notebook


@pytest.mark.enable_socket  # of the kernel, on this machine
def test_the_notebook_runs() -> None:
    printed, shown = run_notebook("langchain")
    assert "38 metres high" in printed and "[1]" in printed
    assert "grounded" in shown[0]["text/plain"]
    assert any("text/html" in output for output in shown)
    assert "['answer', 'documents', 'attribution']" in shown[-1]["text/plain"]
