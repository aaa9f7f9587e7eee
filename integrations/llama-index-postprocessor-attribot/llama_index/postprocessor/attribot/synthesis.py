"""One answer in the making: its nodes, and the calls of models that it takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.schema import NodeWithScore

from attribot_rag import LanguageModel


class Watcher(Protocol):
    """Who wants to know what becomes of a query: the postprocessor."""

    def model_called(self, synthesis: Synthesis, language_model: LanguageModel) -> None:
        """A local model is about to answer."""

    def answered(self, synthesis: Synthesis, response: Any) -> None:
        """A response was put together, or is going to be streamed."""


@dataclass(eq=False)
class Call:
    """One call of a model, with its prompt as text and perhaps as messages.

    `language_model` is None for a model that is not local; `answer` while it has not answered, and
    for what was streamed to somebody else. A call that is `begun` only gave a stream, and asks the
    model when that is read.
    """

    name: str
    language_model: LanguageModel | None
    prompt: str = ""
    messages: Sequence[ChatMessage] | None = None
    answer: str | None = None
    begun: bool = False


@dataclass(eq=False)
class Synthesis:
    """`nodes` are those that the response is made of; `run_id` is the id of its span.

    `targets` are the responses that carry the attribution: the query's, and the chat engine's.
    `error` is what went wrong before there was a response. `when_done` is called once, when nothing
    more is going to be asked of the recorded generations.
    """

    run_id: str
    watcher: Watcher
    query: str
    nodes: Sequence[NodeWithScore]
    asynchronous: bool
    calls: list[Call] = field(default_factory=list)
    targets: list[Any] = field(default_factory=list)
    summary: dict[str, Any] | None = None
    error: BaseException | None = None
    when_done: list[Callable[[], None]] = field(default_factory=list)

    def attach(self, summary: dict[str, Any] | None) -> None:
        """Write the attribution into the metadata of every response that is there.

        None takes it back where nothing came of it.
        """
        self.summary = summary
        for target in self.targets:
            _attach(target, summary)

    def add(self, target: Any) -> None:
        """One more response, which gets what is known already."""
        self.targets.append(target)
        if self.summary is not None:
            _attach(target, self.summary)

    def done(self) -> None:
        while self.when_done:
            self.when_done.pop()()


def _attach(response: Any, summary: dict[str, Any] | None) -> None:
    """Chat responses have no metadata to begin with."""
    metadata = getattr(response, "metadata", None)
    if summary is not None:
        response.metadata = {} if metadata is None else metadata
        response.metadata["attribution"] = summary
    elif metadata is not None:
        metadata.pop("attribution", None)
