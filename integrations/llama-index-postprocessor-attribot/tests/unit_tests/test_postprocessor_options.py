"""Options of the postprocessor, for type checkers too: mypy reads this file.

Where mypy has to find a mistake, a comment says so; mypy rejects a comment without a mistake.
"""

import pytest
from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import CustomQueryEngine
from llama_index.postprocessor.attribot import AttributedQueryEngine, AttributionPostprocessor

from attribot_rag import Budget
from attribot_rag.errors import UnknownOption


class Silent(CustomQueryEngine):
    def custom_query(self, query_str: str) -> str:
        return ""


def test_options_are_serialized_and_read_again() -> None:
    postprocessor = AttributionPostprocessor(max_pending=3, budget=Budget(tokens=7), keep=None)
    assert isinstance(postprocessor, BaseNodePostprocessor)
    kept = postprocessor.to_dict()
    assert kept["class_name"] == "AttributionPostprocessor"
    assert (kept["max_pending"], kept["mode"]) == (3, "inline")
    assert not {"annotator", "proxy", "language_model", "on_result"} & kept.keys()
    assert AttributionPostprocessor.from_dict(kept).run_options == postprocessor.run_options
    assert postprocessor.postprocess_nodes([]) == []


def test_unknown_options_and_values_are_refused() -> None:
    engine: BaseQueryEngine = Silent()
    with pytest.raises(ValueError, match=r"no option 'metod'; did you mean 'method'\?.*verdicts"):
        AttributionPostprocessor(metod="auto")  # type: ignore[call-arg]
    with pytest.raises(UnknownOption, match=r"AttributedQueryEngine .*did you mean 'budget'\?"):
        AttributedQueryEngine(engine, budgte=None)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="unknown method 'bogus'"):
        AttributionPostprocessor(method="bogus")
    with pytest.raises(ValueError, match="keep=5 is for a proxy"):
        AttributionPostprocessor(keep=5)
    with pytest.raises(ValueError, match="str holds no local Hugging Face model"):
        AttributedQueryEngine(engine, language_model="a name")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="source_nodes='some'; choose one of all, ranked, used"):
        AttributedQueryEngine(engine, source_nodes="some")  # type: ignore[arg-type]
