"""The callback handler: documents in, answers out, attribution attached."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

from langchain_core.callbacks import dispatch_custom_event
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGenerationChunk, GenerationChunk, LLMResult
from typing_extensions import Unpack

from attribot_rag import LanguageModel
from attribot_rag.errors import DocumentsNotLocated, UnknownOption
from attribot_rag.runtime import (
    Answer,
    AttributedRun,
    AttributionService,
    Counterfactual,
    RunStore,
    ServiceOptions,
    answer_without,
    service_that_saw,
)
from langchain_attribot.advice import NOTHING_SEEN, Advice
from langchain_attribot.documents import metadata_note, named_documents, retrieved_documents
from langchain_attribot.messages import (
    KEY,
    attach,
    attach_to_dict,
    attach_to_output,
    calls_tools,
    is_last,
    output_texts,
    prompt_texts_of,
    register,
    template_messages,
)
from langchain_attribot.models import (
    LocalModel,
    LocalModels,
    language_model_of,
    language_models_of,
)
from langchain_attribot.run_tracker import Run, RunTracker, names_of
from langchain_attribot.tracing import span_of

if TYPE_CHECKING:
    from opentelemetry.trace import Span

Only = str | Callable[[frozenset[str]], bool] | None


class HandlerOptions(ServiceOptions, total=False):
    """Options of AttributionCallbackHandler, for functions that pass them on."""

    proxy: LocalModel | None
    language_model: LanguageModel | None
    citations: bool
    only: Only


@dataclass(eq=False)
class _ModelCall:
    """A call of a model that has not ended: its run, its prompt, and what was streamed so far.

    `span` is its span, if an instrumentation that comes before this handler has made one.
    """

    run: Run
    prompt_texts: list[str]
    prompt: str | list[dict[str, str]]
    streamed: list[str] = field(default_factory=list)
    attributed: bool = False
    summary: dict[str, Any] | None = None
    span: Span | None = None


class AttributionCallbackHandler(RunTracker):
    """Attaches to every answer which retrieved text caused it.

        handler = AttributionCallbackHandler(chat)
        rag = chain.with_config(callbacks=[handler])
        rag.invoke("Who signed the treaty?").response_metadata["attribution"]

    `llm` is the chain's ChatHuggingFace or HuggingFacePipeline on a local pipeline; or a list of
    those, or the chain itself, where several models answer (branches, fallbacks): each answer is
    attributed on the model that gave it. Attach the handler to the chain or pass it per call, not
    to the model, where it sees no retriever.

    Where something else answers, such as a model on a server, `language_model` is a local copy with
    the same weights, which scores, or an attribot_rag.ServedModel, by which the server does; its
    tokenizer makes the prompt and the answer anew, and the attribution says `retokenized`. `llm` is
    not needed then.

    `method`, `keep`, `budget`, `verdicts`, `context` and `scoring` are those of
    attribot_rag.Attributor, and `proxy`, which may be a LangChain model too. With `citations`,
    `content_blocks` of attributed messages show them as standard annotations. In mode 'background'
    answers come at once, with the status 'pending', and what caused them later: to `on_result`, and
    to whoever asks `result` or `aresult`; `max_pending` answers may wait.

    `only` says which calls of models are attributed: those of a LangGraph node, with a tag, or of a
    run of this name, themselves or within one; or those for whose names, the set of all of these, a
    function gives True.

    Summaries of at most 16 KB are attached to messages and dicts; `results` keeps the whole of the
    last `max_results` runs. What fails becomes an 'error' there and a line in the log, unless
    `raise_error` is set.
    """

    def __init__(
        self,
        llm: LocalModels | None = None,
        *,
        language_model: LanguageModel | None = None,
        proxy: LocalModel | None = None,
        citations: bool = False,
        only: Only = None,
        **options: Unpack[ServiceOptions],
    ) -> None:
        super().__init__()
        UnknownOption.check(type(self).__name__, options, HandlerOptions.__optional_keys__)
        store = RunStore(options.get("max_results", 128))
        self._answers_elsewhere = language_model is not None
        models = language_models_of(llm) if language_model is None else [language_model]
        self._services = [
            AttributionService(
                model,
                store=store,
                proxy=None if proxy is None else language_model_of(proxy),
                **options,
            )
            for model in models
        ]
        self.raise_error = options.get("raise_error", False)
        self._citations = citations
        self._only = only
        self._calls: dict[UUID, _ModelCall] = {}
        self._advice = Advice()
        self._is_orphan_told = False
        if citations:
            register()

    @property
    def results(self) -> RunStore:
        """The last runs, by the id of the model's run and of its root (`config["run_id"]`)."""
        return self._services[0].store

    @property
    def last(self) -> AttributedRun | None:
        """The run that was attributed last."""
        return self.results.last

    def close(self) -> None:
        """Stop recording the models' generations."""
        for service in self._services:
            service.close()

    def result(self, run_id: UUID | str, timeout: float | None = None) -> AttributedRun:
        """The finished run of this id or with this root, waited for while it is pending.

        Raises TimeoutError after `timeout` seconds, InvalidInput for a run without attribution.
        """
        return self.results.wait(run_id, timeout)

    async def aresult(self, run_id: UUID | str, timeout: float | None = None) -> AttributedRun:
        """The same, without blocking the event loop."""
        return await self.results.wait_async(run_id, timeout)

    def answer_without(
        self, run_id: UUID | str, *documents: int, **generate: Any
    ) -> Counterfactual:
        """What the model says without some of the documents, by index, of a run's attribution.

        Waits for a pending run. `generate` and the errors are those of Attributor.answer_without.
        """
        return answer_without(self._services, self.result(run_id), *documents, **generate)

    def root_ended(self, root: Run, outputs: Any) -> None:
        self._advise(root)
        if outputs is not None and not root.settled:  # None: of a stream that does not add up
            self._settle(root, outputs)

    def settle(self, root_id: UUID, outputs: object) -> AttributedRun | None:
        """Take this as what the root gives, before it has ended; the run of its answer.

        None if nothing was attributed within the root.
        """
        root = self._runs.get(root_id)
        if root is not None and outputs is not None:
            root.settled = True
            self._settle(root, outputs)
        return self.results.get(str(root_id))

    def _settle(self, root: Run, outputs: Any) -> None:
        answer = self.results.set_answer(root.id, list(output_texts(outputs)))
        if isinstance(outputs, dict) and root.parsed is not outputs and "messages" not in outputs:
            attach_to_dict(outputs, None if answer is None else answer.summary)
        elif isinstance(outputs, BaseMessage) and answer is not None and answer.shown is not None:
            attach_to_output(outputs, answer.summary)

    def _advise(self, root: Run) -> None:
        """Log why none of the root's answers has an attribution, if documents are the reason."""
        runs = [run for run in self.results.values() if run.root_id == str(root.id)]
        kinds = set(root.kinds())
        if not runs:
            if "model" in kinds and "retriever" not in kinds and not root.documents():
                self._advice.tell(root.shape(), root.name, NOTHING_SEEN)
            return
        ends = [self.results.future(run.run_id) for run in runs]

        def tell(_: object) -> None:
            if all(end.done() and not end.cancelled() for end in ends):
                errors = [end.result().error for end in ends]
                if all(isinstance(error, DocumentsNotLocated) for error in errors):
                    self._advice.tell(root.shape(), root.name, str(errors[-1]))

        for end in ends:
            end.add_done_callback(tell)

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **named: Any,
    ) -> None:
        documents = [*retrieved_documents(messages[0]), *named_documents(metadata)]
        names = names_of({**named, "metadata": metadata})
        run = self._begin_call(run_id, parent_run_id, documents, names)
        self._calls[run_id] = _ModelCall(
            run,
            prompt_texts_of(messages[0]),
            template_messages(messages[0]),
            attributed=not self._is_wanted(run),
            span=span_of(run_id),
        )

    def on_llm_start(
        self,
        serialized: dict[str, Any],
        prompts: list[str],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **named: Any,
    ) -> None:
        names = names_of({**named, "metadata": metadata})
        run = self._begin_call(run_id, parent_run_id, named_documents(metadata), names)
        self._calls[run_id] = _ModelCall(
            run,
            [prompts[0]],
            prompts[0],
            attributed=not self._is_wanted(run),
            span=span_of(run_id),
        )

    def _is_wanted(self, run: Run) -> bool:
        names = run.all_names()
        return self._only is None or (
            self._only in names if isinstance(self._only, str) else self._only(names)
        )

    def _begin_call(
        self,
        run_id: UUID,
        parent_run_id: UUID | None,
        documents: Sequence[Document],
        names: frozenset[str],
    ) -> Run:
        run = self._begin(run_id, parent_run_id, "model", tuple(documents), names)
        if run.orphan and not documents and not self._is_orphan_told:
            self._is_orphan_told = True
            warnings.warn(
                "AttributionCallbackHandler is attached to the model, where it sees no retriever; "
                "attach it to the chain, chain.with_config(callbacks=[handler]), or pass it per "
                "call",
                stacklevel=2,
            )
        return run

    def on_llm_new_token(
        self,
        token: str | list[str | dict[str, Any]],
        *,
        chunk: GenerationChunk | ChatGenerationChunk | None = None,
        run_id: UUID,
        **_: Any,
    ) -> None:
        call = self._calls.get(run_id)
        if call is None or call.attributed:
            return
        call.streamed.append(str(token) if chunk is None else chunk.text)
        if isinstance(chunk, ChatGenerationChunk) and is_last(chunk):
            summary = self._attribute(call, "".join(call.streamed))
            attach(chunk, summary, citations=self._citations)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:
        call = self._calls.pop(run_id, None)
        if call is None:
            return
        generations = [one for row in response.generations for one in row]
        try:
            if len(generations) == 1 and not calls_tools(generations[0]):
                summary = self._attribute(call, generations[0].text)
                attach(generations[0], summary, citations=self._citations)
        finally:
            self._end(run_id)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        call = self._calls.pop(run_id, None)
        stopped = isinstance(error, GeneratorExit | asyncio.CancelledError)
        try:
            if call is not None and stopped and self._services[0].in_background:
                self._attribute(call, "".join(call.streamed))
        finally:
            self._end(run_id)

    def _attribute(self, call: _ModelCall, text: str) -> dict[str, Any] | None:
        """The summary of the answer's attribution, None if nothing was retrieved."""
        if call.attributed:
            return call.summary
        call.attributed = True
        documents = self._documents_for(call.run, "\n".join(call.prompt_texts))
        if not documents:
            if call.run.parent is None and not call.run.orphan:
                self._advice.tell(call.run.shape(), call.run.name, NOTHING_SEEN)
            return None
        answer = Answer(
            text,
            tuple(documents),
            tuple(call.prompt_texts),
            call.prompt,
            elsewhere=self._answers_elsewhere,
            warning=metadata_note(documents, "\n".join(call.prompt_texts)),
            beside_others=call.run.parent is not None,
            span=call.span or span_of(call.run.id),
        )
        service, answer = service_that_saw(self._services, answer)
        run = service.attribute(str(call.run.id), str(call.run.root), answer)
        if run.attribution is not None:
            gone = frozenset(run.attribution.not_located)
            used = [one for index, one in enumerate(documents) if index not in gone]
            self._use(call.run, used)
        if not service.in_background:
            with suppress(RuntimeError):  # a model called on its own, with nobody to tell
                dispatch_custom_event(KEY, run.summary)  # for `astream_events`
        call.summary = run.summary
        return call.summary
