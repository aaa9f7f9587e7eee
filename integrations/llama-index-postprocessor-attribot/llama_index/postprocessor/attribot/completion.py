"""Attributes a response when it is complete, or when its stream has ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import aclosing, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from llama_index.core.base.response.schema import AsyncStreamingResponse, StreamingResponse
from llama_index.core.llms import LLM
from llama_index.core.schema import MetadataMode, NodeWithScore
from llama_index.postprocessor.attribot.query import ModelCall, TrackedQuery, streaming, text_of

from attribot_rag import Document
from attribot_rag.errors import DocumentsNotLocated, UnsupportedModel
from attribot_rag.runtime import Answer, AttributedRun, Call, Observer, RunOptions, ServiceRegistry

logger = logging.getLogger(__name__)

_METADATA_READ = (
    "An answer may come from the nodes' metadata lines: score_metadata=True scores them, too."
)


@dataclass(eq=False)
class Completion:
    """Attributes one answer, and attaches the run to its responses.

    Errors are attached too: a response never fails because of its attribution. For each kind of
    model that cannot score, the log says so once; `told_of` has these kinds.
    """

    _query: TrackedQuery
    _observer: Observer
    _services: ServiceRegistry
    _options: RunOptions
    _score_metadata: bool
    _told_of: set[str]

    def begin(self, response: Any) -> None:
        """Attribute a response now, or when its stream has ended."""
        self._query.add(response)
        if isinstance(response, StreamingResponse):
            response.response_gen = observed(response.response_gen, self._query, self._streamed)
        elif isinstance(response, AsyncStreamingResponse):
            response.response_gen = aobserved(response.response_gen, self._query, self._streamed)
        else:
            self._finish(text_of(response))
            return
        if self._query.has_documents:
            self._query.attach(self._kept("", is_pending=True))

    def fail(self, error: BaseException, text: str = "") -> None:
        """Attach an error instead of an attribution."""
        self._query.attach(self._kept(text, error))
        self._query.done()

    def _streamed(self, text: str, error: BaseException | None) -> None:
        stopped = isinstance(error, GeneratorExit | asyncio.CancelledError)
        if error is not None and not stopped:
            self.fail(error, text)
            return
        for call in self._query.calls[-1:]:
            call.answer = text
        self._query.asynchronous |= stopped  # do not wait: the stream was stopped
        self._finish(text)

    def _finish(self, text: str) -> None:
        query = self._query
        query.answer = text
        if query.gathers:
            query.nodes = self._read(query.nodes) or query.nodes[query.num_before :]
        if text.strip() and not any(call.answer != "" for call in query.calls):
            for call in query.calls[-1:]:
                call.answer = text  # made from the arguments of a tool call
        calls = [call for call in query.calls if call.answer is None or call.answer.strip()]
        is_empty = query.has_documents and query.calls and not calls
        is_told = query.has_documents and calls and text.strip()
        if query.error is None and (is_empty or not is_told):
            query.attach(self._kept("") if is_empty else None)
            query.done()
            return
        try:
            error = query.error or self._refusal(calls, text)
            run = self._kept(text, error) if error else self._shown(calls, text)
        except Exception as error:
            logger.exception("no attribution of %s", query.run_id)
            run = self._kept(text, error)
        self._attach(run)
        if run.is_pending:
            store = self._services.store

            def attach(future: Future[AttributedRun]) -> None:
                self._attach(store[run.run_id] if future.cancelled() else future.result())

            store.future(run.run_id).add_done_callback(attach)

    def _shown(self, calls: Sequence[ModelCall], text: str) -> AttributedRun:
        """The run of the response, with the shown text if another step changed the answer."""
        run = self._attributed(calls, text)
        if run.text[run.answer.start :].strip() == text.strip():
            return run
        return self._services.store.add(replace(run, shown=text))

    def _attributed(self, calls: Sequence[ModelCall], text: str) -> AttributedRun:
        """The run of the response's last call. The calls before may have made what it read."""
        answers = [str(call.answer).strip() for call in calls]
        ends = [index for index, answer in enumerate(answers) if answer.endswith(text.strip())]
        calls = calls[: ends[0] + 1] if ends else calls
        self._tell_documents()
        runs = []
        for number, call in enumerate(calls, 1):
            is_last = number == len(calls)
            run_id = self._query.run_id if is_last else f"{self._query.run_id}/{number}"
            run = self._observer.answered(
                self._call(call, run_id, shares=len(calls) > 1),
                str(call.answer),
                background=self._query.asynchronous,
            )
            runs += [] if run is None else [run]
        if runs:
            return runs[-1]
        error = DocumentsNotLocated(
            f"none of the {len(self._query.nodes)} nodes is in the prompts of this answer"
        )
        return self._kept(text, error)

    def _read(self, nodes: Sequence[NodeWithScore]) -> list[NodeWithScore]:
        """The nodes that are in the prompts word for word, and the nodes that were named."""
        texts = [text for call in self._query.calls for text in call.prompt_texts]
        prompts = "".join("".join(texts).split())
        told = set(map(id, self._query.told))
        said = [("".join(node.node.get_content().split()), node) for node in nodes]
        return [node for text, node in said if id(node) in told or text in prompts]

    def _tell_documents(self) -> None:
        """Report what was retrieved for the query.

        Nodes that engines made from answers count as answers.
        """
        query = self._query
        answers = [text for inner in query.earlier if (text := inner.answer.strip())]
        documents = documents_of(query.nodes, with_metadata=self._score_metadata)
        query.step.found = [
            document
            for document in documents
            if not any(answer in document.text for answer in answers)
        ]

    def _call(self, asked: ModelCall, run_id: str, *, shares: bool) -> Call:
        assert asked.scoring is not None
        llm = asked.llm
        answer = Answer(
            "",
            prompt_texts=asked.prompt_texts,
            prompt=asked.messages or asked.prompt,
            warning=self._warning(),
            question=self._query.text or None,
            elsewhere=asked.elsewhere,
            answered_by=llm.metadata.model_name if llm else "",
            ask=partial(ask_again, llm, dict(asked.arguments.arguments)) if llm else None,
        )
        return Call(
            asked.step,
            answer,
            service=self._services.service_for(asked.scoring),
            run_id=run_id,
            root_id=self._query.run_id,
            shares=shares,
        )

    def _refusal(self, calls: Sequence[ModelCall], text: str) -> UnsupportedModel | None:
        remote = [call.name for call in calls if call.scoring is None]
        if remote:
            error = UnsupportedModel(
                f"{', '.join(dict.fromkeys(remote))} is not a local Hugging Face model, whose "
                "probabilities the score needs; answer with a HuggingFaceLLM on a model of "
                "transformers (for PEFT's, on the result of merge_and_unload()), pass a copy of "
                "its weights as language_model=, or pass a reader: "
                "reader=attribot_rag.load_model(), or reader='words'"
            )
            if not self._told_of.issuperset(remote):
                self._told_of.update(remote)
                logger.warning("no attribution: %s", error)
            return error
        if any(call.answer is None for call in calls):
            return UnsupportedModel(
                f"the answer took {len(calls)} calls, and one was streamed to another one, so "
                "its answer is unknown; to stream, use a response mode with one call"
            )
        answers = [str(call.answer).strip() for call in calls]
        if text.strip() not in answers and len(calls) > 1 and all(a in text for a in answers):
            return UnsupportedModel(
                f"the response has the answers of {len(calls)} calls one after the other; use a "
                "response mode that makes one answer of them, such as compact or tree_summarize"
            )
        return None

    def _kept(
        self, text: str, error: BaseException | None = None, *, is_pending: bool = False
    ) -> AttributedRun:
        """The run of a response that is not attributed, or not yet."""
        return self._services.store.add(self._query.run_of(text, error, is_pending=is_pending))

    def _attach(self, run: AttributedRun) -> None:
        """Attach the current result. If it is final, report it."""
        self._query.attach(run)
        if not run.is_pending:
            self._query.done()
            self._options.notify("on_result", run)

    def _warning(self) -> str:
        if self._score_metadata:
            return ""
        read = (node.node.get_metadata_str(MetadataMode.LLM) for node in self._query.nodes)
        return _METADATA_READ if any(map(str.strip, read)) else ""


