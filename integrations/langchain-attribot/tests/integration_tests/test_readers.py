"""Hosted models answer by their protocols, a local one reads, and theirs are asked again."""

import logging
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from chains import Given, joined, rag
from conftest import DOCUMENTS, QUESTION, Making
from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langchain_ollama import ChatOllama
from langchain_openai import ChatOpenAI, OpenAI
from pydantic import SecretStr
from support.chat_server import Body, chat_server, prompt_of
from support.island import HIGH, LIGHTHOUSE, UNKNOWN, answer_from
from support.summaries import EXACT, attribution_of, checked
from support.tiny_models import byte_level

from attribot_rag.errors import InvalidInput
from langchain_attribot import (
    AttributionCallbackHandler,
    AttributionMiddleware,
    with_attribution,
)

pytestmark = pytest.mark.enable_socket
KEY = SecretStr("none")


def openai(url: str, **options: Any) -> ChatOpenAI:
    return ChatOpenAI(model="gpt-4o", base_url=f"{url}/v1", api_key=KEY, **options)


def completions(url: str, **options: Any) -> OpenAI:
    return OpenAI(model="gpt-3.5-turbo-instruct", base_url=f"{url}/v1", api_key=KEY, **options)


def anthropic(url: str, **options: Any) -> ChatAnthropic:
    return ChatAnthropic(model_name="claude-x", base_url=url, api_key=KEY, **options)


def ollama(url: str, **options: Any) -> ChatOllama:
    return ChatOllama(model="llama3.2:1b", base_url=url, **options)


KINDS = {
    openai: "gpt-4o",
    completions: "gpt-3.5-turbo-instruct",
    anthropic: "claude-x",
    ollama: "llama3.2:1b",
}
every = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def served() -> Iterator[tuple[str, list[Body]]]:
    with chat_server(answer_from) as server:
        yield server


def text_of(output: Any) -> str:
    return output if isinstance(output, str) else str(output.text)


@every
@pytest.mark.parametrize("streamed", [False, True])
def test_any_model_answers_and_a_local_one_reads(
    kind: Callable[..., Any], streamed: bool, served: Any, making: Making
) -> None:
    url, asked = served
    handler = making(None, reader=byte_level())
    chain = rag(Given(documents=DOCUMENTS), kind(url))
    if streamed:
        pieces = chain.stream(QUESTION, {"callbacks": [handler]})
        assert "".join(map(text_of, pieces)) == HIGH
    else:
        assert text_of(chain.invoke(QUESTION, {"callbacks": [handler]})) == HIGH
    attribution = attribution_of(handler.last)
    assert handler.last is not None
    summary = checked(handler.last.summary)
    assert (summary["basis"], summary["answered_by"]) == ("reader", KINDS[kind])
    assert not attribution.not_located and attribution.response == HIGH
    assert len(asked) == 1


@every
def test_who_answered_is_asked_again_without_a_document(
    kind: Callable[..., Any], served: Any
) -> None:
    url, asked = served
    chain = with_attribution(
        rag(Given(documents=DOCUMENTS), kind(url, temperature=0.3)), reader=byte_level(), **EXACT
    )
    result = chain.invoke(QUESTION)
    assert result["attribution"]["basis"] == "reader" and text_of(result["answer"]) == HIGH
    run_id = result["attribution"]["run_id"]
    assert len(asked) == 1
    second = chain.handler.answer_without(run_id, 1)
    assert second.response == UNKNOWN and len(asked) == 2
    assert chain.handler.answer_without(run_id, 0).response == HIGH
    first, again = ({**body, "messages": 0, "prompt": 0, "stream": 0} for body in asked[:2])
    assert first == again
    assert LIGHTHOUSE not in prompt_of(asked[1]) and QUESTION in prompt_of(asked[1])
    assert len(chain.handler.results) == 1  # of the application's own calls
    chain.handler.close()


