"""Messages as chat templates take them."""

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, HumanMessageChunk

from langchain_attribot.messages import prompt_texts_of, template_messages

STREAMED = AIMessageChunk(content="It is ") + AIMessageChunk(content="38 metres high.")


@pytest.mark.parametrize("answer", [AIMessage("It is 38 metres high."), STREAMED])
@pytest.mark.parametrize("question", [HumanMessage, HumanMessageChunk])
def test_the_sum_of_streamed_chunks_is_a_message(question: type, answer: AIMessage) -> None:
    messages = [question(content="How high is it?"), answer]
    assert template_messages(messages) == [
        {"role": "user", "content": "How high is it?"},
        {"role": "assistant", "content": "It is 38 metres high."},
    ]
    assert prompt_texts_of(messages) == ["How high is it?"]
