"""The notebook about LlamaIndex runs, offline, and shows what caused its answers."""

import pytest
from support.notebooks import run_notebook


@pytest.mark.enable_socket  # of the kernel, on this machine
def test_the_notebook_runs() -> None:
    printed, shown = run_notebook("llama_index")
    assert "The lighthouse is 38 metres high. [1]" in printed
    assert "grounded" in shown[0]["text/plain"]
    assert "text/html" in shown[1]
    assert len(eval(shown[2]["text/plain"])) == 2