def test_what_was_bound_to_the_call_is_bound_to_the_second_one(served: Any, making: Making) -> None:
    url, asked = served
    chat = openai(url)
    handler = making(chat, reader=byte_level())
    chain = rag(Given(documents=DOCUMENTS), chat.bind(seed=11, temperature=0.9, stop=["\n"]))
    message = chain.invoke(QUESTION, {"callbacks": [handler]})
    run_id = message.response_metadata["attribution"]["run_id"]
    handler.answer_without(run_id, 0)
    assert asked[0]["seed"] == 11 and asked[0]["stop"] == ["\n"]
    assert {**asked[0], "messages": 0} == {**asked[1], "messages": 0}


def test_parts_of_a_message_that_are_no_text_are_sent_again(served: Any, making: Making) -> None:
    url, asked = served
    chat = openai(url)
    handler = making(chat, reader=byte_level())
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}

    def ask(documents: list[Document]) -> Any:
        parts = [{"type": "text", "text": joined(documents)}, image, QUESTION]
        return chat.invoke([SystemMessage("Be brief."), HumanMessage(parts)])

    chain = Given(documents=DOCUMENTS) | RunnableLambda(ask)
    chain.invoke(QUESTION, {"callbacks": [handler]})
    assert handler.last is not None
    assert not attribution_of(handler.last).not_located
    assert handler.answer_without(handler.last.run_id, 1).response == UNKNOWN
    content = asked[1]["messages"][1]["content"]
    assert [content[1]["type"], content[2]] == ["image_url", QUESTION]
    assert LIGHTHOUSE not in content[0]["text"]


def block_of(document: Document, form: str) -> dict[str, Any]:
    """A document as Anthropic's messages have it."""
    text = {"type": "text", "text": document.page_content}
    if form == "search_result":
        return {"type": form, "source": "https://example.org", "title": "a", "content": [text]}
    source = {"type": "text", "media_type": "text/plain", "data": document.page_content}
    return {"type": "document", "title": "a", "source": source}


@pytest.mark.parametrize("form", ["search_result", "document", "tool_result"])
@pytest.mark.parametrize("attributing", ["handler", "middleware"])
def test_blocks_that_hold_documents_are_read_and_sent_again(
    form: str, attributing: str, served: Any, making: Making
) -> None:
    url, asked = served
    chat = anthropic(url)
    blocks = [block_of(document, form) for document in DOCUMENTS]
    messages: list[Any] = [HumanMessage([*blocks, {"type": "text", "text": QUESTION}])]
    if form == "tool_result":
        call = {"name": "search", "args": {}, "id": "one"}
        found = [block_of(document, "search_result") for document in DOCUMENTS]
        messages = [
            HumanMessage(QUESTION),
            AIMessage("", tool_calls=[call]),
            ToolMessage(found, tool_call_id="one"),
        ]
    config: Any = {"metadata": {"attribot_documents": DOCUMENTS}}
    if attributing == "handler":
        handler: Any = making(chat, reader=byte_level())
        answer = chat.invoke(messages, config | {"callbacks": [handler]})
    else:
        handler = AttributionMiddleware(reader=byte_level(), **EXACT)
        answer = create_agent(chat, [], middleware=[handler]).invoke(
            {"messages": messages}, config
        )["messages"][-1]
    summary = checked(answer.response_metadata["attribution"])
    assert answer.text == HIGH and all(one["located"] for one in summary["documents"])
    assert handler.answer_without(summary["run_id"], 1).response == UNKNOWN
    first, again = (body["messages"] for body in asked)
    assert LIGHTHOUSE not in str(again)
    assert str(first).replace(LIGHTHOUSE, "") == str(again)
    handler.close()


@tool(response_format="content_and_artifact")
def search(query: str) -> Any:
    """Search the island's guide."""
    return joined(DOCUMENTS), list(DOCUMENTS)


