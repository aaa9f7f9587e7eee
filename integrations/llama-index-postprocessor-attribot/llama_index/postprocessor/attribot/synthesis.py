"""One answer in the making: its nodes, and the calls of models that it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.schema import NodeWithScore

from attribot_rag import LanguageModel


class Watcher(Protocol):
    """Who wants to know what becomes of a query: the postprocessor."""

    def model_called(self, language_model: LanguageModel) -> None:
        """A local model is about to answer."""

    def answered(self, synthesis: Synthesis, response: Any) -> None:
        """A response was put together, or is going to be streamed."""


@dataclass(eq=False)
class Call:
    """One call of a model, with its prompt as text and perhaps as messages.

    `language_model` is None for a model that is not local; `answer` while it has not answered.
    """

    name: str
    language_model: LanguageModel | None
    prompt: str = ""
    messages: Sequence[ChatMessage] | None = None
    answer: str | None = None


@dataclass(eq=False)
class Synthesis:
    """`nodes` are those that the response is made of; `run_id` is the id of its span.

    `targets` are the responses that carry the attribution: the query's, and the chat engine's.
    """

    run_id: str
    watcher: Watcher
    query: str
    nodes: Sequence[NodeWithScore]
    asynchronous: bool
    calls: list[Call] = field(default_factory=list)
    targets: list[Any] = field(default_factory=list)
    summary: dict[str, Any] | None = None

    def attach(self, summary: dict[str, Any]) -> None:
        """Write the attribution into the metadata of every response that is there."""
        self.summary = summary
        for target in self.targets:
            _attach(target, summary)

    def add(self, target: Any) -> None:
        """One more response, which gets what is known already."""
        self.targets.append(target)
        if self.summary is not None:
            _attach(target, self.summary)


def _attach(response: Any, summary: dict[str, Any]) -> None:
    """Chat responses have no metadata to begin with."""
    if getattr(response, "metadata", None) is None:
        response.metadata = {}
    response.metadata["attribution"] = summary
