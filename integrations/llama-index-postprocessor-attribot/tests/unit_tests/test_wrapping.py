"""A query engine around another one, and citations in LlamaIndex's forms."""

import asyncio
from typing import Any

from conftest import EXACT, QUESTION, index_of, nodes
from llama_index.core.base.llms.types import CitationBlock, TextBlock
from llama_index.core.schema import MetadataMode
from llama_index.llms.huggingface import HuggingFaceLLM
from llama_index.postprocessor.attribot import AttributedQueryEngine, AttributionPostprocessor

from attribot_rag.attribution import cite


def engine_of(llm: HuggingFaceLLM, **options: Any) -> AttributedQueryEngine:
    return AttributedQueryEngine(index_of().as_query_engine(llm=llm), **{**EXACT, **options})


def test_a_wrapped_engine_gives_what_caused_its_answer(tiny_llm: HuggingFaceLLM) -> None:
    engine = engine_of(tiny_llm)
    plain = index_of().as_query_engine(llm=tiny_llm).query(QUESTION)
    response = engine.query(QUESTION)
    assert response.response == plain.response
    assert response.metadata["attribution"]["status"] == "complete"
    assert engine.result(response).attribution is not None
    asynchronous = asyncio.run(engine.aquery(QUESTION))
    assert asynchronous.metadata["attribution"]["status"] == "complete"


def test_it_comes_first_where_both_are_there(tiny_llm: HuggingFaceLLM) -> None:
    inner = AttributionPostprocessor(**EXACT)
    engine = AttributedQueryEngine(
        index_of().as_query_engine(llm=tiny_llm, node_postprocessors=[inner]), **EXACT
    )
    response = engine.query(QUESTION)
    assert engine.result(response).attribution is not None
    assert not inner.results


def test_nodes_are_given_by_what_was_used(llm: HuggingFaceLLM) -> None:
    index = index_of()
    stored = {node.node_id: node.get_content(MetadataMode.ALL) for node in nodes()}
    found = {}
    for which in ("all", "ranked", "used"):
        engine = AttributedQueryEngine(index.as_query_engine(llm=llm), source_nodes=which)  # type: ignore[arg-type]
        response = engine.query(QUESTION)
        found[which] = [node.node_id for node in response.source_nodes]
        for one in response.source_nodes:
            assert one.node.get_content(MetadataMode.ALL) == stored[one.node_id]
            if which != "all":
                assert one.node is not index.docstore.docs[one.node_id]
    assert sorted(found["all"]) == sorted(found["ranked"]) == ["ferry", "lighthouse"]
    assert found["ranked"][0] == "lighthouse"
    assert found["used"] == ["lighthouse"]


def test_citations_stand_where_they_belong(llm: HuggingFaceLLM) -> None:
    postprocessor = AttributionPostprocessor()
    engine = index_of().as_query_engine(llm=llm, node_postprocessors=[postprocessor])
    response = engine.query(QUESTION)
    assert "38" in response.response
    assert postprocessor.cited_response(response) == f"{response.response.strip()} [1]"
    message = postprocessor.cited_message(response)
    text, *citations = message.blocks
    assert isinstance(text, TextBlock)
    attribution = postprocessor.result(response).attribution
    assert attribution is not None
    assert text.text == attribution.response
    (citation,) = citations
    assert isinstance(citation, CitationBlock)
    assert isinstance(citation.cited_content, TextBlock)
    assert citation.cited_content.text == "The lighthouse is 38 metres high."
    assert (citation.source, citation.title) == ("lighthouse", "lighthouse.md")
    assert citation.additional_location_info["number"] == 1
    assert cite(attribution).numbers == {1: 1}
