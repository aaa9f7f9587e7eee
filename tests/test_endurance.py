"""Many attributions in one process leave nothing behind; `benchmarks/endurance.py` makes more."""

import pytest

from benchmarks.endurance import endure


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Already found a .peft_config:UserWarning")
@pytest.mark.parametrize(
    ("way", "needs", "count"),
    [
        ("library", "torch", 200),
        ("langchain", "langchain_huggingface", 300),
        ("llama_index", "llama_index.llms.huggingface", 300),
    ],
)
def test_attributions_leave_no_object_no_thread_and_no_model(
    way: str, needs: str, count: int
) -> None:
    """One service, handler or postprocessor has them all. The model is moved, its adapters are
    switched, threads start and leave in between."""
    pytest.importorskip(needs)
    endured = endure(way, count, every=5)
    assert endured.object_growth <= 0.002  # one object for each attribution would be 0.0009
    assert endured.last.threads <= endured.first.threads
    assert endured.is_freed
