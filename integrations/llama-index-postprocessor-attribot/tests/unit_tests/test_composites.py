"""Answers that are made of other answers: attributed to these, and through them to their nodes."""

import asyncio
import inspect
import re
from typing import Any

import jsonschema
import pytest
from composites import Asks, ChoosesAll
from conftest import EXACT, QUESTION, index_of, nodes
from llama_index.core import get_response_synthesizer
from llama_index.core.chat_engine import CondenseQuestionChatEngine
from llama_index.core.indices.query.query_transform.base import (
    IdentityQueryTransform,
    StepDecomposeQueryTransform,
)
from llama_index.core.query_engine import (
    MultiStepQueryEngine,
    RouterQueryEngine,
    SubQuestionQueryEngine,
    TransformQueryEngine,
)
from llama_index.core.tools import QueryEngineTool
from llama_index.llms.huggingface import HuggingFaceLLM
from llama_index.postprocessor.attribot import AttributedQueryEngine, AttributionPostprocessor
from scripted import says

from attribot_rag import LanguageModel
from attribot_rag.attribution.schema import summary_schema
from attribot_rag.runtime import AttributedRun

SCHEMA = summary_schema()
NAMES = ("ferry", "lighthouse")


def tools(llm: HuggingFaceLLM, postprocessor: AttributionPostprocessor | None) -> Any:
    """One engine for each node."""
    given = [] if postprocessor is None else [postprocessor]
    return [
        QueryEngineTool.from_defaults(
            index_of([node]).as_query_engine(llm=llm, node_postprocessors=given),
            name=node.node_id,
            description=f"knows the {node.node_id}",
        )
        for node in nodes()
    ]


def composed_by(
    kind: str, llm: HuggingFaceLLM, postprocessor: AttributionPostprocessor | None
) -> Any:
    engines = tools(llm, postprocessor)
    if kind == "router":
        return RouterQueryEngine(ChoosesAll(), engines, llm=llm)
    synthesizer = get_response_synthesizer(llm=llm)
    if kind == "steps":
        return MultiStepQueryEngine(
            engines[0].query_engine, StepDecomposeQueryTransform(llm=llm), synthesizer, num_steps=2
        )
    return SubQuestionQueryEngine(
        Asks(NAMES),
        synthesizer,
        engines,
        verbose=False,
        use_async=kind == "sub-questions at once",
    )


def composite(response: Any, num_calls: int = 2) -> dict[str, Any]:
    """The summary of the response: the last answer's own, and each earlier one with its query."""
    summary: dict[str, Any] = response.metadata["attribution"]
    jsonschema.validate(summary, SCHEMA)
    assert summary["status"] == "composite", summary
    assert len(summary["calls"]) == num_calls
    for call in summary["calls"]:
        assert call["status"] == "complete"
        assert call["query"]
        assert call["answer"]
        assert call["documents"]
    return summary


