"""Chains in which several local models answer, and calls that are not to be attributed."""

import copy
from typing import Any, TypedDict

import pytest
from chains import Given, joined, rag
from conftest import DOCUMENTS, QUESTION, chat_of
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import Runnable, RunnableBranch, RunnableLambda
from langchain_huggingface import ChatHuggingFace
from langgraph.graph import END, START, StateGraph

from attribot_rag import LanguageModel
from attribot_rag.errors import InvalidInput
from langchain_attribot import AttributionCallbackHandler, with_attribution

EXACT: dict[str, Any] = {"method": "leave_one_out", "verdicts": None}


@pytest.fixture(scope="module")
def chats(tiny: LanguageModel) -> list[ChatHuggingFace]:
    """Two models, each of which answers with a number of tokens of its own."""
    other = LanguageModel(copy.deepcopy(tiny.model), tiny.tokenizer)
    return [chat_of(tiny, max_new_tokens=5), chat_of(other, max_new_tokens=6)]


def branching(chats: list[ChatHuggingFace]) -> Runnable[Any, Any]:
    first, second = (rag(Given(documents=DOCUMENTS), chat) for chat in chats)
    return RunnableBranch((lambda question: "first" in question, first), second)


def length(summary: dict[str, Any]) -> int:
    """The place where the answer was cut, which tells the models apart."""
    assert summary["status"] == "complete", summary
    (cut,) = [note for note in summary["notes"] if "was cut at" in note]
    return int(cut.split()[5])


def test_each_answer_is_attributed_on_the_model_that_gave_it(chats: list[ChatHuggingFace]) -> None:
    chain = branching(chats)
    for given in (chain, chats, tuple(chats)):
        handler = AttributionCallbackHandler(given, **EXACT)
        for question, cut_at in (("the first?", 5), ("the other?", 6), ("the first?", 5)):
            message = chain.invoke(question, {"callbacks": [handler]})
            assert length(message.response_metadata["attribution"]) == cut_at
            *_, last = chain.stream(question, {"callbacks": [handler]})
            assert length(last.response_metadata["attribution"]) == cut_at
        handler.close()


def test_a_fallback_s_answer(chats: list[ChatHuggingFace]) -> None:
    class Unreachable(FakeListChatModel):
        def _generate(self, *_: Any, **__: Any) -> Any:
            raise ConnectionError("no route")

    llm = Unreachable(responses=[""]).with_fallbacks(chats[1:])
    chain = with_attribution(rag(Given(documents=DOCUMENTS), llm), **EXACT)
    assert length(chain.invoke(QUESTION)["attribution"]) == 6
    local = with_attribution(rag(Given(documents=DOCUMENTS), chats[0].with_fallbacks(chats[1:])))
    assert len(local.handler._services) == 2
    local.handler.close()


def test_another_handler_s_error_replaces_no_attribution(chats: list[ChatHuggingFace]) -> None:
    handlers = [AttributionCallbackHandler(chat, **EXACT) for chat in chats]
    for order in (handlers, handlers[::-1]):
        message = branching(chats).invoke("the first?", {"callbacks": list(order)})
        assert length(message.response_metadata["attribution"]) == 5
    for handler in handlers:
        handler.close()


def test_a_chain_without_local_model() -> None:
    with pytest.raises(InvalidInput, match="holds no local Hugging Face model"):
        AttributionCallbackHandler(rag(Given(documents=[]), FakeListChatModel(responses=["a"])))
    with pytest.raises(InvalidInput, match="holds no local Hugging Face model"):
        AttributionCallbackHandler([])


class TestOnly:
    def check(self, only: Any, chats: list[ChatHuggingFace]) -> None:
        """Of two calls, the second alone is attributed."""
        chat, documents = chats[0], joined(DOCUMENTS)
        answered: list[BaseMessage] = []

        def ask(name: str) -> Runnable[Any, Any]:
            asked = RunnableLambda(lambda _: f"{documents}\n\n{QUESTION}") | chat
            return asked.with_config(run_name=f"run {name}", tags=[f"tag {name}"])

        class State(TypedDict):
            found: list[Document]

        def node(name: str) -> Any:
            def call(state: State) -> dict[str, Any]:
                answered.append(ask(name).invoke(QUESTION))
                return {}

            return call

        graph = StateGraph(State)
        for name in ("draft", "answer"):
            graph.add_node(f"node {name}", node(name))
        graph.add_edge(START, "node draft")
        graph.add_edge("node draft", "node answer")
        graph.add_edge("node answer", END)
        handler = AttributionCallbackHandler(chat, only=only, **EXACT)
        graph.compile().invoke({"found": list(DOCUMENTS)}, {"callbacks": [handler]})
        draft, answer = answered
        assert "attribution" not in draft.response_metadata
        assert length(answer.response_metadata["attribution"]) == 5
        assert len(handler.results) == 1
        assert handler.num_open == 0
        handler.close()

    @pytest.mark.parametrize(
        "only", ["run answer", "tag answer", "node answer", lambda names: "run answer" in names]
    )
    def test_names_tags_nodes_and_functions(self, chats: list[ChatHuggingFace], only: Any) -> None:
        self.check(only, chats)

    def test_what_nothing_is_called(self, chats: list[ChatHuggingFace]) -> None:
        handler = AttributionCallbackHandler(chats[0], only="nothing", **EXACT)
        message = rag(Given(documents=DOCUMENTS), chats[0]).invoke(
            QUESTION, {"callbacks": [handler]}
        )
        assert isinstance(message, AIMessage)
        assert "attribution" not in message.response_metadata
        assert handler.last is None
        handler.close()
