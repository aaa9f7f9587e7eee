"""Hosted models answer by their protocols, a local one reads, and theirs are asked again."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from chatting import Calling, Chatting
from conftest import QUESTION
from engines import engine_of, index_of, nodes
from llama_index.core.base.llms.types import ChatMessage, CitableBlock, ImageBlock, TextBlock
from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.prompts import PromptTemplate
from llama_index.llms.ollama import Ollama
from llama_index.postprocessor.attribot import AttributedQueryEngine, AttributionPostprocessor
from pydantic import BaseModel
from support.chat_server import Body, chat_server, prompt_of
from support.island import HIGH, LIGHTHOUSE, UNKNOWN, answer_from
from support.summaries import EXACT, attribution_of, checked
from support.tiny_models import byte_level

from attribot_rag.errors import InvalidInput

pytestmark = pytest.mark.enable_socket


def openai(url: str) -> Chatting:
    return Chatting(url=url, model="gpt-4o")


def ollama(url: str) -> Ollama:
    return Ollama(model="llama3.2:1b", base_url=url, context_window=4096, temperature=0.3)


KINDS = {openai: "gpt-4o", ollama: "llama3.2:1b"}
every = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def served() -> Iterator[tuple[str, list[Body]]]:
    with chat_server(answer_from) as server:
        yield server


def reading() -> AttributionPostprocessor:
    return AttributionPostprocessor(reader=byte_level(), **EXACT)


@pytest.mark.parametrize(("kind", "streaming"), [(openai, False), (ollama, False), (ollama, True)])
def test_any_model_answers_and_a_local_one_reads(
    kind: Callable[..., Any], streaming: bool, served: Any
) -> None:
    url, asked = served
    postprocessor = reading()
    response = engine_of(kind(url), postprocessor, streaming=streaming).query(QUESTION)
    text = "".join(response.response_gen) if streaming else response.response
    assert text == HIGH and len(asked) == 1
    attribution = attribution_of(postprocessor.result(response))
    summary = checked(response.metadata["attribution"])
    assert (summary["basis"], summary["answered_by"]) == ("reader", KINDS[kind])
    assert not attribution.not_located
    assert f"read the answer of {KINDS[kind]}" in postprocessor.cited_response(response)


@every
def test_who_answered_is_asked_again_without_a_node(kind: Callable[..., Any], served: Any) -> None:
    url, asked = served
    postprocessor = reading()
    response = engine_of(kind(url), postprocessor).query(QUESTION)
    ids = [node.node_id for node in response.source_nodes]
    postprocessor.result(response)
    assert len(asked) == 1
    second = postprocessor.answer_without(response, ids.index("lighthouse"))
    assert second.response == UNKNOWN and len(asked) == 2
    first, again = ({**body, "messages": 0, "prompt": 0} for body in asked)
    assert first == again
    assert LIGHTHOUSE not in prompt_of(asked[1]) and QUESTION in prompt_of(asked[1])


def test_an_asynchronous_query_and_a_chat(served: Any) -> None:
    url, asked = served
    engine = AttributedQueryEngine(engine_of(openai(url)), reader=byte_level(), **EXACT)
    response = asyncio.run(engine.aquery(QUESTION))
    assert checked(response.metadata["attribution"])["basis"] == "reader"
    postprocessor = reading()
    chat = ContextChatEngine.from_defaults(
        retriever=index_of().as_retriever(), llm=ollama(url), node_postprocessors=[postprocessor]
    )
    chat.chat("Good day!")
    said = chat.chat(QUESTION)
    run = postprocessor.result(said)
    assert attribution_of(run).provenance.answered_by == "llama3.2:1b"
    index = [document.id for document in run.documents].index("lighthouse")
    assert postprocessor.answer_without(said, index).response == UNKNOWN
    assert "Good day!" in prompt_of(asked[-1])


def test_a_search_of_ones_own_with_blocks_that_are_no_text(served: Any) -> None:
    url, asked = served
    postprocessor, llm = reading(), openai(url)
    texts = [node.text for node in nodes()]
    image = ImageBlock(url="https://example.org/a.png")
    message = ChatMessage(
        role="user", blocks=[TextBlock(text="\n\n".join([*texts, QUESTION])), image]
    )
    with postprocessor.retrieved(nodes(), QUESTION) as response:
        llm.chat([message], seed=3)
    assert attribution_of(postprocessor.result(response)).response == HIGH
    assert postprocessor.answer_without(response, 1).response == UNKNOWN
    assert asked[1]["seed"] == 3
    assert [part["type"] for part in asked[1]["messages"][0]["content"]] == ["text", "image_url"]


class Lighthouse(BaseModel):
    """The subject of the answer."""

    sentence: str
    lit: int


@pytest.mark.parametrize("way", ["output_cls", "as_structured_llm", "structured_predict"])
def test_an_answer_by_a_function_call_has_a_sentence_for_each_value(way: str) -> None:
    made = Lighthouse(sentence=HIGH, lit=1844)
    with chat_server("", calls=lambda _: ("Lighthouse", made.model_dump())) as (url, asked):
        postprocessor, llm = reading(), Calling(url=url, model="gpt-4o")
        if way == "structured_predict":
            template = PromptTemplate("{texts}\n{question}")
            texts = "\n".join(node.text for node in nodes())
            with postprocessor.retrieved(nodes(), QUESTION) as response:
                llm.structured_predict(Lighthouse, template, texts=texts, question=QUESTION)
        elif way == "output_cls":
            response = engine_of(llm, postprocessor, output_cls=Lighthouse).query(QUESTION)
        else:
            response = engine_of(llm.as_structured_llm(Lighthouse), postprocessor).query(QUESTION)
        assert asked[0]["tools"][0]["function"]["name"] == "Lighthouse"
        run = postprocessor.result(response)
    assert way == "structured_predict" or response.response == made
    summary = checked(response.metadata["attribution"])
    assert (summary["notes"], summary["offsets"]) == ([], "shown")
    sentences = [sentence["text"] for sentence in summary["sentences"]]
    assert [text for text in sentences if HIGH in text or "1844" in text] == [f'"{HIGH}"', "1844"]
    assert run.text == made.model_dump_json() and not attribution_of(run).not_located


def test_messages_with_citable_blocks_are_read_and_asked_again(served: Any) -> None:
    url, asked = served
    postprocessor, llm = reading(), openai(url)
    blocks = [
        CitableBlock(title=node.node_id, source="", content=[TextBlock(text=node.text)])
        for node in nodes()
    ]
    with postprocessor.retrieved(nodes(), QUESTION) as response:
        llm.chat([ChatMessage(role="user", blocks=[*blocks, TextBlock(text=QUESTION)])])
    assert not attribution_of(postprocessor.result(response)).not_located
    run = postprocessor.result(response)
    (message,) = run.answer.prompt or ()
    assert isinstance(message, ChatMessage) and len(message.blocks) == 3
    postprocessor.answer_without(response, 1)
    assert asked[1]["messages"][0]["content"] == asked[0]["messages"][0]["content"] == QUESTION


def test_what_is_needed_is_named(served: Any) -> None:
    url, _ = served
    response = engine_of(openai(url), AttributionPostprocessor(**EXACT)).query(QUESTION)
    assert (
        "reader="
        in checked(response.metadata["attribution"], "not_attributable")["error"]["message"]
    )
    with pytest.raises((InvalidInput, ValueError), match="one of them"):
        AttributionPostprocessor(reader=byte_level(), language_model=byte_level())
