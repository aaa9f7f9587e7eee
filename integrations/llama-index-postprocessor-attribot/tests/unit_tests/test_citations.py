"""Places in responses, citations in LlamaIndex's forms, and a query engine around another one."""

import asyncio
from typing import Any

from conftest import QUESTION, LocalLLM, Postprocessor, summary_of
from engines import engine_of, index_of, nodes
from llama_index.core.base.llms.types import CitationBlock, TextBlock
from llama_index.core.schema import MetadataMode
from llama_index.postprocessor.attribot import AttributedQueryEngine, AttributionPostprocessor
from support.summaries import EXACT, attribution_of

from attribot_rag.attribution import cite


def test_a_wrapped_engine_gives_the_attribution_of_its_answer(tiny_llm: LocalLLM) -> None:
    plain = engine_of(tiny_llm)
    engine = AttributedQueryEngine(plain, **EXACT)
    response = engine.query(QUESTION)
    assert response.response == plain.query(QUESTION).response
    summary_of(response)
    attribution_of(engine.result(response))
    summary_of(asyncio.run(engine.aquery(QUESTION)))


def test_it_comes_first_where_both_are_there(engine: Any, postprocessor: Postprocessor) -> None:
    outer = AttributedQueryEngine(engine, **EXACT)
    attribution_of(outer.result(outer.query(QUESTION)))
    assert not postprocessor.results


def test_source_nodes_are_all_ranked_or_only_the_used(llm: LocalLLM) -> None:
    index = index_of()
    stored = {node.node_id: node.get_content(MetadataMode.ALL) for node in nodes()}
    ids = {}
    for which in ("all", "ranked", "used"):
        engine = AttributedQueryEngine(index.as_query_engine(llm=llm), source_nodes=which)  # type: ignore[arg-type]
        response = engine.query(QUESTION)
        ids[which] = [node.node_id for node in response.source_nodes]
        for scored in response.source_nodes:
            assert scored.node.get_content(MetadataMode.ALL) == stored[scored.node_id]
            if which != "all":
                assert scored.node is not index.docstore.docs[scored.node_id]
    assert sorted(ids["all"]) == sorted(ids["ranked"]) == ["ferry", "lighthouse"]
    assert ids["ranked"][0] == "lighthouse"
    assert ids["used"] == ["lighthouse"]


def test_citations_stand_where_they_belong(llm: LocalLLM) -> None:
    postprocessor = AttributionPostprocessor()
    response = engine_of(llm, postprocessor).query(QUESTION)
    assert "38" in response.response
    assert postprocessor.cited_response(response) == f"{response.response.strip()} [1]"
    attribution = attribution_of(postprocessor.result(response))
    assert cite(attribution).numbers == {1: 1}
    text, citation = postprocessor.cited_message(response).blocks
    assert text == TextBlock(text=attribution.response)
    assert isinstance(citation, CitationBlock)
    assert citation.cited_content == TextBlock(text="The lighthouse is 38 metres high.")
    assert (citation.source, citation.title) == ("lighthouse", "lighthouse.md")
    assert citation.additional_location_info["number"] == 1
