"""Documents that no retriever gives: stores searched directly, functions, states, inputs."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import pytest
from agents import SearchesFirst
from chains import PROMPT, ByName, Given, joined
from conftest import DOCUMENTS, QUESTION, AsynchronousChat, Chain, Chat, Handler, Making, summary_of
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, AgentState, dynamic_prompt
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.tools import tool
from langchain_core.vectorstores import InMemoryVectorStore
from langgraph.graph import START, StateGraph
from support.summaries import EXACT, located_ids
from typing_extensions import TypedDict

from attribot_rag import VerdictOptions
from attribot_rag.errors import InvalidInput
from langchain_attribot import AttributedRun, AttributionMiddleware, attribute, retrieved

TEXTS = ("The ferry carries 84.", "The mill grinds at noon.", "Gulls nest in the quarry.")


@pytest.fixture(scope="module")
def store() -> InMemoryVectorStore:
    made = InMemoryVectorStore(DeterministicFakeEmbedding(size=4))
    made.add_documents([Document(text, id=text.split()[1]) for text in TEXTS])
    return made


def prompt_of(documents: Sequence[Document], question: str) -> str:
    return f"Answer from the context.\n\n{joined(documents)}\n\nQuestion: {question}"


def in_a_function(store: InMemoryVectorStore, chat: Chat) -> Chain:
    def prompt(question: str) -> str:
        return prompt_of(retrieved(store.similarity_search(question, k=2)), question)

    return RunnableLambda(prompt) | chat


def in_a_coroutine(store: InMemoryVectorStore, chat: Chat) -> Chain:
    async def prompt(question: str) -> str:
        hits = await store.asimilarity_search_with_score(question, k=2)
        return prompt_of([document for document, _ in retrieved(hits)], question)

    answering = RunnableLambda(prompt) | AsynchronousChat(llm=chat.llm, tokenizer=chat.tokenizer)
    return RunnableLambda(lambda question, config: asyncio.run(answering.ainvoke(question, config)))


class State(TypedDict, total=False):
    question: str
    context: str
    message: BaseMessage


def in_a_node(store: InMemoryVectorStore, chat: Chat) -> Chain:
    def search(state: State) -> State:
        hits = [
            {"body": document.page_content, "id": document.id, "rank": rank}
            for rank, document in enumerate(store.similarity_search(state["question"], k=2))
        ]
        return {"context": "\n".join(str(hit["body"]) for hit in retrieved(hits))}

    def answer(state: State) -> State:
        return {"message": chat.invoke(f"{state['context']}\n\n{state['question']}")}

    graph = StateGraph(State).add_sequence([search, answer]).add_edge(START, "search")
    answering = RunnableLambda(lambda question: {"question": question}) | graph.compile()
    return answering | (lambda state: state["message"])


@pytest.mark.parametrize("chain_of", [in_a_function, in_a_coroutine, in_a_node])
def test_a_search_reports_its_documents(
    store: InMemoryVectorStore, tiny_chat: Chat, handler: Handler, chain_of: Any
) -> None:
    chain = chain_of(store, tiny_chat)
    for question in ("Who nests?", "Who grinds?"):
        expected = {document.id for document in store.similarity_search(question, k=2)}
        message = chain.invoke(question, {"callbacks": [handler]})
        assert set(located_ids(summary_of(message))) == expected
    assert handler.num_open == 0


def test_a_script_without_a_chain(store: InMemoryVectorStore, tiny_chat: Chat) -> None:
    with attribute(tiny_chat, **EXACT) as run:
        for question in ("Who nests?", "Who grinds?"):
            documents = retrieved(store.similarity_search(question, k=1))
            tiny_chat.invoke(prompt_of(documents, question))
            assert run.last is not None
            assert [document.id for document in run.last.documents] == [documents[0].id]
        text = retrieved("The tower was built in 1900. It is tall.")
        tiny_chat.invoke(f"{text} When?")
        assert [document.page_content for document in run.last.documents] == [text]
        ByName().invoke("tower")
        message = tiny_chat.invoke("The harbour tower was built in 1900. It has a tower. When?")
    assert located_ids(summary_of(message)) == ["document tower"]
    assert retrieved(["outside of the block"]) == ["outside of the block"]
    with pytest.raises(InvalidInput, match="document"):
        retrieved([{"score": 0.5}])


class Retrieves(AgentMiddleware[Any, Any, Any]):
    """Retrieves into the agent's state, and puts the documents before the question."""

    class State(AgentState[Any], total=False):
        passages: list[Document]

    state_schema = State

    def before_model(self, state: Any, runtime: Any) -> dict[str, Any]:
        return {"passages": ByName().invoke(state["messages"][-1].text)}

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        text = prompt_of(request.state["passages"], request.messages[-1].text)
        return handler(request.override(messages=[HumanMessage(text)]))


