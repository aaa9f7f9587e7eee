"""Documents that LangChain shows nobody: stores that are searched directly, functions, states."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from chains import ByName, Given, joined
from conftest import QUESTION, chat_of
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, AgentState, dynamic_prompt
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.outputs import ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.tracers.base import BaseTracer
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_huggingface import ChatHuggingFace
from langgraph.graph import END, START, StateGraph
from support.patience import wait_until
from typing_extensions import TypedDict

from attribot_rag import LanguageModel
from attribot_rag.errors import InvalidInput
from langchain_attribot import (
    AttributionCallbackHandler,
    AttributionMiddleware,
    attribute,
    retrieved,
)

EXACT: dict[str, Any] = {"method": "leave_one_out", "verdicts": None}
TEXTS = ("The ferry carries 84.", "The mill grinds at noon.", "Gulls nest in the quarry.")


@pytest.fixture(scope="module")
def store() -> InMemoryVectorStore:
    made = InMemoryVectorStore(DeterministicFakeEmbedding(size=4))
    made.add_documents([Document(text, id=text.split()[1]) for text in TEXTS])
    return made


@pytest.fixture
def handler(tiny_chat: ChatHuggingFace) -> Any:
    made = AttributionCallbackHandler(tiny_chat, **EXACT)
    yield made
    made.close()


def prompt_of(documents: Sequence[Document], question: str) -> str:
    return f"Answer from the context.\n\n{joined(documents)}\n\nQuestion: {question}"


def in_a_function(store: InMemoryVectorStore, chat: ChatHuggingFace) -> Runnable[Any, Any]:
    def prompt(question: str) -> str:
        return prompt_of(retrieved(store.similarity_search(question, k=2)), question)

    return RunnableLambda(prompt) | chat


def in_a_coroutine(store: InMemoryVectorStore, chat: ChatHuggingFace) -> Runnable[Any, Any]:
    async def prompt(question: str) -> str:
        found = await store.asimilarity_search_with_score(question, k=2)
        return prompt_of([document for document, _ in retrieved(found)], question)

    class InThreads(ChatHuggingFace):
        async def _agenerate(self, *arguments: Any, **named: Any) -> ChatResult:
            return await asyncio.to_thread(self._generate, *arguments, **named)

    asked = RunnableLambda(prompt) | InThreads(llm=chat.llm, tokenizer=chat.tokenizer)
    return RunnableLambda(lambda question, config: asyncio.run(asked.ainvoke(question, config)))


def in_a_node(store: InMemoryVectorStore, chat: ChatHuggingFace) -> Runnable[Any, Any]:
    class State(TypedDict, total=False):
        question: str
        context: str
        message: BaseMessage

    def search(state: State) -> State:
        hits = [
            {"body": document.page_content, "id": document.id, "rank": rank}
            for rank, document in enumerate(store.similarity_search(state["question"], k=2))
        ]
        return {"context": "\n".join(str(hit["body"]) for hit in retrieved(hits))}

    def answer(state: State) -> State:
        return {"message": chat.invoke(f"{state['context']}\n\n{state['question']}")}

    graph = StateGraph(State)
    graph.add_node("search", search)
    graph.add_node("answer", answer)
    for edge in ((START, "search"), ("search", "answer"), ("answer", END)):
        graph.add_edge(*edge)
    asked = RunnableLambda(lambda question: {"question": question}) | graph.compile()
    return asked | (lambda state: state["message"])


@pytest.mark.parametrize("chain_of", [in_a_function, in_a_coroutine, in_a_node])
def test_a_search_says_what_it_found(
    store: InMemoryVectorStore,
    tiny_chat: ChatHuggingFace,
    handler: AttributionCallbackHandler,
    chain_of: Callable[..., Runnable[Any, Any]],
) -> None:
    chain = chain_of(store, tiny_chat)
    for question in ("Who nests?", "Who grinds?"):
        expected = {document.id for document in store.similarity_search(question, k=2)}
        message = chain.invoke(question, {"callbacks": [handler]})
        summary = message.response_metadata["attribution"]
        assert {document["id"] for document in summary["documents"]} == expected
        assert all(document["located"] for document in summary["documents"])
    assert handler.num_open == 0


def test_traces_show_what_was_found(store: InMemoryVectorStore, tiny_chat: ChatHuggingFace) -> None:
    class Seen(BaseTracer):
        def _persist_run(self, run: Any) -> None:
            self.root = run

    tracer = Seen()
    in_a_function(store, tiny_chat).invoke("Who nests?", {"callbacks": [tracer]})
    (function, *_) = tracer.root.child_runs
    (search,) = function.child_runs
    assert search.run_type == "retriever"
    assert len(search.outputs["documents"]) == 2


def test_a_script_without_a_chain(store: InMemoryVectorStore, tiny_chat: ChatHuggingFace) -> None:
    with attribute(tiny_chat, **EXACT) as run:
        for question in ("Who nests?", "Who grinds?"):
            documents = retrieved(store.similarity_search(question, k=1))
            tiny_chat.invoke(prompt_of(documents, question))
            assert run.last is not None
            assert [document.id for document in run.last.documents] == [documents[0].id]
        ByName().invoke("tower")
        message = tiny_chat.invoke("The harbour tower was built in 1900. It has a tower. When?")
    assert message.response_metadata["attribution"]["documents"][0]["id"] == "document tower"
    assert retrieved(["outside of the block"]) == ["outside of the block"]


def test_what_no_text_can_be_read_from_is_named() -> None:
    for hits in ([{"score": 0.5}], [object()], [3]):
        with pytest.raises(InvalidInput, match="document"):
            retrieved(hits)


def test_serialized_documents_of_a_function_are_seen(
    store: InMemoryVectorStore, tiny_chat: ChatHuggingFace, handler: AttributionCallbackHandler
) -> None:
    def search(question: str) -> dict[str, Any]:
        found = store.similarity_search(question, k=2)
        return {
            "hits": [document.model_dump(exclude={"type"}) for document in found],
            "question": question,
        }

    prompt = ChatPromptTemplate.from_template("{text}\n\n{question}")
    text = RunnableLambda(
        lambda found: {"text": joined([Document(**hit) for hit in found["hits"]]), **found}
    )
    message = (RunnableLambda(search) | text | prompt | tiny_chat).invoke(
        "Who nests?", {"callbacks": [handler]}
    )
    assert len(message.response_metadata["attribution"]["documents"]) == 2


class Retrieves(AgentMiddleware[Any, Any, Any]):
    """Retrieves into the agent's state; what it found is put before the question."""

    class State(AgentState[Any], total=False):
        passages: list[Document]

    state_schema = State

    def before_model(self, state: Any, runtime: Any) -> dict[str, Any]:
        return {"passages": ByName().invoke(state["messages"][-1].text)}

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        text = prompt_of(request.state["passages"], request.messages[-1].text)
        return handler(request.override(messages=[HumanMessage(text)]))


