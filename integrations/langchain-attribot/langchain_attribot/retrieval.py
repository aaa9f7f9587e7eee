"""Documents that the handler sees no retriever give: of a search that says so, of an agent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar
from uuid import UUID, uuid4

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.outputs import Generation
from langchain_core.runnables.config import ensure_config, get_callback_manager_for_config
from langchain_core.tracers.context import register_configure_hook

from attribot_rag.runtime import Call, Observer, texts_in_prompt
from langchain_attribot.callbacks import AskingAgain, RunCallbacks, StreamedCall
from langchain_attribot.documents import documents_in, named_documents, told_documents

Result = TypeVar("Result")
Found = TypeVar("Found", bound=Iterable[Any])

NAME = "retrieved"
_UUID_LENGTH = 36

_told: ContextVar[tuple[UUID | None, tuple[Document, ...]]] = ContextVar(
    "attribot_told", default=(None, ())
)


def retrieved(documents: Found, query: str = "") -> Found:
    """Say what was retrieved, where LangChain does not: a store that is searched directly, an API.

        documents = retrieved(store.similarity_search(question))

    Call it where the search is: in a function of a chain, a tool, a node, a middleware, or within
    `with attribute(llm)`. Callbacks are told of a retriever that gave these documents to `query`,
    so that traces show it too. Documents are LangChain's, with scores or not, texts, or mappings
    with their text under `page_content` or `text`, or else as their longest text; they are returned
    as they came. Raises InvalidInput for other values.
    """
    retrieved = list(told_documents(documents))
    manager = get_callback_manager_for_config(ensure_config())
    run = manager.on_retriever_start({"name": NAME}, query, name=NAME)
    run.on_retriever_end(retrieved)
    within = manager.parent_run_id
    if within is not None:
        _told.set((within, (*_told_within(within), *retrieved)))
    return documents


def _told_within(run_id: UUID | None) -> tuple[Document, ...]:
    within, documents = _told.get()
    return documents if run_id is not None and within == run_id else ()


def run_id_of(message: BaseMessage) -> str:
    """The id of the model's run, which is a part of the message's id."""
    return str(message.id or uuid4()).removeprefix("lc_run--")[:_UUID_LENGTH]


class ObservedRetrieval(RunCallbacks):
    """Sees what is retrieved within a block, and the calls of chat models there."""

    def __init__(self, ask_again: AskingAgain | None = None) -> None:
        super().__init__(Observer([], loose=True), ask_again)
        self._ended_calls: dict[str, Call] = {}

    @property
    def documents(self) -> Sequence[Document]:
        return self.observer.loose_documents

    def model_ended(self, streamed: StreamedCall, generation: Generation) -> None:
        self._ended_calls[streamed.call.step.id] = streamed.call

    def call_of(self, answer: BaseMessage) -> Call | None:
        """The call that gave an answer, or else the last one; None without any."""
        last = next(reversed(self._ended_calls.values()), None)
        return self._ended_calls.get(run_id_of(answer), last)

    def all_documents(self, state: Any) -> Iterator[Sequence[Document]]:
        """Those of an agent's state, named with its call, told before the block and within it."""
        config = ensure_config()
        yield list(documents_in(state))
        yield named_documents(config.get("metadata"))
        yield _told_within(get_callback_manager_for_config(config).parent_run_id)
        yield self.documents

    def attached(self, result: Result) -> Result:
        """A copy of a tool's message with those of the documents that its text holds as artifact.

        A message with an artifact, and anything else that tools give, stays as it is.
        """
        if not isinstance(result, ToolMessage) or result.artifact is not None:
            return result
        texts = texts_in_prompt(result.text, [document.page_content for document in self.documents])
        documents = [document for document in self.documents if document.page_content in texts]
        return result.model_copy(update={"artifact": documents}) if documents else result


_running: ContextVar[ObservedRetrieval | None] = ContextVar("attribot_retrieval", default=None)
register_configure_hook(_running, inheritable=True)


@contextmanager
def observed_retrieval(ask_again: AskingAgain | None = None) -> Iterator[ObservedRetrieval]:
    """See what is retrieved by what runs within the block."""
    retrieval = ObservedRetrieval(ask_again)
    token = _running.set(retrieval)
    try:
        yield retrieval
    finally:
        _running.reset(token)