@dynamic_prompt
def from_a_retriever(request: Any) -> str:
    return f"Answer from this.\n\n{joined(ByName().invoke(request.messages[-1].text))}"


@dynamic_prompt
def from_a_function(request: Any) -> str:
    question = request.messages[-1].text
    text = f"The harbour {question} was built in 1900. It has a tower."
    documents = retrieved([Document(text, id=f"document {question}")])
    return f"Answer from this.\n\n{joined(documents)}"


@pytest.mark.parametrize(
    ("other", "is_first"),
    [
        (Retrieves(), True),
        (from_a_function, False),
        (from_a_retriever, True),
    ],
)
def test_the_middleware_sees_documents_of_other_middlewares(
    tiny_chat: Chat, other: AgentMiddleware[Any, Any, Any], is_first: bool
) -> None:
    own = AttributionMiddleware(tiny_chat, **EXACT)
    agent = create_agent(tiny_chat, [], middleware=[own, other] if is_first else [other, own])
    for name in ("one", "two"):
        message = agent.invoke({"messages": [("human", name)]})["messages"][-1]
        assert located_ids(summary_of(message)) == [f"document {name}"]
    own.close()


@dynamic_prompt
def from_a_chain(request: Any) -> str:
    passages = (ByName() | joined).invoke(request.messages[-1].text)
    return f"Answer from this.\n\n{passages}"


@tool
def search(query: str) -> str:
    """Finds harbours."""
    return str((ByName() | joined).invoke(query))


@pytest.mark.parametrize("how", ["handler", "middleware"])
@pytest.mark.parametrize("place", ["middleware", "tool"])
def test_documents_of_a_chain_within_count(
    tiny_chat: Chat, handler: Handler, how: str, place: str
) -> None:
    own = AttributionMiddleware(tiny_chat, **EXACT)
    around: list[Any] = [own] if how == "middleware" else []
    config: Any = {"callbacks": [] if around else [handler]}
    if place == "tool":
        agent = create_agent(SearchesFirst(llm=tiny_chat), [search], middleware=around)
    else:
        agent = create_agent(tiny_chat, [], middleware=[*around, from_a_chain])
    for name in ("one", "two"):
        message = agent.invoke({"messages": [("human", name)]}, config)["messages"][-1]
        assert located_ids(summary_of(message)) == [f"document {name}"]
    own.close()


def test_a_search_and_an_answer_that_are_invoked_one_after_the_other(
    store: InMemoryVectorStore,
    tiny_chat: Chat,
    making: Making,
    caplog: pytest.LogCaptureFixture,
) -> None:
    search = store.as_retriever(search_kwargs={"k": 1}) | joined
    answering = PROMPT | tiny_chat

    def ask(config: Any = None) -> BaseMessage:
        context = search.invoke("Who nests?", config)
        return answering.invoke({"context": context, "question": "Who nests?"}, config)

    (document,) = store.similarity_search("Who nests?", k=1)
    with attribute(tiny_chat, **EXACT):
        assert located_ids(summary_of(ask())) == [document.id]
    message = ask({"callbacks": [making(loose=True)]})
    assert located_ids(summary_of(message)) == [document.id]
    named = {"callbacks": [making()], "metadata": {"attribot_documents": [document]}}
    assert located_ids(summary_of(ask(named))) == [document.id]
    caplog.clear()
    assert "attribution" not in ask({"callbacks": [making()]}).response_metadata
    for mend in ("another invoke()", "attribot_documents", "attribute(llm)", "loose=True"):
        assert mend in caplog.text


@pytest.mark.parametrize("form", ["as they are", "as texts", "with a rank", "named"])
def test_what_a_retriever_found_and_the_caller_passes_on_is_one_document(
    store: InMemoryVectorStore, tiny_chat: Chat, handler: Handler, form: str
) -> None:
    retriever = store.as_retriever(search_kwargs={"k": 2})
    config: Any = {"callbacks": [handler]}

    def ask(question: str) -> BaseMessage:
        found = retriever.invoke(question)
        again = {
            "as they are": found,
            "as texts": [document.page_content for document in found],
            "with a rank": [
                document.model_copy(update={"metadata": {"rank": rank}})
                for rank, document in enumerate(found)
            ],
        }
        retrieved(again.get(form, []))
        return tiny_chat.invoke(prompt_of(found, question))

    hits = store.similarity_search("Who nests?", k=2)
    expected = {document.id for document in hits}
    if form == "named":
        config["metadata"] = {"attribot_documents": [hit.page_content for hit in hits]}
    ids = located_ids(summary_of(RunnableLambda(ask).invoke("Who nests?", config)))
    assert set(ids) == expected and len(ids) == 2