@pytest.mark.parametrize("kind", [openai, anthropic, ollama])
@pytest.mark.parametrize("how", ["handler", "middleware"])
def test_an_agents_answer_is_read(kind: Callable[..., Any], how: str, served: Any) -> None:
    url, asked = served
    chat = kind(url)
    attributing: Any
    if how == "handler":
        attributing = AttributionCallbackHandler(chat, reader=byte_level(), **EXACT)
        agent = create_agent(chat, [search])
        config = {"callbacks": [attributing]}
    else:
        attributing = AttributionMiddleware(reader=byte_level(), **EXACT)
        agent = create_agent(chat, [search], middleware=[attributing])
        config = {}
    result = agent.invoke({"messages": [("user", QUESTION)]}, config)
    message = result["messages"][-1]
    summary = checked(message.response_metadata["attribution"])
    assert (summary["basis"], summary["answered_by"]) == ("reader", KINDS[kind])
    assert message.text == HIGH and len(asked) == 2
    second = attributing.answer_without(summary["run_id"], 1)
    assert second.response == UNKNOWN and len(asked) == 3
    assert asked[2]["tools"] == asked[1]["tools"]
    attributing.close()


@pytest.mark.parametrize("kind", [openai, anthropic, ollama])
@pytest.mark.parametrize("streamed", [False, True])
def test_citations_are_shown_and_runs_are_pickled_whoever_answered(
    kind: Callable[..., Any], served: Any, making: Making, *, streamed: bool
) -> None:
    url, _ = served
    chain, config = rag(Given(documents=DOCUMENTS), kind(url)), {}
    plain = chain.invoke(QUESTION)
    handler = making(None, reader=byte_level(), citations=True)
    config["callbacks"] = [handler]
    message: Any = chain.invoke(QUESTION, config)
    if streamed:
        message = sum(chain.stream(QUESTION, config), AIMessageChunk(""))
    summary = message.response_metadata["attribution"]
    summary["sentences"] = [{"start": 4, "end": 14, "source_ids": [2], "documents": [1]}]
    (block,) = [block for block in message.content_blocks if block["type"] == "text"]
    (citation,) = block["annotations"]
    assert block["text"][citation["start_index"] : citation["end_index"]] == "lighthouse"
    assert citation["title"] == "lighthouse.md"
    assert message.content == plain.content or streamed
    assert not plain.content_blocks[0].get("annotations")
    run = handler.last
    assert run is not None and len(repr(run)) < 200
    assert pickle.loads(pickle.dumps(run)).summary == run.summary


def test_a_model_that_was_not_passed_or_is_one_of_several_alike(
    served: Any, making: Making
) -> None:
    url, _ = served
    for chats, why in (
        (None, "none of the models"),
        ([openai(url), openai(url)], "one of several"),
    ):
        handler = making(chats, reader=byte_level())
        rag(Given(documents=DOCUMENTS), openai(url)).invoke(QUESTION, {"callbacks": [handler]})
        assert handler.last is not None
        with pytest.raises(InvalidInput, match=rf"{why}.* reader="):
            handler.answer_without(handler.last.run_id, 1)
    handler = making([ollama(url), openai(url)], reader=byte_level())
    rag(Given(documents=DOCUMENTS), openai(url)).invoke(QUESTION, {"callbacks": [handler]})
    assert handler.last is not None
    assert handler.answer_without(handler.last.run_id, 1).response == UNKNOWN


def test_what_is_needed_is_named_where_no_reader_is_given(
    caplog: pytest.LogCaptureFixture, served: Any
) -> None:
    url, _ = served
    with pytest.raises(InvalidInput, match="reader="):
        AttributionCallbackHandler(openai(url))
    with pytest.raises(InvalidInput, match="reader="):
        with_attribution(ChatPromptTemplate.from_template("{q}") | openai(url))
    with pytest.raises(InvalidInput, match="one of them"):
        AttributionCallbackHandler(reader=byte_level(), language_model=byte_level())
    agent = create_agent(openai(url), [search], middleware=[AttributionMiddleware()])
    with caplog.at_level(logging.WARNING):
        agent.invoke({"messages": [("user", QUESTION)]})
    assert "reader=" in caplog.text
