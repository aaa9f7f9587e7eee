"""From a response to its attribution: what each call of a model was given, and what comes of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

from llama_index.core.base.response.schema import AsyncStreamingResponse, StreamingResponse
from llama_index.core.schema import MetadataMode, NodeWithScore
from llama_index.postprocessor.attribot.nodes import document_of
from llama_index.postprocessor.attribot.spans import streaming
from llama_index.postprocessor.attribot.synthesis import Call, Synthesis

from attribot_rag import Document, InvalidInput, LanguageModel, UnsupportedModel
from attribot_rag.adapting import (
    MAX_SUMMARY_BYTES,
    Answer,
    AttributedRun,
    Attributing,
    Outcome,
    standing_in,
)

_MAX_CALLS = 12


class Finishing:
    """Attributes one answer, and attaches the outcome to its responses."""

    def __init__(
        self,
        synthesis: Synthesis,
        attributing_of: Callable[[LanguageModel], Attributing],
        with_metadata: bool,
    ) -> None:
        self._synthesis = synthesis
        self._attributing_of = attributing_of
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
            self._streamed("".join(shown), background=True)
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
            raise
        self._streamed("".join(shown))

    def _streamed(self, text: str, *, background: bool = False) -> None:
        for call in self._synthesis.calls[-1:]:
            call.answer = text
        self._background |= background
        self._finish(text)

    def _finish(self, text: str) -> None:
        synthesis = self._synthesis
        calls = [call for call in synthesis.calls if call.answer]
        if not synthesis.nodes or not text.strip() or not synthesis.calls:
            return
        remote = [call.name for call in calls if call.language_model is None]
        if remote or not calls:
            names = ", ".join(dict.fromkeys(remote or [one.name for one in synthesis.calls]))
            error = UnsupportedModel(
                f"{names} is no local Hugging Face model, whose probabilities the score needs; "
                "answer with a HuggingFaceLLM"
            )
            synthesis.attach({**Outcome(error=error).summary(), "status": "unsupported"})
            return
        if len(calls) == 1:
            shown = text if text.strip() == str(calls[0].answer).strip() else None
            run_id = synthesis.run_id
            self._attribute(calls[0], run_id, shown, lambda run: synthesis.attach(run.summary))
        else:
            Several(calls, text, synthesis).attribute(self._attribute)

    def _attribute(
        self,
        call: Call,
        run_id: str,
        shown: str | None,
        then: Callable[[AttributedRun], None],
    ) -> None:
        """Attribute one call's answer; `then` is told what is known, and again when more is."""
        assert call.language_model is not None
        assert call.answer is not None
        attributing = self._attributing_of(call.language_model)
        answer = Answer(
            text=call.answer if shown is None else shown,
            documents=self._documents(call),
            said=self._said(call),
            prompt=_messages(call) or call.prompt,
        )
        run = attributing.attribute(
            run_id, self._synthesis.run_id, answer, background=self._background
        )
        then(run)
        future = attributing.results.under_way(run_id)
        if future is not None:
            future.add_done_callback(lambda done: then(done.result()))

    def _documents(self, call: Call) -> list[Document]:
        """The nodes in the call's prompt; all if it is the only one."""
        nodes = self._synthesis.nodes
        if len(self._synthesis.calls) > 1:
            here = standing_in(call.prompt, [_text(one) for one in nodes])
            nodes = [one for one in nodes if _text(one) in here]
        return [document_of(one.node, with_metadata=self._with_metadata) for one in nodes]

    def _said(self, call: Call) -> list[str]:
        """Texts that stand in the prompt as they are, whatever stands between them."""
        texts = (self._synthesis.query, *map(_text, self._synthesis.nodes))
        return [text for one in texts if (text := one.strip()) and text in call.prompt]


class Several:
    """An answer that took several calls: each is attributed to the nodes in its own prompt.

    Where the answer is theirs put end to end (accumulate), so are the attributions. Where later
    calls built on earlier ones (refine, a tree), no call's scores are the whole answer's, which is
    said.
    """

    def __init__(self, calls: list[Call], text: str, synthesis: Synthesis) -> None:
        self._calls = calls
        self._text = text
        self._synthesis = synthesis
        self._known: dict[int, AttributedRun] = {}

    def attribute(self, attribute: Callable[..., None]) -> None:
        for index, call in enumerate(self._calls):
            run_id = f"{self._synthesis.run_id}/{index + 1}"
            attribute(call, run_id, None, lambda run, index=index: self._add(index, run))

    def _add(self, index: int, run: AttributedRun) -> None:
        self._known[index] = run
        if len(self._known) == len(self._calls):
            self._synthesis.attach(self._merged())

    def _merged(self) -> dict[str, Any]:
        told = range(min(len(self._calls), _MAX_CALLS))
        max_bytes = MAX_SUMMARY_BYTES // (len(told) + 1)
        summaries = [self._known[index].summary_of(max_bytes) for index in told]
        places = _places([str(call.answer) for call in self._calls], self._text)
        merged: dict[str, Any] = {
            "schema_version": summaries[0].get("schema_version"),
            "status": self._status(),
            "run_id": self._synthesis.run_id,
            "calls": summaries,
            "omitted": {"calls": len(self._calls) - len(summaries)},
        }
        if places is None:
            error = UnsupportedModel(
                f"the answer took {len(self._calls)} calls that build on each other, so that no "
                "call's scores are those of the whole answer; see each under 'calls', or use the "
                "response mode 'compact'"
            )
            return {**merged, **Outcome(error=error).summary(), "status": "unsupported"}
        merged["places"] = places[: len(summaries)]
        return merged

    def _status(self) -> str:
        """The least that is true of each call; one without attribution makes it partial."""
        found = {run.summary["status"] for run in self._known.values()}
        if "pending" in found:
            return "pending"
        return "complete" if found == {"complete"} else "partial"


def run_id_of(response: Any) -> str:
    """The id of the run whose attribution a response carries.

    Raises InvalidInput if it carries none.
    """
    summary = (getattr(response, "metadata", None) or {}).get("attribution") or {}
    if "run_id" not in summary:
        raise InvalidInput(
            "the response carries no attribution that can be waited for; was it made with an "
            "AttributionPostprocessor among the node_postprocessors?"
        )
    return str(summary["run_id"])


def _places(answers: list[str], text: str) -> list[list[int]] | None:
    """Where each answer stands in the text, one after the other; None if they do not."""
    places, end = [], 0
    for answer in answers:
        start = text.find(answer.strip(), end)
        if start < 0:
            return None
        end = start + len(answer.strip())
        places.append([start, end])
    return places


def _text(node: NodeWithScore) -> str:
    return node.node.get_content(MetadataMode.NONE)


def _messages(call: Call) -> list[dict[str, str]] | None:
    if call.messages is None:
        return None
    return [{"role": str(one.role.value), "content": one.content or ""} for one in call.messages]
