"""From a response to its attribution: when it is there, or its stream has ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

from llama_index.core.base.response.schema import AsyncStreamingResponse, StreamingResponse
from llama_index.core.schema import MetadataMode, NodeWithScore
from llama_index.postprocessor.attribot.nodes import document_of, has_visible_metadata
from llama_index.postprocessor.attribot.several import Several
from llama_index.postprocessor.attribot.spans import streaming
from llama_index.postprocessor.attribot.synthesis import Call, Synthesis

from attribot_rag import Document, LanguageModel
from attribot_rag.adapting import (
    Answer,
    AttributedRun,
    Attributing,
    Outcome,
    Results,
    standing_in,
)
from attribot_rag.errors import DocumentsNotLocated, UnsupportedModel

logger = logging.getLogger(__name__)

_METADATA_READ = (
    "The model also read the metadata lines of the nodes, which were not scored: an answer may "
    "come from them; score_metadata=True scores them too."
)


class Finishing:
    """Attributes one answer, and attaches the outcome to its responses.

    Whatever goes wrong is attached too: a response never fails for want of its attribution.
    """

    def __init__(
        self,
        synthesis: Synthesis,
        attributing_of: Callable[[LanguageModel], Attributing],
        results: Results,
        with_metadata: bool,
    ) -> None:
        self._synthesis = synthesis
        self._attributing_of = attributing_of
        self._results = results
        self._with_metadata = with_metadata
        self._background = synthesis.asynchronous

    def begin(self, response: Any) -> None:
        """Attribute what is there; a stream when it has ended."""
        self._synthesis.add(response)
        if isinstance(response, StreamingResponse):
            response.response_gen = self._watched(response.response_gen)
        elif isinstance(response, AsyncStreamingResponse):
            response.response_gen = self._awatched(response.response_gen)
        else:
            self._finish(str(getattr(response, "response", "") or ""))
            return
        if self._synthesis.nodes:
            run = AttributedRun(self._synthesis.run_id, self._synthesis.run_id, ())
            self._results.add(run)
            self._synthesis.attach(run.summary)

    def fail(self, error: BaseException, text: str = "", status: str = "error") -> None:
        """Attach an error in place of an attribution."""
        run_id = self._synthesis.run_id
        nodes = tuple(self._synthesis.nodes)
        run = AttributedRun(run_id, run_id, nodes, text, Outcome(error=error))
        self._results.add(run)
        self._synthesis.attach({**run.summary, "status": status})
        self._synthesis.done()

    def _watched(self, stream: Generator[str, None, None]) -> Generator[str, None, None]:
        shown: list[str] = []
        try:
            while True:
                with streaming(self._synthesis):
                    piece = next(stream, None)
                if piece is None:
                    break
                shown.append(piece)
                yield piece
        except GeneratorExit:  # stopped, and whoever stopped it is not kept waiting
            stream.close()
            self._background = True
            self._streamed("".join(shown))
            raise
        except BaseException as error:
            self.fail(error, "".join(shown))
            raise
        self._streamed("".join(shown))

    async def _awatched(self, stream: AsyncGenerator[str, None]) -> AsyncGenerator[str, None]:
        shown: list[str] = []
        try:
            while True:
                with streaming(self._synthesis):
                    piece = await anext(stream, None)
                if piece is None:
                    break
                shown.append(piece)
                yield piece
        except (GeneratorExit, asyncio.CancelledError):
            self._streamed("".join(shown))
            await stream.aclose()
            raise
        except BaseException as error:
            self.fail(error, "".join(shown))
            raise
        self._streamed("".join(shown))

    def _streamed(self, text: str) -> None:
        for call in self._synthesis.calls[-1:]:
            call.answer = text
        self._finish(text)

    def _finish(self, text: str) -> None:
        try:
            self._attribute_all(text)
        except Exception as error:
            logger.exception("no attribution of %s", self._synthesis.run_id)
            self.fail(error, text)

    def _attribute_all(self, text: str) -> None:
        synthesis = self._synthesis
        calls = [call for call in synthesis.calls if call.answer != ""]
        remote = [call.name for call in calls if call.language_model is None]
        if synthesis.error is not None:
            self.fail(synthesis.error, text)
        elif not synthesis.nodes or not text.strip() or not calls:
            synthesis.attach(None)
            synthesis.done()
        elif remote:
            error = UnsupportedModel(
                f"{', '.join(dict.fromkeys(remote))} is no local Hugging Face model, whose "
                "probabilities the score needs; answer with a HuggingFaceLLM on a model of "
                "transformers (of PEFT's: pass what merge_and_unload() gives)"
            )
            self.fail(error, text, status="unsupported")
        elif len(calls) == 1 and text.strip() == str(calls[0].answer).strip():
            self._attribute(calls[0], synthesis.run_id, text, self._known)
        else:
            several = Several(calls, text, synthesis, self._results)
            if any(call.answer is None for call in calls):
                self.fail(several.unsupported(), text, status="unsupported")
            else:
                several.attribute(self._attribute)

    def _known(self, run: AttributedRun) -> None:
        self._synthesis.attach(run.summary)
        if run.outcome is not None:
            self._synthesis.done()

    def _attribute(
        self, call: Call, run_id: str, text: str, then: Callable[[AttributedRun], None]
    ) -> None:
        """Attribute one call's answer; `then` is told what is known, and again when more is."""
        assert call.language_model is not None
        attributing = self._attributing_of(call.language_model)
        documents = self._documents(call)
        root_id = self._synthesis.run_id
        if not documents:
            error = DocumentsNotLocated(
                f"none of the {len(self._synthesis.nodes)} nodes stands in the prompt of this "
                "call, which builds on what other calls answered"
            )
            run = AttributedRun(run_id, root_id, (), text, Outcome(error=error))
            attributing.results.add(run)
            then(run)
            return
        answer = Answer(
            text=text,
            documents=documents,
            said=self._said(call),
            prompt=_messages(call) or call.prompt,
            caveat=self._caveat(),
        )
        run = attributing.attribute(run_id, root_id, answer, background=self._background)
        future = attributing.results.under_way(run_id) if run.outcome is None else None
        then(run)
        if future is not None:
            future.add_done_callback(lambda done: then(done.result()))
        elif run.outcome is None:  # it was finished in between
            then(attributing.results.wait(run_id))

    def _documents(self, call: Call) -> list[Document]:
        """The nodes that LlamaIndex put into the call's prompt, as a whole or in part."""
        nodes = self._synthesis.nodes
        whole = [document_of(one.node, with_metadata=self._with_metadata) for one in nodes]
        if len(self._synthesis.calls) == 1:
            return whole
        here = standing_in(call.prompt, {one.text for one in whole})
        return [one for one in whole if one.text in here]

    def _said(self, call: Call) -> list[str]:
        """Texts that stand in the prompt as they are, whatever stands between them."""
        texts = (self._synthesis.query, *map(_text, self._synthesis.nodes))
        return [text for one in texts if (text := one.strip()) and text in call.prompt]

    def _caveat(self) -> str:
        if self._with_metadata:
            return ""
        read = any(has_visible_metadata(one.node) for one in self._synthesis.nodes)
        return _METADATA_READ if read else ""


def _text(node: NodeWithScore) -> str:
    return node.node.get_content(MetadataMode.NONE)


def _messages(call: Call) -> list[dict[str, str]] | None:
    if call.messages is None:
        return None
    return [{"role": str(one.role.value), "content": one.content or ""} for one in call.messages]
