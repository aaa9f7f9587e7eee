"""Answers that are made of other answers: attributed to these, and through them to their nodes."""

import asyncio
import inspect
import re
from collections.abc import Sequence
from typing import Any

import pytest
from conftest import QUESTION, LocalLLM, Postprocessor, ids_of, summary_of
from engines import engine_of, nodes
from llama_index.core import get_response_synthesizer
from llama_index.core.base.base_selector import (
    BaseSelector,
    MultiSelection,
    SelectorResult,
    SingleSelection,
)
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
from llama_index.core.question_gen.types import BaseQuestionGenerator, SubQuestion
from llama_index.core.tools import QueryEngineTool
from llama_index.postprocessor.attribot import AttributedQueryEngine, AttributionPostprocessor
from scripted import says
from support.summaries import EXACT, attribution_of

from attribot_rag import LocalModel
from attribot_rag.runtime import AttributedRun

NAMES = ("ferry", "lighthouse")


class WithoutPrompts:
    def _get_prompts(self) -> dict[str, Any]:
        return {}

    def _update_prompts(self, prompts: Any) -> None:
        """It has none."""


class Asks(WithoutPrompts, BaseQuestionGenerator):
    """One question for each of these tools."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def generate(self, *_: Any, **__: Any) -> list[SubQuestion]:
        return [
            SubQuestion(sub_question=f"What of the {name}?", tool_name=name) for name in self._names
        ]

    async def agenerate(self, *_: Any, **__: Any) -> list[SubQuestion]:
        return self.generate()


class ChoosesAll(WithoutPrompts, BaseSelector):
    """Every choice."""

    def _select(self, choices: Sequence[Any], query: Any) -> SelectorResult:
        chosen = [SingleSelection(index=index, reason="all") for index in range(len(choices))]
        return MultiSelection(selections=chosen)

    async def _aselect(self, choices: Sequence[Any], query: Any) -> SelectorResult:
        return self._select(choices, query)


def tools(llm: LocalLLM, *postprocessors: Postprocessor) -> Any:
    """One engine for each node."""
    return [
        QueryEngineTool.from_defaults(
            engine_of(llm, *postprocessors, texts=[node]),
            name=node.node_id,
            description=f"knows the {node.node_id}",
        )
        for node in nodes()
    ]


def composed_by(kind: str, llm: LocalLLM, *postprocessors: Postprocessor) -> Any:
    engines = tools(llm, *postprocessors)
    if kind == "router":
        return RouterQueryEngine(ChoosesAll(), engines, llm=llm)
    synthesizer = get_response_synthesizer(llm=llm)
    if kind == "steps":
        return MultiStepQueryEngine(
            engines[0].query_engine, StepDecomposeQueryTransform(llm=llm), synthesizer, num_steps=2
        )
    at_once = kind == "sub-questions at once"
    return SubQuestionQueryEngine(
        Asks(NAMES), synthesizer, engines, verbose=False, use_async=at_once
    )


def composite(response: Any) -> dict[str, Any]:
    """The summary of the response: the last answer's own, and both earlier ones with a query."""
    summary = summary_of(response, "composite")
    assert len(summary["calls"]) == 2
    for call in summary["calls"]:
        assert call["status"] == "complete"
        assert call["question"]
        assert call["answer"]
        assert call["documents"]
    return summary


def document_ids(summary: dict[str, Any]) -> set[str]:
    return {document["id"] for document in summary["documents"]}


KINDS = ["sub-questions", "sub-questions at once", "router", "steps"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_outer_response_has_the_inner_attributions(tiny_llm: LocalLLM, kind: str) -> None:
    runs: list[AttributedRun] = []
    postprocessor = AttributionPostprocessor(on_result=runs.append, **EXACT)
    response = composed_by(kind, tiny_llm, postprocessor).query(QUESTION)
    summary = composite(response)
    assert summary["question"] == QUESTION
    assert summary["answer"].strip() == response.response.strip()
    assert document_ids(summary) == ({"ferry"} if kind == "steps" else set(NAMES))
    run = postprocessor.result(response)
    documents = attribution_of(run).documents
    assert [(document.id, document.text) for document in documents] == [
        (earlier.run_id, earlier.text.strip()) for earlier in run.earlier
    ]
    assert [reported.run_id for reported in runs] == [part.run_id for part in (*run.earlier, run)]
    if kind.startswith("sub"):
        *earlier, last = [run.question for run in runs]
        # At once: whichever ends first is reported first.
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
def test_an_asynchronous_composite(
    tiny_llm: LocalLLM, postprocessor: Postprocessor, kind: str
) -> None:
    async def ask() -> Any:
        response = await composed_by(kind, tiny_llm, postprocessor).aquery(QUESTION)
        await postprocessor.aresult(response)
        return response

    composite(asyncio.run(ask()))


def test_an_engine_around_all_of_it(tiny_llm: LocalLLM) -> None:
    plain = composed_by("sub-questions", tiny_llm)
    engine = AttributedQueryEngine(plain, source_nodes="ranked", **EXACT)
    response = engine.query(QUESTION)
    composite(response)
    attribution_of(engine.result(response))
    assert {node.node_id for node in response.source_nodes[:2]} == set(NAMES)  # not the sub-answers


def test_citations_lead_through_the_sub_answers_to_their_nodes(
    smollm2: LocalModel, postprocessor: Postprocessor
) -> None:
    llm = says(
        smollm2,
        "The ferry carries up to 84 passengers.",
        "The lighthouse is 38 metres high.",
        "The lighthouse is 38 metres high. The ferry carries up to 84 passengers.",
    )
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


def test_composites_of_composites(tiny_llm: LocalLLM, postprocessor: Postprocessor) -> None:
    inner = QueryEngineTool.from_defaults(
        composed_by("router", tiny_llm, postprocessor), name="router", description="knows both"
    )
    outer = SubQuestionQueryEngine(
        Asks(["router"]), get_response_synthesizer(llm=tiny_llm), [inner], verbose=False
    )
    summary = summary_of(outer.query(QUESTION), "composite")
    (call,) = summary["calls"]
    assert call["status"] == "composite"
    assert len(call["calls"]) == 2
    assert document_ids(summary) == set(NAMES)


def test_an_answer_that_is_passed_on_is_attributed_as_it_is(
    tiny_llm: LocalLLM, postprocessor: Postprocessor
) -> None:
    _, tool = tools(tiny_llm, postprocessor)
    engine = tool.query_engine
    chat = CondenseQuestionChatEngine.from_defaults(engine, llm=tiny_llm)
    for response in (
        RouterQueryEngine(ChoosesAll(), [tool], llm=tiny_llm).query(QUESTION),
        TransformQueryEngine(engine, IdentityQueryTransform()).query(QUESTION),
        chat.chat(QUESTION),
        chat.chat("And its lamp?"),
    ):
        assert ids_of(response) == {"lighthouse"}
        assert postprocessor.result(response).text.strip() == response.response.strip()