def test_an_asynchronous_block(store: InMemoryVectorStore, tiny_chat: Chat) -> None:
    chat = AsynchronousChat(llm=tiny_chat.llm, tokenizer=tiny_chat.tokenizer)
    told: list[str] = []

    def on_result(run: AttributedRun) -> None:
        told.append(run.run_id)

    async def ask() -> AttributedRun:
        async with attribute(tiny_chat, on_result=on_result, **EXACT) as run:
            documents = retrieved(await store.asimilarity_search("Who nests?", k=1))
            message = await chat.ainvoke(prompt_of(documents, "Who nests?"))
            assert located_ids(summary_of(message)) == [documents[0].id]
            assert run.last is not None
            second = run.answer_without(run.last.run_id, 0, max_new_tokens=2)
            assert second.documents == (0,)
        await chat.ainvoke(prompt_of(documents, "Who nests?"))
        assert len(run.results) == 1
        return run.last

    assert told == [asyncio.run(ask()).run_id]


def lines(caplog: pytest.LogCaptureFixture, level: int = logging.WARNING) -> list[str]:
    loggers = ("langchain_attribot", "attribot_rag")
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= level and record.name.startswith(loggers)
    ]


def test_each_chain_is_named_once_and_in_the_same_words(
    tiny_chat: Chat, handler: Handler, caplog: pytest.LogCaptureFixture
) -> None:
    blind = RunnableLambda(lambda question: f"Some text. {question}") | tiny_chat
    chains = [blind, blind.with_config(run_name="second"), tiny_chat]
    for chain in chains * 2:
        message = chain.invoke(QUESTION, {"callbacks": [handler]})
        assert "attribution" not in message.response_metadata
    agents = [
        create_agent(tiny_chat, [], middleware=[AttributionMiddleware(tiny_chat)], name=name)
        for name in ("first", "second")
    ]
    for agent in agents * 2:
        agent.invoke({"messages": [("human", QUESTION)]})
    warnings = lines(caplog)
    assert len(warnings) == len({*warnings}) == len(chains) + len(agents)
    (words,) = {line.split(": ", 1)[1] for line in warnings}
    assert "from langchain_attribot import retrieved" in words
    assert "attribot_documents" in words


def test_a_call_without_the_documents_in_its_prompt_is_no_warning(
    tiny_chat: Chat, handler: Handler, caplog: pytest.LogCaptureFixture
) -> None:

    def answered(question: str, *, with_documents: bool) -> BaseMessage:
        documents = ByName().invoke(question)
        tiny_chat.invoke(f"Say this in other words: {question}")
        return tiny_chat.invoke(prompt_of(documents if with_documents else [], question))

    good = RunnableLambda(lambda question: answered(question, with_documents=True))
    bad = RunnableLambda(lambda question: answered(question, with_documents=False))
    with caplog.at_level(logging.INFO):
        for chain, name, number in ((good, "good", 0), (bad, "bad", 1)):
            for _ in range(2):
                chain.with_config(run_name=name).invoke("one", {"callbacks": [handler]})
                assert len(lines(caplog)) == number
    assert "'bad'" in lines(caplog)[0]
    assert any("no attribution" in line for line in lines(caplog, logging.INFO))


def test_metadata_in_the_prompt_is_noted(tiny_chat: Chat, making: Making) -> None:
    handler = making(verdicts=VerdictOptions())
    documents = [Document(TEXTS[0], metadata={"author": "Alaric Penhow", "page": 3, "lang": "en"})]
    for template, reads_it in (("{text}\n\nWho?", False), ("{text} ({value})\n\nWho?", True)):

        def prompt(hits: list[Document], template: str = template) -> str:
            return template.format(text=hits[0].page_content, value=hits[0].metadata["author"])

        chain = Given(documents=documents) | prompt | tiny_chat
        summary = summary_of(chain.invoke("?", {"callbacks": [handler]}))
        assert summary["sentences"][0]["verdict"] in ("unsupported", "open")  # of random weights
        assert any("metadata" in note for note in summary["notes"]) == reads_it


def test_documents_may_be_passed_in(tiny_chat: Chat, handler: Handler) -> None:
    chain = RunnablePassthrough.assign(context=lambda state: joined(state["context"])) | (
        PROMPT | tiny_chat
    )
    odd = DOCUMENTS[0].model_copy(update={"metadata": {1: "one", "two": 2, None: {3, 4}}})
    state = {"context": [odd, DOCUMENTS[1]], "question": QUESTION}
    summary = summary_of(chain.invoke(state, {"callbacks": [handler]}))
    assert len(summary["documents"]) == 2


def test_metadata_names_documents_of_a_formatted_prompt(tiny_chat: Chat, handler: Handler) -> None:
    first = {"page_content": DOCUMENTS[0].page_content, "id": "a"}
    metadata = {"attribot_documents": [first, DOCUMENTS[1]]}
    config: Any = {"callbacks": [handler], "metadata": metadata}
    message = tiny_chat.invoke(f"{joined(DOCUMENTS)}\n\n{QUESTION}", config)
    assert len(located_ids(summary_of(message))) == 2
