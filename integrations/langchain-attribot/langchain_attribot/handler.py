"""The callback handler. It sees documents and answers, and attaches attributions."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

from langchain_core.callbacks import dispatch_custom_event
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, Generation
from typing_extensions import Unpack

from attribot_rag import LanguageModel, runtime
from attribot_rag.errors import DocumentsNotLocated
from attribot_rag.runtime import AttributedRun, RunStore, ServiceOptions, Step
from langchain_attribot import messages, models
from langchain_attribot.callbacks import RunCallbacks, StreamedCall, span_of
from langchain_attribot.documents import METADATA_KEY, documents_in, structured_response
from langchain_attribot.models import AskAgain, ModelHolder, ModelHolders

logger = logging.getLogger(__name__)


class AttributionOptions(ServiceOptions, total=False):
    """Options of everything that attributes answers of LangChain's models."""

    proxy: ModelHolder | None
    language_model: LanguageModel | None
    reader: runtime.Reader | None
    citations: bool
    attach: bool


class HandlerOptions(AttributionOptions, total=False):
    """Options of AttributionCallbackHandler, for functions that pass them on."""

    only: runtime.Only


class AttributionCallbackHandler(RunCallbacks, runtime.KeepsRuns):
    """Attaches an attribution to each answer of a chain: which retrieved text caused or supports
    it.

        handler = AttributionCallbackHandler(chat)
        rag = chain.with_config(callbacks=[handler])
        rag.invoke("Who signed the treaty?").response_metadata["attribution"]

    Attach the handler to the chain, or pass it with each call. Do not attach it to the model,
    because it sees no retriever there.

    If a chain returns the arguments of tool calls to its caller, and no tool runs, these arguments
    are the answer, as JSON. This is how structured output works.

    `results` has the last runs, by the id of the model's run and of its root (`config["run_id"]`).

    Args:
        llm: The model that answers: a ChatHuggingFace, or a HuggingFacePipeline on a local
            pipeline. If several models answer, a list of them, or the chain. With `reader`, the
            model that `answer_without` asks again.
        language_model: Computes the scores instead of the model that answers: a local copy of its
            weights, or an attribot_rag.ServedModel. Its tokenizer encodes prompt and answer again
            (`retokenized`). `llm` is then not needed.
        reader: Reads the answers of any other model: a model such as attribot_rag.load_model(),
            'words', your embeddings, or a CrossEncoder for entailment. The result (`basis` reader)
            says what supports the answer, not what caused it. 'words' compares words, numbers and
            names, without PyTorch. Embeddings and a CrossEncoder also find sentences in other
            words.
        proxy: As for attribot_rag.Attributor. It may be a LangChain model.
        only: Which calls are attributed: those in a node or a run of this name, or with this tag.
            You can also pass a function that gets the set of these names and tags, and returns
            whether the call is attributed.
        loose: Whether a prompt may contain documents and answers of an earlier `invoke`, as in a
            script that searches, asks and asks again without a chain. Use this only for a handler
            that serves one request at a time.
        citations: Whether `content_blocks` of messages show citations as standard annotations.
        attach: Whether to attach summaries, of at most 16 KB, to messages and dicts. The attribute
            `results` keeps the whole runs in any case.
        **options: Fields of attribot_rag.runtime.RunOptions by name, or all at once. With
            mode='background', the attribution follows later: `on_result` gets it, and `result` and
            `aresult` wait for it.
    """

    def __init__(
        self,
        llm: ModelHolders | None = None,
        *,
        loose: bool = False,
        **options: Unpack[HandlerOptions],
    ) -> None:
        beside = {*HandlerOptions.__optional_keys__, "loose"}
        self._options = runtime.RunOptions.of(type(self).__name__, options, beside=beside)
        language_model, reader = options.get("language_model"), options.get("reader")
        proxy = options.get("proxy")
        store = RunStore(self._options.max_results)
        scoring = runtime.scoring_model(language_model, reader, models.language_model_of)
        scorers: list[runtime.Scoring] = (
            [*models.language_models_in(llm)] if scoring is None else [scoring]
        )
        services = [
            runtime.AttributionService(
                model,
                store=store,
                proxy=None if proxy is None else models.language_model_of(proxy),
                is_reader=reader is not None,
                options=self._options,
            )
            for model in scorers or [models.language_model_of(llm)]
        ]
        elsewhere = language_model is not None
        super().__init__(
            runtime.Observer(services, elsewhere=elsewhere, only=options.get("only"), loose=loose),
            None if reader is None else partial(AskAgain, models.answering_models_in(llm)),
        )
        self.results = store
        self.raise_error = self._options.raise_error
        self.attributes_stopped = self._options.mode == "background"
        self._citations = options.get("citations", False)
        self._attach = options.get("attach", True)
        self._advice = runtime.Advice(logger)
        if self._citations:
            messages.show_citations()

    def __repr__(self) -> str:
        names = ", ".join(service.name for service in self.services)
        return f"{type(self).__name__}({names}, mode={self._options.mode!r})"

    @property
    def services(self) -> Sequence[runtime.AttributionService]:
        """One service for each model that may answer."""
        return self.observer.services

    @property
    def last(self) -> AttributedRun | None:
        """The run that was attributed last."""
        return self.results.last

    def close(self) -> None:
        """Stop recording the models' generations."""
        for service in self.services:
            service.close()

    def answered(
        self, streamed: StreamedCall, text: str, generation: Generation | None = None
    ) -> None:
        """Attach the summary of an answer."""
        call = streamed.call
        is_first = not call.is_answered
        if call.answer.span is None:
            call.answer = replace(call.answer, span=span_of(UUID(call.step.id)))
        run = self.observer.answered(call, text)
        summary = None if run is None else run.summary
        if is_first and call.wanted:
            self._report(call.step, summary)
        if not self._attach or not isinstance(generation, ChatGeneration):
            return
        message = generation.message
        memo, in_place = call.step.root.memo, isinstance(message, AIMessageChunk)
        may_stream = is_first and summary is not None and "inputs" in memo  # asked for no chunks
        if may_stream and messages.send_summary_chunk(message, summary, after=self):
            memo.setdefault("streamed", {})[message.id] = summary
            in_place = False
        in_place |= generation is streamed.generation
        how: dict[str, Any] = {"citations": self._citations, "provider": streamed.provider}
        messages.attach_to_generation(generation, summary, in_place=in_place, **how)

    def _report(self, step: Step, summary: dict[str, Any] | None) -> None:
        """Report an answer to `astream_events`, or log why there is nothing to report."""
        if summary is None:
            if step.parent is None and not step.is_orphan:
                self._advice.tell(step.shape(), step.name, NOTHING_SEEN)
            elif step.is_orphan and not step.given:
                warnings.warn(WRONG_PLACE, stacklevel=2)
        elif self._options.mode == "inline":
            with suppress(RuntimeError):  # a model called on its own, with nobody to tell
                dispatch_custom_event(messages.KEY, summary)

    def chain_ended(self, step: Step, outputs: Any) -> None:
        documents, memo = tuple(documents_in(outputs)), step.root.memo
        if "streamed" in memo:
            messages.attach_to_streamed(outputs, memo["streamed"])
        if step.kind == "parser":
            memo["parsed"] = outputs
        if "tool_calls" in memo:
            self._arguments_given(step, outputs)
        if step.parent is not None:
            self.observer.ended(step.id, documents=documents)
            return
        # Without outputs, a stream that does not add up.
        is_settled = outputs is None or "settled" in step.memo
        texts = None if is_settled else list(messages.output_texts(outputs))
        answer = self.observer.ended(step.id, texts, documents)
        self._advise(step, outputs)
        if not is_settled:
            self._attach_to_output(step, outputs, answer)

    def _arguments_given(self, step: Step, outputs: Any) -> None:
        """Treat tool calls as the answer if the chain returns their arguments and none was run."""
        waiting: list[StreamedCall] = step.root.memo.get("tool_calls", [])
        given = outputs if step.parent is None else structured_response(outputs)
        if step.parent is not None and given is None:
            return
        is_read = any(inner.kind == "parser" for inner in step.within())
        for streamed in waiting:
            asked, generation = streamed.call.step, streamed.generation
            tools = [inner.begun for inner in step.within() if inner.kind == "tool"]
            is_open = not streamed.call.is_answered and step in asked.around()
            if generation is None or not is_open or max(tools, default=0) > asked.begun:
                continue
            message, inputs = generation.message, step.root.memo.get("inputs")
            if (is_read and given is None) or messages.has_arguments(given, inputs, message):
                if given in messages.arguments_of(message):
                    step.root.memo["parsed"] = given
                self.answered(streamed, messages.answer_text(message), generation)

    def settle(self, root_id: UUID, outputs: object) -> tuple[list[Any], dict[str, Any] | None]:
        """Use `outputs` as the result of a root run that has not ended yet.

        Returns the documents that its answer was attributed to, and its summary, or a dict of
        summaries by key. The summary is None if nothing in the root was attributed.
        """
        root, answer = self.observer.steps.get(root_id), self.results.get(str(root_id))
        runs = {} if answer is None else {"": answer}
        if root is not None and outputs is not None:
            self._arguments_given(root, outputs)
            root.memo["settled"] = True
            answer = self.results.set_answer(root.id, list(messages.output_texts(outputs)))
            runs = self._attach_to_output(root, outputs, answer)
        documents = runtime.merge_documents(run.documents for run in runs.values())
        return documents, _summaries_of(runs)

    def _attach_to_output(
        self, root: Step, outputs: Any, answer: AttributedRun | None
    ) -> dict[str, AttributedRun]:
        """Attach the answer's summary, or several by key. Returns their runs."""
        runs = {} if answer is None else {"": answer}
        is_parsed = root.memo.get("parsed") is outputs
        is_dict = isinstance(outputs, dict) and not is_parsed and "messages" not in outputs
        if is_dict:
            runs = self._runs_by_key(root, outputs) or runs
        if not self._attach:
            return runs
        if is_dict:
            messages.attach_to_mapping(outputs, _summaries_of(runs))
        elif isinstance(outputs, BaseMessage) and answer is not None and answer.shown is not None:
            messages.refresh_summary(outputs, answer.summary)
        return runs

    def _runs_by_key(self, root: Step, outputs: dict[str, Any]) -> dict[str, AttributedRun]:
        """The runs of a dict's values if several are answers, as in a RunnableParallel."""
        steps = [(step.id, step.all_names()) for step in root.within()]
        texts, branches = {}, {}
        for key, value in outputs.items():
            if isinstance(value, str | BaseMessage):
                texts[key] = "".join(messages.output_texts(value))
                own = [step_id for step_id, names in steps if f"map:key:{key}" in names]
                branches[key] = own or [step_id for step_id, _ in steps]
        runs = self.results.by_key(texts, branches)
        return runs if len(runs) > 1 else {}

    def _advise(self, root: Step, outputs: Any) -> None:
        """Log why the root's answer has no attribution, if documents are the reason."""
        runs = self.results.of_root(root.id)
        kinds = {kind for kind, _ in root.shape()}
        if not runs:
            if "model" in kinds and "retriever" not in kinds and not root.documents():
                self._advice.tell(root.shape(), root.name, NOTHING_SEEN)
            return
        texts = set(messages.output_texts(outputs))
        answers = [run for run in runs if run.text in texts] or runs
        ends = [self.results.future(run.run_id) for run in answers]

        def advise(_: object) -> None:
            if all(end.done() and not end.cancelled() for end in ends):
                errors = [end.result().error for end in ends]
                if all(isinstance(error, DocumentsNotLocated) for error in errors):
                    self._advice.tell(root.shape(), root.name, str(errors[-1]))

        for end in ends:
            end.add_done_callback(advise)


NOTHING_SEEN = (
    "no documents were seen. Name them where you search: from langchain_attribot import "
    "retrieved; documents = retrieved(documents). Or name them with the call: "
    f"config={{'metadata': {{'{METADATA_KEY}': documents}}}}. The handler sees retrievers and "
    "tools' artifacts in the chain that it is attached to. Documents of another invoke() count "
    "only if you name them with this call, within `with attribute(llm)`, or with loose=True, for "
    "a handler that serves one request at a time"
)

WRONG_PLACE = (
    "AttributionCallbackHandler is attached to the model, where it sees no retriever; attach it to "
    "the chain, chain.with_config(callbacks=[handler]), or pass it per call"
)


def _summaries_of(runs: Mapping[str, AttributedRun]) -> dict[str, Any] | None:
    """The summary of a single run, or a dict of summaries by key; None without any."""
    summaries = {key: run.summary for key, run in runs.items()}
    return summaries if len(summaries) > 1 else next(iter(summaries.values()), None)
