"""An agent's model: a script decides on tools, the local model answers."""

from collections.abc import Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult


class SearchesFirst(BaseChatModel):
    """Calls the tool `search` with every question, then has `llm` answer from the results.

    ChatHuggingFace takes no tool messages on a local pipeline, and small models call no tools.
    """

    llm: BaseChatModel

    @property
    def _llm_type(self) -> str:
        return "searches-first"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> BaseChatModel:  # type: ignore[override]
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        if isinstance(messages[-1], HumanMessage):
            call = {"name": "search", "args": {"query": messages[-1].content}, "id": "call"}
            return _result(AIMessage(content="", tool_calls=[call]))
        lines = [str(message.content) for message in messages if message.content]
        prompt = "Answer from the context.\n\n" + "\n\n".join(lines)
        answer = self.llm._generate([HumanMessage(prompt)]).generations[0].message
        return _result(AIMessage(content=answer.content))


def _result(message: AIMessage) -> ChatResult:
    return ChatResult(generations=[ChatGeneration(message=message)])
