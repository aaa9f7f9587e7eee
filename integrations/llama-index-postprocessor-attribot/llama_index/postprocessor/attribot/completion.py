"""The attribution of a response, once it is there or its stream has ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from llama_index.core.base.response.schema import AsyncStreamingResponse, StreamingResponse
from llama_index.core.schema import MetadataMode, NodeWithScore
from llama_index.postprocessor.attribot.composed_answer import ComposedAnswer
from llama_index.postprocessor.attribot.nodes import MERGED_KEY
from llama_index.postprocessor.attribot.streamed_response import aobserved, observed
from llama_index.postprocessor.attribot.tracked_query import ModelCall, TrackedQuery, text_of

from attribot_rag import Document
from attribot_rag.errors import DocumentsNotLocated, UnsupportedModel
from attribot_rag.runtime import Answer, AttributedRun, RunOptions, ServiceRegistry, read_by

logger = logging.getLogger(__name__)

_METADATA_READ = (
    "The model also read the metadata lines of the nodes, which were not scored: an answer may "
    "come from them; score_metadata=True scores them too."
)
_DEDUPLICATED = (
    "The prompt was changed before the model saw it: deduplicate=True took out of the nodes what "
    "{} of them say too."
)


@dataclass(eq=False)
class Completion:
    """Attributes one answer, and attaches the run to its responses.

    Whatever goes wrong is attached too: a response never fails for want of its attribution. Of each
    kind of model that cannot score, the log tells once; `told_of` are those that it told of.
    """

    _query: TrackedQuery
    _services: ServiceRegistry
    _options: RunOptions
    _score_metadata: bool
    _told_of: set[str]

    def __post_init__(self) -> None:
        self._in_background = self._query.asynchronous

    def begin(self, response: Any) -> None:
        """Attribute what is there; a stream when it has ended."""
        self._query.add(response)
        if isinstance(response, StreamingResponse):
            response.response_gen = observed(response.response_gen, self._query, self._streamed)
        elif isinstance(response, AsyncStreamingResponse):
            response.response_gen = aobserved(response.response_gen, self._query, self._streamed)
        else:
            self._finish(text_of(response))
            return
        if self._query.nodes or self._query.earlier:
            self._query.attach(self._kept("", is_pending=True))

    def fail(self, error: BaseException, text: str = "") -> None:
        """Attach an error in place of an attribution, to what was not answered."""
        self._query.attach(self._kept(text, error))
        self._query.done()

    def _streamed(self, text: str, error: BaseException | None) -> None:
        stopped = isinstance(error, GeneratorExit | asyncio.CancelledError)
        if error is not None and not stopped:
            self.fail(error, text)
            return
        for call in self._query.calls[-1:]:
            call.answer = text
        self._in_background |= stopped  # whoever stopped it is not kept waiting
        self._finish(text)

    def _finish(self, text: str) -> None:
        self._query.answer = text
        try:
            self._attribute_all(text)
        except Exception as error:
            logger.exception("no attribution of %s", self._query.run_id)
            self._attach(self._kept(text, error))

    def _attribute_all(self, text: str) -> None:
        query = self._query
        calls = [call for call in query.calls if call.answer is None or call.answer.strip()]
        has_documents = bool(query.nodes or query.earlier)
        if query.error is not None:
            self._attach(self._kept(text, query.error))
        elif has_documents and query.calls and not calls:  # empty answers
            self._attach(self._kept(""))
        elif not (has_documents and text.strip() and calls):
            query.attach(None)
            query.done()
        elif error := self._refusal(calls):
            self._attach(self._kept(text, error))
        elif len(calls) == 1 and not query.earlier and query.has_said(text.strip()):
            self._attribute_one(calls[0])
        else:
            earlier = [
                answer
                for answer in query.earlier
                if answer.run is not None and answer.answer.strip()
            ]
            wait = not self._in_background and self._options.mode == "inline"
            ComposedAnswer(
                query, calls, earlier, text, self._services.store, self._attach
            ).attribute(self._attribute, wait=wait)

    def _attribute_one(self, call: ModelCall) -> None:
        """Attribute the response as the answer of its only call."""
        run = self._attribute(call, self._query.run_id)
        self._attach(run)
        if run.is_pending:
            store = self._services.store

            def attach(future: Future[AttributedRun]) -> None:
                self._attach(store[run.run_id] if future.cancelled() else future.result())

            store.future(run.run_id).add_done_callback(attach)

    def _refusal(self, calls: Sequence[ModelCall]) -> UnsupportedModel | None:
        remote = [call.name for call in calls if call.language_model is None]
        if remote:
            error = UnsupportedModel(
                f"{', '.join(dict.fromkeys(remote))} is not a local Hugging Face model, whose "
                "probabilities the score needs; answer with a HuggingFaceLLM on a model of "
                "transformers (of PEFT's: pass what merge_and_unload() gives), or pass a local "
                "copy of the model as language_model="
            )
            if not self._told_of.issuperset(remote):
                self._told_of.update(remote)
                logger.warning("no attribution: %s", error)
            return error
        if any(call.answer is None for call in calls):
            return UnsupportedModel(
                f"the answer took {len(calls)} calls, of which one was streamed to another, so "
                "that its answer is not known; use a response mode of one call to stream"
            )
        return None

    def _kept(
        self, text: str, error: BaseException | None = None, *, is_pending: bool = False
    ) -> AttributedRun:
        """The run of a response that is not attributed, or not yet."""
        return self._services.store.add(self._query.run_of(text, error, is_pending=is_pending))

    def _attach(self, run: AttributedRun) -> None:
        """Attach what is known; when that is all, tell of it."""
        self._query.attach(run)
        if not run.is_pending:
            self._query.done()
            self._options.tell("on_result", run)

    def _attribute(
        self, call: ModelCall, run_id: str, earlier: Sequence[AttributedRun] = ()
    ) -> AttributedRun:
        """The run of one call's answer, which may be pending."""
        assert call.language_model is not None
        service = self._services.service_for(call.language_model)
        documents, answers = self._read(call, earlier)
        query = self._query.text or None
        if not (documents or answers):
            error = DocumentsNotLocated(
                f"none of the {len(self._query.nodes)} nodes and {len(earlier)} earlier answers "
                "stands in the prompt of this call"
            )
            unread = Answer(str(call.answer), query=query)
            return service.store.add(AttributedRun(run_id, run_id, unread, error=error))
        messages = [
            {"role": str(message.role.value), "content": message.content or ""}
            for message in call.messages or ()
        ]
        answer = Answer(
            text=str(call.answer),
            documents=tuple(self._query.nodes),
            contents=documents,
            prompt_texts=self._prompt_texts(
                call, [*(document.text for document in documents), *(run.text for run in answers)]
            ),
            prompt=messages or call.prompt,
            notes=self._notes(),
            warning=self._warning(),
            query=query,
            elsewhere=call.elsewhere,
        )
        in_background = self._in_background
        return service.attribute(run_id, run_id, answer, earlier=answers, background=in_background)

    def _read(
        self, call: ModelCall, earlier: Sequence[AttributedRun]
    ) -> tuple[list[Document], list[AttributedRun]]:
        """Of the nodes and the earlier answers those that stand in the call's prompt."""
        nodes = documents_of(self._query.nodes, with_metadata=self._score_metadata)
        if len(self._query.calls) == 1 and not earlier:
            return nodes, []
        of_engines = {answer.run_id for answer in self._query.earlier}
        others = [run for run in earlier if run.run_id in of_engines]
        for answer in read_by(call.prompt_text, (), others)[1]:  # engines make nodes of them
            nodes = [node for node in nodes if answer.text.strip() not in node.text]
        indices, answers = read_by(call.prompt_text, [node.text for node in nodes], earlier)
        return [nodes[index] for index in indices], answers

    def _prompt_texts(self, call: ModelCall, documents: Sequence[str]) -> list[str]:
        """Texts that stand in the prompt as they are, whatever stands between them."""
        contents = (node.node.get_content(MetadataMode.NONE) for node in self._query.nodes)
        texts = map(str.strip, (self._query.text, *contents, *documents))
        return [text for text in texts if text and text in call.prompt_text]

    def _notes(self) -> tuple[str, ...]:
        merged = sum(MERGED_KEY in node.node.metadata for node in self._query.nodes)
        return (_DEDUPLICATED.format(merged),) if merged else ()

    def _warning(self) -> str:
        if self._score_metadata:
            return ""
        read = (node.node.get_metadata_str(MetadataMode.LLM) for node in self._query.nodes)
        return _METADATA_READ if any(map(str.strip, read)) else ""


def documents_of(nodes: Sequence[NodeWithScore], *, with_metadata: bool) -> list[Document]:
    """The nodes' texts, after the metadata lines that the model reads if they are asked for.

    What numbers all of them in the prompt, as CitationQueryEngine does ("Source 1:"), is left out.
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
