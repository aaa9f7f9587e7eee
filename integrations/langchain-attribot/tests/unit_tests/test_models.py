"""The models of a chain: several, one that answers elsewhere, none; and the calls that count."""

from typing import Any, TypedDict

import pytest
from chains import PROMPT, Given, joined, rag
from conftest import DOCUMENTS, QUESTION, Chain, Chat, Making, summary_of
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableBranch, RunnableLambda
from langgraph.graph import START, StateGraph
from support.summaries import EXACT, attribution_of, checked

from attribot_rag import Attributor, LocalModel
from attribot_rag.errors import InvalidInput
from langchain_attribot import with_attribution

ANSWER = "The lighthouse is 38 metres high."
REMOTE = FakeListChatModel(responses=[ANSWER])
RETRIEVER = Given(documents=DOCUMENTS)


@pytest.fixture
def branching(chats: list[Chat]) -> Chain:
    first, second = (rag(RETRIEVER, chat) for chat in chats)
    return RunnableBranch((lambda question: "first" in question, first), second)


def length(summary: dict[str, Any]) -> int:
    """The place where the answer was cut, which tells the models apart."""
    (cut,) = [note for note in checked(summary)["notes"] if "was cut off" in note]
    return int("".join(filter(str.isdigit, cut)))


def test_each_answer_is_attributed_on_the_model_that_gave_it(
    branching: Chain, chats: list[Chat], making: Making
) -> None:
    for models in (branching, chats, tuple(chats)):
        chain = branching.with_config(callbacks=[making(models)])
        for question, cut_at in (("the first?", 5), ("the other?", 6), ("the first?", 5)):
            assert length(summary_of(chain.invoke(question))) == cut_at
            *_, last = chain.stream(question)
            assert length(summary_of(last)) == cut_at


def test_a_fallback_s_answer(chats: list[Chat]) -> None:
    class Unreachable(FakeListChatModel):
        def _generate(self, *_: Any, **__: Any) -> Any:
            raise ConnectionError("no route")

    llm = Unreachable(responses=[""]).with_fallbacks(chats[1:])
    attributed = with_attribution(rag(RETRIEVER, llm), **EXACT)
    assert length(attributed.invoke(QUESTION)["attribution"]) == 6


@pytest.mark.parametrize("llm", [rag(RETRIEVER, REMOTE), []])
def test_where_no_model_is_local_the_remedy_is_named(making: Making, llm: Any) -> None:
    with pytest.raises(InvalidInput, match=r"holds no local .* model.*language_model="):
        making(llm)


def test_a_local_copy_scores_the_answers_of_a_wrapper(tiny: LocalModel, making: Making) -> None:
    handler = making(None, language_model=tiny)
    chain = rag(RETRIEVER, REMOTE)
    assert summary_of(chain.invoke(QUESTION, {"callbacks": [handler]}))["retokenized"]
    (message,) = PROMPT.format_messages(context=joined(DOCUMENTS), question=QUESTION)
    prompt = [{"role": "user", "content": message.content}]
    expected = Attributor(tiny, progress=False, **EXACT).attribute(prompt, ANSWER, DOCUMENTS)
    assert attribution_of(handler.last).token_scores == expected.token_scores
    attributed = with_attribution(chain, language_model=tiny, **EXACT)
    assert checked(attributed.invoke(QUESTION)["attribution"])["retokenized"]


class State(TypedDict):
    retrieved: list[Document]


@pytest.mark.parametrize(
    "only", ["run answer", "tag answer", "node answer", lambda names: "run answer" in names]
)
def test_only_some_calls_are_attributed(chats: list[Chat], making: Making, only: Any) -> None:
    answered: list[BaseMessage] = []

    def node(name: str) -> tuple[str, Any]:
        prompt = RunnableLambda(lambda _: f"{joined(DOCUMENTS)}\n\n{QUESTION}")
        asking = (prompt | chats[0]).with_config(run_name=f"run {name}", tags=[f"tag {name}"])

        def ask(state: State) -> dict[str, Any]:
            answered.append(asking.invoke(QUESTION))
            return {}

        return f"node {name}", ask

    graph = StateGraph(State).add_sequence([node("draft"), node("answer")])
    graph.add_edge(START, "node draft")
    handler = making(chats[0], only=only)
    graph.compile().invoke({"retrieved": list(DOCUMENTS)}, {"callbacks": [handler]})
    draft, answer = answered
    assert "attribution" not in draft.response_metadata
    assert length(summary_of(answer)) == 5
    assert len(handler.results) == 1
    assert handler.num_open == 0