def documents_of(nodes: Sequence[NodeWithScore], *, with_metadata: bool) -> list[Document]:
    """The nodes' texts, with the metadata lines that the model reads if `with_metadata`.

    Labels that number all nodes in the prompt ("Source 1:", by CitationQueryEngine) are left out.
    """
    mode = MetadataMode.LLM if with_metadata else MetadataMode.NONE
    own = [node.node.get_content(MetadataMode.NONE) for node in nodes]
    labels = [f"Source {number}:\n" for number in range(1, len(nodes) + 1)]
    labelled = all(text.startswith(label) for text, label in zip(own, labels, strict=True))
    documents = []
    for scored, label in zip(nodes, labels, strict=True):
        text = scored.node.get_content(mode)
        if labelled:
            text = text.replace(label, "", 1).strip()
        documents.append(Document(text, scored.node.node_id, dict(scored.node.metadata)))
    return documents


End = Callable[[str, BaseException | None], None]
"""Gets the text that was shown, and the error that ended the stream, if any."""


def observed(
    stream: Generator[str, None, None], query: TrackedQuery, end: End
) -> Generator[str, None, None]:
    """The stream of a query's response."""
    with _watched(end) as shown, closing(stream):
        while True:
            with streaming(query):
                piece = next(stream, None)
            if piece is None:
                return
            shown.append(piece)
            yield piece


async def aobserved(
    stream: AsyncGenerator[str, None], query: TrackedQuery, end: End
) -> AsyncGenerator[str, None]:
    """The same for an asynchronous stream."""
    async with aclosing(stream):
        with _watched(end) as shown:
            while True:
                with streaming(query):
                    piece = await anext(stream, None)
                if piece is None:
                    return
                shown.append(piece)
                yield piece


@contextmanager
def _watched(end: End) -> Iterator[list[str]]:
    shown: list[str] = []
    try:
        yield shown
    except BaseException as error:
        end("".join(shown), error)
        raise
    end("".join(shown), None)


_PROMPTS = ("self", "messages", "prompt", "args", "kwargs")


def ask_again(llm: LLM, arguments: dict[str, Any], prompt: Any, **settings: Any) -> str:
    """The model's answer to another prompt, with the settings of the call with these arguments."""
    given = {**arguments, **arguments.get("kwargs", {}), **settings}
    own = {name: value for name, value in given.items() if name not in _PROMPTS}
    if isinstance(prompt, str):
        return str(llm.complete(prompt, **own).text)
    return llm.chat(prompt, **own).message.content or ""