def searching_prompt(search: Callable[[str], Sequence[Document]]) -> AgentMiddleware[Any, Any, Any]:
    @dynamic_prompt
    def prompt(request: Any) -> str:
        return f"Answer from this.\n\n{joined(search(request.messages[-1].text))}"

    return prompt


def by_retriever(question: str) -> Sequence[Document]:
    return ByName().invoke(question)


def by_function(question: str) -> Sequence[Document]:
    text = f"The harbour {question} was built in 1900. It has a tower."
    return retrieved([Document(text, id=f"document {question}")])


@pytest.mark.parametrize(
    ("other_of", "is_first"),
    [
        (Retrieves, True),
        (Retrieves, False),
        (lambda: searching_prompt(by_function), True),
        (lambda: searching_prompt(by_function), False),
        (lambda: searching_prompt(by_retriever), True),
    ],
)
def test_the_middleware_sees_what_other_middlewares_retrieve(
    tiny: LanguageModel, other_of: Callable[[], AgentMiddleware[Any, Any, Any]], is_first: bool
) -> None:
    chat = chat_of(tiny, max_new_tokens=6)
    own = AttributionMiddleware(chat, **EXACT)
    other = other_of()
    agent = create_agent(chat, [], middleware=[own, other] if is_first else [other, own])
    for name in ("one", "two"):
        messages = agent.invoke({"messages": [("human", name)]})["messages"]
        summary = messages[-1].response_metadata["attribution"]
        assert [document["id"] for document in summary["documents"]] == [f"document {name}"]
        assert summary["status"] == "complete", summary
        assert summary["documents"][0]["located"]
    own.close()


def test_the_middleware_takes_documents_that_the_call_names(tiny: LanguageModel) -> None:
    chat = chat_of(tiny, max_new_tokens=6)
    own = AttributionMiddleware(chat, **EXACT)
    agent = create_agent(chat, [], middleware=[own], system_prompt=TEXTS[1])
    config: Any = {"metadata": {"attribot_documents": [{"text": TEXTS[1]}]}}
    message = agent.invoke({"messages": [("human", "When?")]}, config)["messages"][-1]
    assert message.response_metadata["attribution"]["documents"][0]["located"]
    own.close()


LOGGERS = ("langchain_attribot", "attribot_rag")


def lines(caplog: pytest.LogCaptureFixture, level: int = logging.WARNING) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= level and record.name.startswith(LOGGERS)
    ]


