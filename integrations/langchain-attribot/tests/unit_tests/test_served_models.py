"""Models that answer elsewhere; a local copy scores."""

from collections.abc import Sequence
from typing import Any

import pytest
from chains import PROMPT, Given, joined, rag
from conftest import DOCUMENTS, QUESTION
from langchain.agents import create_agent
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import create_retriever_tool

from attribot_rag import Attributor, LanguageModel
from attribot_rag.errors import InvalidInput
from langchain_attribot import (
    AttributionCallbackHandler,
    AttributionMiddleware,
    with_attribution,
)

EXACT: dict[str, Any] = {"method": "leave_one_out", "verdicts": None}
ANSWER = "The lighthouse is 38 metres high."


class Remote(BaseChatModel):
    """Calls the tool, then answers; holds no model."""

    @property
    def _llm_type(self) -> str:
        return "remote"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> BaseChatModel:  # type: ignore[override]
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **_: Any,
    ) -> ChatResult:
        call = {"name": "search", "args": {"query": QUESTION}, "id": "call"}
        message = (
            AIMessage(content=ANSWER)
            if isinstance(messages[-1], ToolMessage)
            else AIMessage(content="", tool_calls=[call])
        )
        return ChatResult(generations=[ChatGeneration(message=message)])


def test_the_handler_scores_what_another_wrapper_answered(tiny: LanguageModel) -> None:
    handler = AttributionCallbackHandler(language_model=tiny, **EXACT)
    chain = rag(Given(documents=DOCUMENTS), FakeListChatModel(responses=[ANSWER]))
    summary = chain.invoke(QUESTION, {"callbacks": [handler]}).response_metadata["attribution"]
    assert (summary["status"], summary["retokenized"]) == ("complete", True)
    assert handler.last is not None and handler.last.attribution is not None
    attributor = Attributor(tiny, progress=False, **EXACT)
    (asked,) = PROMPT.format_messages(context=joined(DOCUMENTS), question=QUESTION)
    prompt = [{"role": "user", "content": asked.content}]
    expected = attributor.attribute(prompt, ANSWER, DOCUMENTS)
    assert handler.last.attribution.token_scores == expected.token_scores
    handler.close()


def test_a_chain_and_an_agent_take_it_too(tiny: LanguageModel) -> None:
    chain = rag(Given(documents=DOCUMENTS), FakeListChatModel(responses=[ANSWER]))
    found = with_attribution(chain, language_model=tiny, **EXACT).invoke(QUESTION)
    assert found["attribution"]["retokenized"]
    search = create_retriever_tool(Given(documents=DOCUMENTS), "search", "Finds facts.")
    middleware = AttributionMiddleware(language_model=tiny, **EXACT)
    agent = create_agent(Remote(), [search], middleware=[middleware])
    message = agent.invoke({"messages": [("human", QUESTION)]})["messages"][-1]
    summary = message.response_metadata["attribution"]
    assert (summary["status"], summary["retokenized"]) == ("complete", True)
    middleware.close()


def test_an_unknown_model_names_the_remedy() -> None:
    with pytest.raises(InvalidInput, match="language_model="):
        AttributionCallbackHandler(FakeListChatModel(responses=[ANSWER]))