KINDS = ["sub-questions", "sub-questions at once", "router", "steps"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_outer_response_has_the_inner_attributions(tiny_llm: HuggingFaceLLM, kind: str) -> None:
    runs: list[AttributedRun] = []
    postprocessor = AttributionPostprocessor(on_result=runs.append, **EXACT)
    response = composed_by(kind, tiny_llm, postprocessor).query(QUESTION)
    summary = composite(response)
    assert summary["query"] == QUESTION
    assert summary["answer"].strip() == response.response.strip()
    found = {document["id"] for document in summary["documents"]}
    assert found == {"ferry"} if kind == "steps" else set(NAMES)
    run = postprocessor.result(response)
    assert run.attribution is not None
    assert [document.id for document in run.attribution.documents] == [
        one.run_id for one in run.earlier
    ]
    answers = [one.text.strip() for one in run.earlier]
    assert [document.text for document in run.attribution.documents] == answers
    assert runs[-1].run_id == run.run_id
    assert [one.run_id for one in runs[:-1]] == [one.run_id for one in run.earlier]
    if kind.startswith("sub"):
        *earlier, last = [run.query for run in runs]
        # At once: whichever ends first is told first.
        assert (sorted(earlier) if kind.endswith("at once") else earlier) == [
            f"What of the {name}?" for name in NAMES
        ]
        assert last == QUESTION
    cited = postprocessor.cited_response(response, remarks=False)
    assert re.sub(r" ?\[[^]]*\]", "", cited).strip() == response.response.strip()


router = pytest.param(
    "router",
    marks=pytest.mark.skipif(
        "run_async_tasks" in inspect.getsource(RouterQueryEngine._aquery),
        reason="this router asks its engines on a thread that knows of no query",
    ),
)


@pytest.mark.parametrize("kind", ["sub-questions", router])
def test_an_asynchronous_one_too(tiny_llm: HuggingFaceLLM, kind: str) -> None:
    postprocessor = AttributionPostprocessor(**EXACT)

    async def ask() -> Any:
        response = await composed_by(kind, tiny_llm, postprocessor).aquery(QUESTION)
        await postprocessor.aresult(response)
        return response

    composite(asyncio.run(ask()))


def test_an_engine_around_all_of_it(tiny_llm: HuggingFaceLLM) -> None:
    engine = AttributedQueryEngine(
        composed_by("sub-questions", tiny_llm, None), source_nodes="ranked", **EXACT
    )
    response = engine.query(QUESTION)
    composite(response)
    assert engine.result(response).attribution is not None
    assert {node.node_id for node in response.source_nodes[:2]} == set(NAMES)  # not the sub-answers


def test_citations_lead_through_the_sub_answers_to_their_nodes(smollm2: LanguageModel) -> None:
    llm = says(
        smollm2,
        "The ferry carries up to 84 passengers.",
        "The lighthouse is 38 metres high.",
        "The lighthouse is 38 metres high. The ferry carries up to 84 passengers.",
    )
    postprocessor = AttributionPostprocessor(**EXACT)
    response = composed_by("sub-questions", llm, postprocessor).query(QUESTION)
    summary = composite(response)
    ids = {document["index"]: document["id"] for document in summary["documents"]}
    cited = [[ids[index] for index in sentence["documents"]] for sentence in summary["sentences"]]
    assert cited == [["lighthouse"], ["ferry"]]
    assert postprocessor.cited_response(response) == (
        "The lighthouse is 38 metres high. [1] The ferry carries up to 84 passengers. [2]"
    )
    _, *citations = postprocessor.cited_message(response).blocks
    assert [citation.source for citation in citations] == ["lighthouse", "ferry"]  # type: ignore[union-attr]


def test_composites_of_composites(tiny_llm: HuggingFaceLLM) -> None:
    postprocessor = AttributionPostprocessor(**EXACT)
    inner = QueryEngineTool.from_defaults(
        composed_by("router", tiny_llm, postprocessor), name="router", description="knows both"
    )
    outer = SubQuestionQueryEngine(
        Asks(["router"]), get_response_synthesizer(llm=tiny_llm), [inner], verbose=False
    )
    summary = outer.query(QUESTION).metadata["attribution"]
    jsonschema.validate(summary, SCHEMA)
    assert summary["status"] == summary["calls"][0]["status"] == "composite"
    assert len(summary["calls"][0]["calls"]) == 2
    assert {document["id"] for document in summary["documents"]} == set(NAMES)


def test_an_answer_that_is_passed_on_is_attributed_as_it_is(tiny_llm: HuggingFaceLLM) -> None:
    postprocessor = AttributionPostprocessor(**EXACT)
    engine = tools(tiny_llm, postprocessor)[1].query_engine
    router = RouterQueryEngine(ChoosesAll(), tools(tiny_llm, postprocessor)[1:], llm=tiny_llm)
    transformed = TransformQueryEngine(engine, IdentityQueryTransform())
    chat = CondenseQuestionChatEngine.from_defaults(engine, llm=tiny_llm)
    for response in (
        router.query(QUESTION),
        transformed.query(QUESTION),
        chat.chat(QUESTION),
        chat.chat("And its lamp?"),
    ):
        summary = response.metadata["attribution"]
        assert summary["status"] == "complete"
        assert [document["id"] for document in summary["documents"]] == ["lighthouse"]
        assert postprocessor.result(response).text.strip() == response.response.strip()


def test_a_chat_s_stream_too(tiny_llm: HuggingFaceLLM) -> None:
    postprocessor = AttributionPostprocessor(**EXACT)
    engine = index_of().as_query_engine(
        llm=tiny_llm, node_postprocessors=[postprocessor], streaming=True
    )
    response = CondenseQuestionChatEngine.from_defaults(engine, llm=tiny_llm).stream_chat(QUESTION)
    assert "".join(response.response_gen)
    assert response.metadata["attribution"]["status"] == "complete"  # type: ignore[attr-defined]


def test_engines_around_others_that_nobody_attributes(tiny_llm: HuggingFaceLLM) -> None:
    for kind in ("sub-questions", "router"):
        response = composed_by(kind, tiny_llm, None).query(QUESTION)
        assert "attribution" not in response.metadata