def test_each_chain_is_told_of_once_and_in_the_same_words(
    tiny_chat: ChatHuggingFace,
    handler: AttributionCallbackHandler,
    caplog: pytest.LogCaptureFixture,
) -> None:
    blind = RunnableLambda(lambda question: f"Some text. {question}") | tiny_chat
    chains = [blind, blind.with_config(run_name="second"), tiny_chat]
    for chain in chains * 2:
        chain.invoke(QUESTION, config={"callbacks": [handler]})
    agents = [
        create_agent(tiny_chat, [], middleware=[AttributionMiddleware(tiny_chat)], name=name)
        for name in ("first", "second")
    ]
    for agent in agents * 2:
        agent.invoke({"messages": [("human", QUESTION)]})
    told = lines(caplog)
    assert len(told) == len({*told}) == len(chains) + len(agents)
    (words,) = {line.split(": ", 1)[1] for line in told}
    assert "from langchain_attribot import retrieved" in words


@pytest.mark.parametrize("mode", ["inline", "background"])
def test_a_call_without_the_documents_in_its_prompt_is_no_warning(
    tiny_chat: ChatHuggingFace, caplog: pytest.LogCaptureFixture, mode: Any
) -> None:
    handler = AttributionCallbackHandler(tiny_chat, mode=mode, **EXACT)

    def rewritten(question: str) -> str:
        return str(tiny_chat.invoke(f"Say this in other words: {question}").content)

    def answered(question: str, *, with_documents: bool) -> BaseMessage:
        documents = ByName().invoke(question)
        rewritten(question)
        told = documents if with_documents else []
        return tiny_chat.invoke(prompt_of(told, question))

    good = RunnableLambda(lambda question: answered(question, with_documents=True))
    bad = RunnableLambda(lambda question: answered(question, with_documents=False))
    with caplog.at_level(logging.INFO):
        for chain in (good, good, bad, bad):
            chain.with_config(run_name="good" if chain is good else "bad").invoke(
                "one", {"callbacks": [handler]}
            )
            for run_id in handler.results:
                handler.result(run_id, 60)
            number = 0 if chain is good else 1
            wait_until(lambda number=number: len(lines(caplog)) >= number)
            assert len(lines(caplog)) == number
    assert "'bad'" in lines(caplog)[0]
    assert any("no attribution" in line for line in lines(caplog, logging.INFO))
    handler.close()


@pytest.mark.parametrize(
    ("told", "lost"),
    [
        ("The ferry carries 84 passengers.", "A ticket for the museum costs nine crowns."),
        ("Die Mühle mahlt am Mittag.", "1683 brannte der Turm der Mühle ab."),
        ("渡し船は一日に八回、島と港の間を行き来します。", "灯台の高さは三十八メートルです。"),
    ],
)
def test_documents_that_share_an_id_are_all_listed(
    tiny_chat: ChatHuggingFace, handler: AttributionCallbackHandler, told: str, lost: str
) -> None:
    documents = [Document(text, id="file.md") for text in (told, lost)]
    prompt = RunnableLambda(lambda found: f"{found[0].page_content}\n\nWhat is that?")
    chain = Given(documents=documents) | prompt | tiny_chat
    summary = chain.invoke("?", {"callbacks": [handler]}).response_metadata["attribution"]
    assert [document["located"] for document in summary["documents"]] == [True, False]
    # The same document, of which a step kept a part, is one document.
    whole = Document(f"{lost} {told} And more.", id="file.md")
    chain = Given(documents=[whole]) | (lambda _: [documents[0]]) | prompt | tiny_chat
    summary = chain.invoke("?", {"callbacks": [handler]}).response_metadata["attribution"]
    assert [document["located"] for document in summary["documents"]] == [True]


@pytest.mark.parametrize("key", ["source", "author", "section"])
def test_an_answer_may_come_from_metadata_in_the_prompt(
    tiny_chat: ChatHuggingFace, key: str
) -> None:
    handler = AttributionCallbackHandler(tiny_chat, method="leave_one_out")
    documents = [Document(TEXTS[0], metadata={key: "Alaric Penhow", "page": 3, "lang": "en"})]
    for template in ("{text}\n\nWho?", "{text} ({value})\n\nWho?"):
        prompt = RunnableLambda(
            lambda found, template=template: template.format(
                text=found[0].page_content, value=found[0].metadata[key]
            )
        )
        chain = Given(documents=documents) | prompt | tiny_chat
        summary = chain.invoke("?", {"callbacks": [handler]}).response_metadata["attribution"]
        assert summary["sentences"][0]["verdict"] in ("unsupported", "open")  # of random weights
        told = any("metadata" in note for note in summary["notes"])
        assert told == ("{value}" in template)
    handler.close()
