"""Models that answer elsewhere; a local copy scores."""

from typing import Any

import pytest
from agents import SearchesFirst
from chains import PROMPT, Given, joined, rag
from conftest import DOCUMENTS, QUESTION
from langchain.agents import create_agent
from langchain_core.language_models import FakeListChatModel
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


def test_the_handler_scores_what_another_wrapper_answered(tiny: LanguageModel) -> None:
    handler = AttributionCallbackHandler(language_model=tiny, **EXACT)
    chain = rag(Given(documents=DOCUMENTS), FakeListChatModel(responses=[ANSWER]))
    summary = chain.invoke(QUESTION, {"callbacks": [handler]}).response_metadata["attribution"]
    assert (summary["status"], summary["retokenized"]) == ("complete", True)
    assert handler.last is not None and handler.last.attribution is not None
    attributor = Attributor(tiny, progress=False, **EXACT)
    (message,) = PROMPT.format_messages(context=joined(DOCUMENTS), question=QUESTION)
    prompt = [{"role": "user", "content": message.content}]
    expected = attributor.attribute(prompt, ANSWER, DOCUMENTS)
    assert handler.last.attribution.token_scores == expected.token_scores
    handler.close()


def test_a_chain_and_an_agent_take_it_too(tiny: LanguageModel) -> None:
    remote = FakeListChatModel(responses=[ANSWER])
    chain = rag(Given(documents=DOCUMENTS), remote)
    result = with_attribution(chain, language_model=tiny, **EXACT).invoke(QUESTION)
    assert result["attribution"]["retokenized"]
    search = create_retriever_tool(Given(documents=DOCUMENTS), "search", "Finds facts.")
    middleware = AttributionMiddleware(language_model=tiny, **EXACT)
    agent = create_agent(SearchesFirst(llm=remote), [search], middleware=[middleware])
    message = agent.invoke({"messages": [("human", QUESTION)]})["messages"][-1]
    summary = message.response_metadata["attribution"]
    assert (summary["status"], summary["retokenized"]) == ("complete", True)
    middleware.close()


def test_an_unknown_model_names_the_remedy() -> None:
    with pytest.raises(InvalidInput, match="language_model="):
        AttributionCallbackHandler(FakeListChatModel(responses=[ANSWER]))
