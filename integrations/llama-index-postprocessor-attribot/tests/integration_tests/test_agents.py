"""The final answers of agents and workflows, made of what their tools found."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from chatting import Calling
from conftest import QUESTION, ids_of, summary_of
from engines import engine_of, index_of
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.tools import FunctionTool, QueryEngineTool, RetrieverTool, ToolMetadata
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step
from llama_index.llms.ollama import Ollama
from llama_index.postprocessor.attribot import AttributionPostprocessor
from scripted import says
from support.chat_server import Body, chat_server, prompt_of
from support.island import HIGH, LIGHTHOUSE, UNKNOWN, answer_from
from support.summaries import EXACT, attribution_of
from support.tiny_models import byte_level

from attribot_rag import LocalModel
from attribot_rag.runtime import AttributedRun

pytestmark = [
    pytest.mark.enable_socket,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # LlamaIndex's agents give several
]
BOTH = {"ferry", "lighthouse"}
SEARCHES = (
    "Thought: I need to look.\nAction: island\n"
    f'Action Input: {{"query": "{QUESTION}", "input": "{QUESTION}"}}'
)
ANSWERS = f"Thought: I can answer without using any more tools.\nAnswer: {HIGH}"


def says_or_searches(prompt: str) -> str:
    """What a hosted model says: to an agent of ReAct in its format."""
    if "Action Input" not in prompt:
        return answer_from(prompt)
    return ANSWERS if "Observation:" in prompt.rpartition(QUESTION)[2] else SEARCHES


@pytest.fixture
def served() -> Iterator[tuple[str, list[Body]]]:
    with chat_server(says_or_searches) as server:
        yield server


def openai(url: str) -> Any:
    return Calling(url=url, model="gpt-4o")


def ollama(url: str) -> Any:
    return Ollama(model="llama3.2:1b", base_url=url, context_window=4096)


def function_tool(postprocessor: AttributionPostprocessor, *, passes: bool = True) -> FunctionTool:
    retriever = index_of().as_retriever()

    def island(query: str, input: str = "") -> str:
        """Knows the island."""
        nodes = retriever.retrieve(query)
        nodes = postprocessor.postprocess_nodes(nodes) if passes else nodes
        return "\n".join(node.text for node in nodes)

    return FunctionTool.from_defaults(island)


def retriever_tool(postprocessor: AttributionPostprocessor) -> RetrieverTool:
    metadata = ToolMetadata(name="island", description="knows the island")
    retriever = index_of().as_retriever()
    return RetrieverTool(retriever, metadata, node_postprocessors=[postprocessor])


def agent_of(kind: str, llm: Any, tool: Any, *, streaming: bool) -> Any:
    made = ReActAgent if kind == "react" else FunctionAgent
    agent = made(name="islander", tools=[tool], llm=llm, streaming=streaming)
    return AgentWorkflow(agents=[agent]) if kind == "workflow" else agent


def asked(agent: Any, postprocessor: AttributionPostprocessor, **options: Any) -> Any:
    """The agent's output, once it is attributed."""

    async def ask() -> Any:
        output = await agent.run(QUESTION, **options)
        summary_of(output, "pending")
        await postprocessor.aresult(output)
        return output

    return asyncio.run(ask())


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("kind", ["function", "react", "workflow"])
@pytest.mark.parametrize(("hosted", "made"), [(openai, retriever_tool), (ollama, function_tool)])
def test_the_final_answer_is_attributed_to_what_the_tools_found(
    kind: str, streaming: bool, hosted: Any, made: Any, served: Any
) -> None:
    runs: list[AttributedRun] = []
    url, bodies = served
    postprocessor = AttributionPostprocessor(reader=byte_level(), on_result=runs.append, **EXACT)
    agent = agent_of(kind, hosted(url), made(postprocessor), streaming=streaming)
    output = asked(agent, postprocessor)
    assert str(output) == HIGH and len(bodies) == 2
    summary = summary_of(output)
    assert ids_of(output) == BOTH and summary["basis"] == "reader"
    assert (summary["question"], summary["offsets"]) == (QUESTION, "shown")
    assert json.loads(output.model_dump_json())["_data"]["metadata"]["attribution"] == summary
    (run,) = runs
    assert run is postprocessor.result(output) is postprocessor.results.last
    assert HIGH in postprocessor.cited_response(output, remarks=False)
    index = [document.id for document in run.documents].index("lighthouse")
    second = postprocessor.answer_without(output, index).response
    assert second == (ANSWERS if kind == "react" else UNKNOWN)
    assert LIGHTHOUSE not in prompt_of(bodies[2])


@pytest.mark.parametrize("streaming", [False, True])
def test_an_answer_made_of_a_query_engine_s_leads_on_to_its_nodes(
    streaming: bool, served: Any
) -> None:
    postprocessor = AttributionPostprocessor(reader=byte_level(), **EXACT)
    llm = openai(served[0])
    engine = engine_of(llm, postprocessor)
    tool = QueryEngineTool.from_defaults(engine, name="island", description="knows the island")

    async def ask() -> Any:
        agent = FunctionAgent(tools=[tool], llm=llm, streaming=streaming)
        output = await agent.run(QUESTION)
        await postprocessor.aresult(output)
        return output

    output = asyncio.run(ask())
    (call,) = summary_of(output, "composite")["calls"]
    assert {document["id"] for document in call["documents"]} == BOTH
    assert ids_of_composite(output) == BOTH


