"""The attribution of a response, once it is there or its stream has ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llama_index.core.base.response.schema import AsyncStreamingResponse, StreamingResponse
from llama_index.core.schema import MetadataMode
from llama_index.postprocessor.attribot.composed_answer import ComposedAnswer
from llama_index.postprocessor.attribot.nodes import (
    MERGED_KEY,
    documents_of,
    has_visible_metadata,
)
from llama_index.postprocessor.attribot.tracked_query import (
    ModelCall,
    TrackedQuery,
    streaming,
    text_of,
)

from attribot_rag import Document
from attribot_rag.errors import DocumentsNotLocated, UnsupportedModel
from attribot_rag.runtime import (
    Answer,
    AttributedRun,
    RunStore,
    ServiceRegistry,
    texts_in_prompt,
)

logger = logging.getLogger(__name__)

_METADATA_READ = (
    "The model also read the metadata lines of the nodes, which were not scored: an answer may "
    "come from them; score_metadata=True scores them too."
)
_DEDUPLICATED = (
    "The prompt was changed before the model saw it: deduplicate=True took out of the nodes what "
    "{} of them say too."
)


class Completion:
    """Attributes one answer, and attaches the outcome to its responses.

    Whatever goes wrong is attached too: a response never fails for want of its attribution. Of each
    kind of model that cannot score, the log tells once; `told_of` are those that it told of.
    """

    def __init__(
        self,
        query: TrackedQuery,
        services: ServiceRegistry,
        results: RunStore,
        *,
        score_metadata: bool,
        in_background: bool,
        on_result: Callable[[AttributedRun], None] | None,
        told_of: set[str],
    ) -> None:
        self._query = query
        self._services = services
        self._results = results
        self._in_background = in_background
        self._on_result = on_result
        self._told_of = told_of
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
            self._finish(text_of(response))
            return
        if self._query.nodes or self._query.earlier:
            self._query.attach(self._results.add(self._run("", is_pending=True)))

    def fail(self, error: BaseException, text: str = "") -> None:
        """Attach an error in place of an attribution, to what was not answered."""
        self._query.attach(self._results.add(self._run(text, error)))
        self._query.done()

    def refuse(self, error: BaseException, text: str) -> None:
        """Attach an error in place of an attribution."""
        self._attach(self._results.add(self._run(text, error)))

    def _run(
        self, text: str, error: BaseException | None = None, *, is_pending: bool = False
    ) -> AttributedRun:
        query = self._query
        answer = Answer(text, tuple(query.nodes), query=query.text or None)
        return AttributedRun(query.run_id, query.run_id, answer, error=error, is_pending=is_pending)

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
        self._query.answer = text
        try:
            self._attribute_all(text)
        except Exception as error:
            logger.exception("no attribution of %s", self._query.run_id)
            self.refuse(error, text)

    def _attribute_all(self, text: str) -> None:
        query = self._query
        calls = [call for call in query.calls if call.answer is None or call.answer.strip()]
        remote = [call.name for call in calls if call.language_model is None]
        if query.error is not None:
            self.refuse(query.error, text)
        elif (query.nodes or query.earlier) and query.calls and not calls:  # empty answers
            self._attach(self._results.add(self._run("")))
        elif not (query.nodes or query.earlier) or not text.strip() or not calls:
            query.attach(None)
            query.done()
        elif remote:
            error = UnsupportedModel(
                f"{', '.join(dict.fromkeys(remote))} is not a local Hugging Face model, whose "
                "probabilities the score needs; answer with a HuggingFaceLLM on a model of "
                "transformers (of PEFT's: pass what merge_and_unload() gives), or pass a local "
                "copy of the model as language_model="
            )
            if not self._told_of.issuperset(remote):
                self._told_of.update(remote)
                logger.warning("no attribution: %s", error)
            self.refuse(error, text)
        elif any(call.answer is None for call in calls):
            error = UnsupportedModel(
                f"the answer took {len(calls)} calls, of which one was streamed to another, so "
                "that its answer is not known; use a response mode of one call to stream"
            )
            self.refuse(error, text)
        else:
            earlier = [one for one in query.earlier if one.run is not None and one.answer.strip()]
            answer = ComposedAnswer(query, calls, earlier, text, self._results, self._attach)
            wait = not (self._background or self._in_background)
            answer.attribute(self._attribute, self._services.store, wait=wait)

    def _attach(self, run: AttributedRun) -> None:
        """Attach what is known; when that is all, tell of it."""
        self._query.attach(run)
        if not run.is_pending:
            self._query.done()
            if self._on_result is not None:
                try:
                    self._on_result(run)
                except Exception:
                    logger.exception("on_result failed for the run %s", run.run_id)

    def _attribute(
        self, call: ModelCall, run_id: str, earlier: Sequence[Document]
    ) -> AttributedRun:
        """The run of one call's answer, which may be pending."""
        assert call.language_model is not None
        service = self._services.service_for(call.language_model)
        documents = self._documents(call, earlier)
        text = str(call.answer)
        if not documents:
            error = DocumentsNotLocated(
                f"none of the {len(self._query.nodes)} nodes and {len(earlier)} earlier answers "
                "stands in the prompt of this call"
            )
            unread = Answer(text, query=self._query.text or None)
            return AttributedRun(run_id, run_id, unread, error=error)
        answer = Answer(
            text=text,
            documents=documents,
            prompt_texts=self._prompt_texts(call, documents),
            prompt=_messages(call) or call.prompt,
            notes=self._notes(),
            warning=self._warning(),
            query=self._query.text or None,
            elsewhere=call.elsewhere,
        )
        return service.attribute(run_id, run_id, answer, background=self._background)

    def _documents(self, call: ModelCall, earlier: Sequence[Document]) -> list[Document]:
        """Of the nodes and the earlier answers those that stand in the call's prompt."""
        texts = {one.text for one in earlier}
        contained = texts_in_prompt(call.prompt_text, texts) if texts else ()
        answers = [one for one in earlier if one.text in contained]
        nodes = documents_of(self._query.nodes, with_metadata=self._score_metadata)
        if answers:  # engines make nodes of them
            nodes = [one for one in nodes if not any(held.text in one.text for held in answers)]
        if len(self._query.calls) > 1 or earlier:
            contained = texts_in_prompt(call.prompt_text, {one.text for one in nodes})
            nodes = [one for one in nodes if one.text in contained]
        return [*nodes, *answers]

    def _prompt_texts(self, call: ModelCall, documents: Sequence[Document]) -> list[str]:
        """Texts that stand in the prompt as they are, whatever stands between them."""
        contents = (one.node.get_content(MetadataMode.NONE) for one in self._query.nodes)
        answers = (one.text for one in documents)
        texts = map(str.strip, (self._query.text, *contents, *answers))
        return [text for text in texts if text and text in call.prompt_text]

    def _notes(self) -> tuple[str, ...]:
        merged = sum(MERGED_KEY in one.node.metadata for one in self._query.nodes)
        return (_DEDUPLICATED.format(merged),) if merged else ()

    def _warning(self) -> str:
        if self._score_metadata:
            return ""
        read = any(has_visible_metadata(one.node) for one in self._query.nodes)
        return _METADATA_READ if read else ""


def _messages(call: ModelCall) -> list[dict[str, str]] | None:
    if call.messages is None:
        return None
    return [{"role": str(one.role.value), "content": one.content or ""} for one in call.messages]
