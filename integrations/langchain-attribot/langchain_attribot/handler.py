"""The callback handler: documents in, answers out, attribution attached."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any
from uuid import UUID
from weakref import WeakSet

from langchain_core.callbacks import dispatch_custom_event
from langchain_core.messages import BaseMessage
from typing_extensions import Unpack

from attribot_rag import LanguageModel
from attribot_rag.errors import DocumentsNotLocated, InvalidInput
from attribot_rag.runtime import (
    Answer,
    AttributedRun,
    AttributionService,
    Counterfactual,
    RunOptions,
    RunStore,
    ServiceOptions,
    answer_without,
    service_that_saw,
)
from langchain_attribot.advice import NOTHING_SEEN, Advice, is_classic
from langchain_attribot.call_tracker import CallTracker, ModelCall, Only, span_of
from langchain_attribot.documents import metadata_note
from langchain_attribot.messages import KEY, attach_to_dict, attach_to_output, output_texts
from langchain_attribot.models import LocalModel, LocalModels, language_model_of, language_models_in
from langchain_attribot.run import Run

logger = logging.getLogger(__name__)

_handlers: WeakSet[AttributionCallbackHandler] = WeakSet()


class HandlerOptions(ServiceOptions, total=False):
    """Options of AttributionCallbackHandler, for functions that pass them on."""

    proxy: LocalModel | None
    language_model: LanguageModel | None
    citations: bool
    only: Only


class AttributionCallbackHandler(CallTracker):
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

    `options` are those of attribot_rag.runtime.RunOptions, by name or whole; `proxy` is that of
    attribot_rag.Attributor, and may be a LangChain model too. With `citations`, `content_blocks` of
    attributed messages show them as standard annotations. In mode 'background' what caused an
    answer comes later: to `on_result`, and to whoever asks `result` or `aresult`.

    `only` says which calls of models are attributed: those of a LangGraph node, with a tag, or of a
    run of this name, themselves or within one; or those for whose names, the set of all of these, a
    function gives True.

    Summaries of at most 16 KB are attached to messages and dicts; `results` keeps the whole runs.
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
        super().__init__(citations=citations, only=only)
        beside = HandlerOptions.__optional_keys__
        run_options = RunOptions.of(type(self).__name__, options, beside=beside)
        store = RunStore(run_options.max_results)
        self._answers_elsewhere = language_model is not None
        models = language_models_in(llm) if language_model is None else [language_model]
        self._services = [
            AttributionService(
                model,
                store=store,
                proxy=None if proxy is None else language_model_of(proxy),
                options=run_options,
            )
            for model in models or [language_model_of(llm)]
        ]
        self.raise_error = run_options.raise_error
        self.attributes_stopped = run_options.mode == "background"
        self._advice = Advice()
        self._told_of_another = False
        self._options = run_options
        _handlers.add(self)

    def __repr__(self) -> str:
        models = ", ".join(service.attributor.language_model.name for service in self._services)
        mode, method = self._options.mode, self._options.method
        return f"{type(self).__name__}({models}, mode={mode!r}, method={method!r})"

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
        """The model's answer without some of the documents, by index, of a run's attribution.

        Waits for a pending run. `generate` and the errors are those of Attributor.answer_without.
        """
        return answer_without(self._services, self.result(run_id), *documents, **generate)

    def root_ended(self, root: Run, outputs: Any) -> None:
        self._advise(root, outputs)
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
        if answer is not None and any(
            run.yields and str(run.id) == answer.run_id for run in root.within()
        ):
            return
        if isinstance(outputs, dict) and root.parsed is not outputs and "messages" not in outputs:
            summary = None if answer is None else answer.summary
            if not attach_to_dict(outputs, summary):
                self._warn_of_another(summary)
            elif summary is not None and is_classic(root.names):
                self._advice.tell_place(root.shape(), root.name)
        elif isinstance(outputs, BaseMessage) and answer is not None and answer.shown is not None:
            attach_to_output(outputs, answer.summary)

    def told_twice(self, call: ModelCall) -> None:
        self._warn_of_another(call.summary)

    def _warn_of_another(self, summary: dict[str, Any] | None) -> None:
        """Log, once, that another handler attributes the same answers."""
        if summary is None or summary["error"] is not None or self._told_of_another:
            return
        self._told_of_another = True
        run_id = summary["run_id"]
        others = [other for other in _handlers if other is not self and run_id in other.results]
        logger.warning(
            "two handlers attribute the same answers: what %s attached stays, and what %s found is "
            "in its `results` alone. Attach one of them only; for several models, "
            "AttributionCallbackHandler([chat, other_chat])",
            next(map(repr, others), "the first"),
            self,
        )

    def _advise(self, root: Run, outputs: Any) -> None:
        """Log why what the root answered has no attribution, if documents are the reason."""
        runs = [run for run in self.results.values() if run.root_id == str(root.id)]
        kinds = {kind for kind, _ in root.shape()}
        if not runs:
            if "model" in kinds and "retriever" not in kinds and not root.documents():
                self._advice.tell(root.shape(), root.name, NOTHING_SEEN)
            return
        texts = set(output_texts(outputs))
        answers = [run for run in runs if run.text in texts] or runs
        ends = [self.results.future(run.run_id) for run in answers]

        def tell(_: object) -> None:
            if all(end.done() and not end.cancelled() for end in ends):
                errors = [end.result().error for end in ends]
                if all(isinstance(error, DocumentsNotLocated) for error in errors):
                    self._advice.tell(root.shape(), root.name, str(errors[-1]))

        for end in ends:
            end.add_done_callback(tell)

    def answered(self, call: ModelCall, text: str) -> dict[str, Any] | None:
        """The summary of the answer's attribution, None if nothing was retrieved."""
        prompt = "\n".join(call.prompt_texts)
        read = self._read_by(call.run, prompt)
        documents = read.documents if read.earlier else self._documents_for(call.run, prompt)
        if not (documents or read.earlier):
            if call.run.parent is None and not call.run.orphan:
                self._advice.tell(call.run.shape(), call.run.name, NOTHING_SEEN)
            return None
        answer = Answer(
            text,
            tuple(read.in_reach if read.earlier else documents),
            tuple(call.prompt_texts),
            call.prompt,
            elsewhere=self._answers_elsewhere,
            warning=metadata_note(documents, prompt),
            beside_others=call.run.parent is not None,
            span=call.span or span_of(call.run.id),
            contents=tuple(documents) if read.earlier else None,
            retrieved=tuple(read.in_reach) if read.earlier else (),
            num_before=read.num_before,
        )
        service, answer = service_that_saw(self._services, answer)
        run = service.attribute(str(call.run.id), str(call.run.root), answer, earlier=read.earlier)
        self._keep(call.run, run)
        if run.attribution is not None:
            gone = frozenset(run.attribution.not_located)
            used = [document for index, document in enumerate(documents) if index not in gone]
            self._use(call.run, used)
        if not service.in_background:
            with suppress(RuntimeError):  # a model called on its own, with nobody to tell
                dispatch_custom_event(KEY, run.summary)  # for `astream_events`
        return run.summary

    def left_out(self, call: ModelCall, text: str) -> None:
        prompt = "\n".join(call.prompt_texts)
        documents = self._documents_for(call.run, prompt)
        if documents:
            error = InvalidInput("only= leaves out the call that gave this answer")
            answer = Answer(text, tuple(documents), tuple(call.prompt_texts), call.prompt)
            run_id, root_id = str(call.run.id), str(call.run.root)
            self._keep(call.run, AttributedRun(run_id, root_id, answer, error=error))