def ids_of_composite(output: Any) -> set[str]:
    return {document["id"] for document in output.metadata["attribution"]["documents"]}


def test_an_agent_whose_documents_nobody_saw_is_told_once(
    served: Any, caplog: pytest.LogCaptureFixture
) -> None:
    postprocessor = AttributionPostprocessor(reader="words")
    tool = function_tool(postprocessor, passes=False)
    agent = FunctionAgent(name="unseen", tools=[tool], llm=openai(served[0]), streaming=False)

    async def ask() -> Any:
        return await agent.run(QUESTION)

    for _ in range(2):
        assert not hasattr(asyncio.run(ask()), "metadata")
    (line,) = [line for line in caplog.messages if "no attribution" in line]
    assert "the agent 'unseen' answered: no documents were seen" in line


@pytest.mark.parametrize("told", [False, True])
def test_within_a_block_every_search_counts_and_the_same_text_once(told: bool, served: Any) -> None:
    postprocessor = AttributionPostprocessor(reader=byte_level(), **EXACT)
    agent = agent_of(
        "function", openai(served[0]), function_tool(postprocessor, passes=False), streaming=True
    )
    documents = [node.text for node in index_of().as_retriever().retrieve(QUESTION)] if told else ()

    async def ask() -> Any:
        with postprocessor.retrieved(documents) as response:
            output = await agent.run(QUESTION)
        for answered in (response, output):
            assert (await postprocessor.aresult(answered)).text == HIGH
        return response

    response = asyncio.run(ask())
    assert response.response == HIGH and len(summary_of(response)["documents"]) == 2


def test_an_engine_within_a_block_has_its_attribution(served: Any) -> None:
    postprocessor = AttributionPostprocessor(reader=byte_level(), **EXACT)
    with postprocessor.retrieved() as response:
        answer = engine_of(openai(served[0]), postprocessor).query(QUESTION)
    assert ids_of(answer) == ids_of(response) == BOTH


def test_an_agent_remembers_what_an_earlier_turn_found(served: Any) -> None:
    url, _ = served
    postprocessor = AttributionPostprocessor(reader=byte_level(), **EXACT)
    agent = agent_of("function", openai(url), retriever_tool(postprocessor), streaming=False)

    async def ask() -> list[Any]:
        memory, outputs = ChatMemoryBuffer.from_defaults(llm=agent.llm), []
        outputs.append(await agent.run(QUESTION, memory=memory))
        agent.tools = []
        outputs.append(await agent.run("How high, again?", memory=memory))
        outputs.append(await agent.run("Good day!"))
        for output in outputs[:2]:
            await postprocessor.aresult(output)
        return outputs

    first, again, other = asyncio.run(ask())
    assert ids_of(first) == ids_of(again) == BOTH
    assert getattr(other, "metadata", None) is None


def test_a_local_agent_s_answer_has_a_cause(smollm2: LocalModel) -> None:
    postprocessor = AttributionPostprocessor()
    for streaming in (False, True):
        llm = says(smollm2, SEARCHES, ANSWERS)
        agent = agent_of("react", llm, function_tool(postprocessor), streaming=streaming)
        output = asked(agent, postprocessor)
        summary = summary_of(output)
        assert (summary["basis"], summary["retokenized"]) == ("cause", False)
        told = [sentence for sentence in summary["sentences"] if sentence["verdict"] == "grounded"]
        assert [sentence["text"].strip() for sentence in told] == [HIGH]
        assert postprocessor.cited_response(output) == f"{HIGH} [1]"
        text, *citations = postprocessor.cited_message(output).blocks
        assert text.text == HIGH and [each.source for each in citations] == ["lighthouse"]  # type: ignore[union-attr]
        assert citations[0].additional_location_info["start"] == 0  # type: ignore[union-attr]


def test_a_workflow_that_asks_a_model_itself(served: Any) -> None:
    runs: list[AttributedRun] = []
    postprocessor = AttributionPostprocessor(reader=byte_level(), on_result=runs.append, **EXACT)
    retriever, llm = index_of().as_retriever(), openai(served[0])

    class Rag(Workflow):
        @step
        async def answer(self, event: StartEvent) -> StopEvent:
            nodes = postprocessor.postprocess_nodes(await retriever.aretrieve(QUESTION))
            context = "\n".join(node.text for node in nodes)
            messages = [ChatMessage(f"{context}\n{QUESTION}")]
            return StopEvent(result=str((await llm.achat(messages)).message.content))

    async def ask() -> Any:
        answer = await Rag().run()
        await postprocessor.results.wait_async(next(iter(postprocessor.results)))
        return answer

    assert asyncio.run(ask()) == HIGH
    assert [attribution_of(run).response for run in runs] == [HIGH]
