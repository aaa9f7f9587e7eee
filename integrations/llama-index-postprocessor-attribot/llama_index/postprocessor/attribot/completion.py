"""The attribution of a response, once it is there or its stream has ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

from llama_index.core.base.response.schema import AsyncStreamingResponse, StreamingResponse
from llama_index.core.schema import MetadataMode
from llama_index.postprocessor.attribot.multi_call import MultiCallAnswer
from llama_index.postprocessor.attribot.nodes import document_of, has_visible_metadata
from llama_index.postprocessor.attribot.tracked_query import ModelCall, TrackedQuery, streaming

from attribot_rag import Document
from attribot_rag.errors import DocumentsNotLocated, UnsupportedModel
from attribot_rag.runtime import (
    AttributedRun,
    ObservedAnswer,
    RunOutcome,
    ServiceRegistry,
    texts_in_prompt,
)

logger = logging.getLogger(__name__)

_METADATA_READ = (
    "The model also read the metadata lines of the nodes, which were not scored: an answer may "
    "come from them; score_metadata=True scores them too."
)


class Completion:
    """Attributes one answer, and attaches the outcome to its responses.

    Whatever goes wrong is attached too: a response never fails for want of its attribution.
    """

    def __init__(
        self, query: TrackedQuery, services: ServiceRegistry, *, score_metadata: bool
    ) -> None:
        self._query = query
        self._services = services
        self._store = services.store
        self._score_metadata = score_metadata
        self._background = query.asynchronous

    def begin(self, response: Any) -> None:
        """Attribute what is there; a stream when it has ended."""
        self._query.add(response)
        if isinstance(response, StreamingResponse):
            response.response_gen = self._observed(response.response_gen)
        elif isinstance(response, AsyncStreamingResponse):
            response.response_gen = self._aobserved(response.response_gen)
        else:
            self._finish(str(getattr(response, "response", "") or ""))
            return
        if self._query.nodes:
            run = AttributedRun(self._query.run_id, self._query.run_id, ())
            self._store.add(run)
            self._query.attach(run.summary)

    def fail(self, error: BaseException, text: str = "") -> None:
        """Attach an error in place of an attribution."""
        run_id = self._query.run_id
        nodes = tuple(self._query.nodes)
        run = AttributedRun(run_id, run_id, nodes, text, RunOutcome(error=error))
        self._store.add(run)
        self._query.attach(run.summary)
        self._query.done()

    def _observed(self, stream: Generator[str, None, None]) -> Generator[str, None, None]:
        with self._watched() as shown:
            try:
                while True:
                    with streaming(self._query):
                        piece = next(stream, None)
                    if piece is None:
                        break
                    shown.append(piece)
                    yield piece
            except GeneratorExit:  # stopped, and whoever stopped it is not kept waiting
                stream.close()
                self._background = True
                raise

    async def _aobserved(self, stream: AsyncGenerator[str, None]) -> AsyncGenerator[str, None]:
        try:
            with self._watched() as shown:
                while True:
                    with streaming(self._query):
                        piece = await anext(stream, None)
                    if piece is None:
                        break
                    shown.append(piece)
                    yield piece
        except (GeneratorExit, asyncio.CancelledError):
            await stream.aclose()
            raise

    @contextmanager
    def _watched(self) -> Iterator[list[str]]:
        """Attribute the pieces that were shown, once a stream has ended or was stopped."""
        shown: list[str] = []
        try:
            yield shown
        except (GeneratorExit, asyncio.CancelledError):
            self._streamed("".join(shown))
            raise
        except BaseException as error:
            self.fail(error, "".join(shown))
            raise
        self._streamed("".join(shown))

    def _streamed(self, text: str) -> None:
        for call in self._query.calls[-1:]:
            call.answer = text
        self._finish(text)

    def _finish(self, text: str) -> None:
        try:
            self._attribute_all(text)
        except Exception as error:
            logger.exception("no attribution of %s", self._query.run_id)
            self.fail(error, text)

    def _attribute_all(self, text: str) -> None:
        query = self._query
        calls = [call for call in query.calls if call.answer != ""]
        remote = [call.name for call in calls if call.language_model is None]
        if query.error is not None:
            self.fail(query.error, text)
        elif not query.nodes or not text.strip() or not calls:
            query.attach(None)
            query.done()
        elif remote:
            error = UnsupportedModel(
                f"{', '.join(dict.fromkeys(remote))} is no local Hugging Face model, whose "
                "probabilities the score needs; answer with a HuggingFaceLLM on a model of "
                "transformers (of PEFT's: pass what merge_and_unload() gives)"
            )
            self.fail(error, text)
        elif len(calls) == 1 and text.strip() == str(calls[0].answer).strip():
            self._attribute(calls[0], query.run_id, text, self._attach)
        else:
            answer = MultiCallAnswer(calls, text, query, self._store)
            if any(call.answer is None for call in calls):
                self.fail(answer.unsupported(), text)
            else:
                answer.attribute(self._attribute)

    def _attach(self, run: AttributedRun) -> None:
        self._query.attach(run.summary)
        if run.outcome is not None:
            self._query.done()

    def _attribute(
        self, call: ModelCall, run_id: str, text: str, then: Callable[[AttributedRun], None]
    ) -> None:
        """Attribute one call's answer; `then` is told what is known, and again when more is."""
        assert call.language_model is not None
        service = self._services.service_for(call.language_model)
        documents = self._documents(call)
        root_id = self._query.run_id
        if not documents:
            error = DocumentsNotLocated(
                f"none of the {len(self._query.nodes)} nodes stands in the prompt of this "
                "call, which builds on what other calls answered"
            )
            run = AttributedRun(run_id, root_id, (), text, RunOutcome(error=error))
            self._store.add(run)
            then(run)
            return
        answer = ObservedAnswer(
            text=text,
            documents=documents,
            prompt_texts=self._prompt_texts(call),
            prompt=_messages(call) or call.prompt,
            warning=self._warning(),
        )
        run = service.attribute(run_id, root_id, answer, background=self._background)
        then(run)
        if run.outcome is None:
            self._store.future(run_id).add_done_callback(lambda done: then(done.result()))

    def _documents(self, call: ModelCall) -> list[Document]:
        """The nodes that LlamaIndex put into the call's prompt, as a whole or in part."""
        nodes = self._query.nodes
        whole = [document_of(one.node, with_metadata=self._score_metadata) for one in nodes]
        if len(self._query.calls) == 1:
            return whole
        contained = texts_in_prompt(call.prompt, {one.text for one in whole})
        return [one for one in whole if one.text in contained]

    def _prompt_texts(self, call: ModelCall) -> list[str]:
        """Texts that stand in the prompt as they are, whatever stands between them."""
        contents = (one.node.get_content(MetadataMode.NONE) for one in self._query.nodes)
        texts = map(str.strip, (self._query.text, *contents))
        return [text for text in texts if text and text in call.prompt]

    def _warning(self) -> str:
        if self._score_metadata:
            return ""
        read = any(has_visible_metadata(one.node) for one in self._query.nodes)
        return _METADATA_READ if read else ""


def _messages(call: ModelCall) -> list[dict[str, str]] | None:
    if call.messages is None:
        return None
    return [{"role": str(one.role.value), "content": one.content or ""} for one in call.messages]
