"""Messages of LangChain's as prompts, whatever they are made of."""

from typing import Any

import pytest
from conftest import DOCUMENTS, QUESTION, Chat, Handler, summary_of
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, HumanMessageChunk
from support.summaries import located_ids

STREAMED = AIMessageChunk(content="It is ") + AIMessageChunk(content="far away.")


@pytest.mark.parametrize("answer", [AIMessage("It is far away."), STREAMED])
@pytest.mark.parametrize("question", [HumanMessage, HumanMessageChunk])
def test_the_sum_of_streamed_chunks_is_a_message(
    tiny_chat: Chat, handler: Handler, question: Any, answer: AIMessage
) -> None:
    asked = f"{DOCUMENTS[0].page_content}\n\n{QUESTION}"
    history = [question(content="Where is it?"), answer, question(content=asked)]
    config: Any = {
        "callbacks": [handler],
        "metadata": {"attribot_documents": [DOCUMENTS[0]]},
    }
    summary = summary_of(tiny_chat.invoke(history, config))
    assert located_ids(summary) == ["ferry"] and not summary["retokenized"]
    history[-1].content = "changed later"
    (run,) = handler.results.values()
    assert run.answer.prompt is not None
    assert [message.content for message in run.answer.prompt] == [
        "Where is it?",
        "It is far away.",
        asked,
    ]
