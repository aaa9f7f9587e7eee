"""The postprocessor. It sees nodes and answers, and attaches attributions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeAlias, get_type_hints
from uuid import uuid4

from llama_index.core.base.llms.types import ChatMessage, CitationBlock, MessageRole, TextBlock
from llama_index.core.base.response.schema import RESPONSE_TYPE, Response
from llama_index.core.callbacks import CallbackManager
from llama_index.core.chat_engine.types import AGENT_CHAT_RESPONSE_TYPE
from llama_index.core.llms import LLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.postprocessor.attribot import query as queries
from llama_index.postprocessor.attribot.completion import Completion
from llama_index.postprocessor.attribot.nodes import nodes_of
from llama_index.postprocessor.attribot.query import describe, find_language_model
from llama_index.postprocessor.attribot.query_tracker import installed
from pydantic import ConfigDict, Field, PrivateAttr, SkipValidation, create_model, model_validator
from typing_extensions import Unpack

from attribot_rag import LanguageModel
from attribot_rag.attribution import Counterfactual, Markers
from attribot_rag.errors import InvalidInput, UnknownOption, UnsupportedModel
from attribot_rag.runtime import (
    AttributedRun,
    Observer,
    Reader,
    RunOptions,
    RunStore,
    Scoring,
    ServiceOptions,
    ServiceRegistry,
    answer_without,
    scoring_model,
)

ModelHolder: TypeAlias = LLM | LanguageModel
"""What holds a local model: a HuggingFaceLLM, or the model itself."""

_NO_DATA = ("annotator", "on_result")
_FIELDS = {field.name: field for field in fields(RunOptions) if field.name != "raise_error"}


class EngineOptions(ServiceOptions, total=False):
    """The options of AttributedQueryEngine by name."""

    language_model: ModelHolder | None
    reader: ModelHolder | Reader | None
    proxy: ModelHolder | None
    score_metadata: bool


class PostprocessorOptions(EngineOptions, total=False):
    """The options of AttributionPostprocessor by name."""

    callback_manager: CallbackManager


class _Checked(BaseNodePostprocessor):
    """A postprocessor that names unknown options, and also takes its options whole."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, options: Any) -> Any:
        if not isinstance(options, dict):
            return options
        UnknownOption.check(cls.__name__, options, {*cls.model_fields, "options"})
        whole = RunOptions.of(cls.__name__, {"options": options.get("options")})
        return {name: getattr(whole, name) for name in _FIELDS} | {
            name: value for name, value in options.items() if name != "options"
        }

    @cached_property
    def run_options(self) -> RunOptions:
        """The options for every service, from the fields."""
        return RunOptions(**{name: getattr(self, name) for name in _FIELDS})


if TYPE_CHECKING:
    OptionFields = _Checked
else:
    hints = get_type_hints(RunOptions)
    for name in ("method", "annotator"):  # any object that has the methods
        hints[name] = SkipValidation[hints[name]]
    OptionFields = create_model(
        "OptionFields",
        __base__=_Checked,
        **{  # only data is written down
            name: (hints[name], Field(default=field.default, exclude=name in _NO_DATA))
            for name, field in _FIELDS.items()
        },
    )


def language_model_of(llm: Any) -> LanguageModel:
    """The model that a HuggingFaceLLM generates with. Raises InvalidInput for other kinds."""
    model = find_language_model(llm)
    if model is None:
        raise InvalidInput(
            f"{describe(llm)} holds no local Hugging Face model; pass a HuggingFaceLLM, or an "
            "attribot_rag.LocalModel(model, tokenizer)"
        )
    return model


AnyResponse: TypeAlias = RESPONSE_TYPE | AGENT_CHAT_RESPONSE_TYPE
"""The response of a query engine or a chat engine."""

logger = logging.getLogger(__name__)


class AttributionPostprocessor(OptionFields, queries.QueryObserver):
    """Attaches an attribution to each response: which retrieved text caused or supports it.

        engine = index.as_query_engine(node_postprocessors=[AttributionPostprocessor()])
        engine.query("Who signed the treaty?").metadata["attribution"]

    The postprocessor finds the model, a HuggingFaceLLM, when the model answers. Your prompt and
    your nodes stay unchanged.

    If you search and call the model without an engine, report the documents:

        with postprocessor.retrieved(documents, question) as response:
            answer = llm.complete(prompt)
        response.metadata["attribution"]

    In mode 'background', and in all asynchronous queries, the response has the status 'pending' at
    first, because it does not wait for the scores. `result` waits for the attribution, and
    `aresult` awaits it. A query never fails because of its attribution.

    Args:
        language_model: Computes the scores instead of the model that answers: a local copy of its
            weights, as a HuggingFaceLLM or an attribot_rag.LanguageModel, or a served model. The
            prompt is then encoded again (`retokenized`).
        reader: Reads the answers of any other model: a model such as attribot_rag.load_model(),
            'words', your embeddings, or a CrossEncoder for entailment. The result (`basis` reader)
            says what supports the answer, not what caused it. 'words' compares words, numbers and
            names, without PyTorch. Embeddings and a CrossEncoder also find sentences in other
            words.
        proxy: As for attribot_rag.Attributor. It may be a HuggingFaceLLM.
        score_metadata: Whether the metadata lines that the model reads with a node count as its
            text.
        **options: Fields of attribot_rag.runtime.RunOptions by name, or all at once, without
            `raise_error`. `on_result` gets the run of each response when its attribution has ended.
    """

    language_model: SkipValidation[ModelHolder | None] = Field(default=None, exclude=True)
    reader: SkipValidation[ModelHolder | Reader | None] = Field(default=None, exclude=True)
    proxy: SkipValidation[ModelHolder | None] = Field(default=None, exclude=True)
    score_metadata: bool = False

    _services: ServiceRegistry = PrivateAttr()
    _observer: Observer = PrivateAttr()
    _scoring_model: Scoring | None = PrivateAttr(default=None)
    _told: set[str] = PrivateAttr(default_factory=set)

    def __init__(self, **options: Unpack[PostprocessorOptions]) -> None:
        super().__init__(**options)  # type: ignore[misc]  # the fields of OptionFields, too

    def model_post_init(self, _: Any) -> None:
        self._scoring_model = scoring_model(self.language_model, self.reader, language_model_of)
        self._services = ServiceRegistry(
            proxy=None if self.proxy is None else language_model_of(self.proxy),
            is_reader=self.reader is not None,
            options=replace(self.run_options, on_result=None),  # which is told of whole responses
        )
        if not isinstance(self._scoring_model, LanguageModel | None):
            # Raises for options that only a model has.
            self._services.service_for(self._scoring_model)
        self._observer = Observer((), store=self._services.store, steps=installed().steps)

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> AttributionPostprocessor:
        """A copy with the same options, models and callbacks, without results."""
        return type(self)(**self._options())

    __copy__ = __deepcopy__

    def __reduce__(self) -> Any:
        return partial(type(self), **self._options()), ()

    def _options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in type(self).model_fields}

    @classmethod
    def class_name(cls) -> str:
        return "AttributionPostprocessor"

    @property
    def results(self) -> RunStore:
        """The last answers, by the `run_id` in their responses' metadata and their calls' ids."""
        return self._services.store

    def close(self) -> None:
        """Release what was prepared for the models."""
        self._services.close()

    def result(self, response: AnyResponse, timeout: float | None = None) -> AttributedRun:
        """The finished run of a response. Waits while it is pending.

        Raises TimeoutError after `timeout` seconds, and InvalidInput for a response without a run.
        """
        return _told(response, self.results.wait(_run_id_of(response), timeout))

    async def aresult(self, response: AnyResponse, timeout: float | None = None) -> AttributedRun:
        """The finished run of a response, as `result` returns it, without blocking the event
        loop."""
        return _told(response, await self.results.wait_async(_run_id_of(response), timeout))

    @contextmanager
    def retrieved(self, documents: Iterable[Any] = (), query: str = "") -> Iterator[Response]:
        """Report documents that you retrieved without an engine.

        Models that you call within the block answer from these documents.

        What retrievers, engines and agents find within the block counts too. When the block ends,
        its response gets the answer and the attribution. If you stream the answer, set `response`
        of this response to the text that was shown. In a coroutine, the attribution is then
        pending: await `aresult(response)`.

        Args:
            documents: Nodes, texts, mappings, or other documents. The text of a mapping is its
                `text`, or else its longest text.
            query: The question.
        """
        nodes = nodes_of(documents)
        step = self._observer.began(f"retrieved-{uuid4()}")
        in_loop = asyncio._get_running_loop() is not None
        tracked = queries.TrackedQuery(step, self, query, nodes, in_loop)
        tracked.gathers, tracked.told = True, nodes
        response = Response(None, source_nodes=nodes)
        try:
            with queries.streaming(tracked):
                yield response
        except BaseException:
            tracked.done()
            raise
        finally:
            self._observer.ended(step.id)
        response.source_nodes = list(tracked.nodes)
        if not tracked.calls:
            if tracked.nodes:
                self.unseen(tracked, response)
            return
        last = tracked.calls[-1]
        if response.response is None:
            texts = filter(None, map(queries.text_of, tracked.within[::-1]))
            response.response = next((t for t in texts if t in (last.answer or t)), last.answer)
        if not (last.answer or "").strip().endswith(queries.text_of(response)):
            last.answer = response.response
        for inner in tracked.within:
            if queries.text_of(inner) == queries.text_of(response):
                tracked.add(inner)
        tracked.finish(response)

    def answer_without(
        self, response: AnyResponse, *documents: int, **generate: Any
    ) -> Counterfactual:
        """The model's answer without some documents of a response's attribution, by index.

        With a `reader`, this asks the model that answered once more. It waits for a pending
        attribution. `generate` and the errors are as in Attributor.answer_without.
        """
        run = self.result(response)
        return answer_without(self._services.services, run, *documents, **generate)

    def cited_response(
        self,
        response: AnyResponse,
        *,
        remarks: bool = True,
        markers: Markers = "audited",
        sources: bool = False,
    ) -> str:
        """The answer with the numbers of its citations, as by Attribution.to_cited_text.

        This waits for the attribution, and raises its error if there is one.
        """
        run = self.result(response)
        text = run.to_cited_text(remarks=remarks, markers=markers, sources=sources)
        return text.removeprefix(before_answer(run))

    def cited_message(self, response: AnyResponse) -> ChatMessage:
        """The answer as a message with a CitationBlock for each citation; see `cited_response`."""
        return cited_message(self.result(response))

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        return nodes

    def model_of(self, llm: LLM) -> Scoring | None:
        """The model or reader that scores the answers of this LlamaIndex model."""
        return self._scoring_model or queries.find_language_model(llm)

    def model_called(self, query: queries.TrackedQuery, scoring: Scoring) -> None:
        """Record the model until its answer is attributed."""
        service = self._services.service_for(scoring)
        service.begin_recording()
        query.when_done.append(service.end_recording)

    def answered(self, query: queries.TrackedQuery, response: Any) -> None:
        """Attribute a response, after its stream has ended if it is streamed."""
        completion = Completion(
            query, self._observer, self._services, self.run_options, self.score_metadata, self._told
        )
        try:
            completion.begin(response)
        except KeyboardInterrupt as error:
            completion.fail(error)
            raise
        except Exception:  # nothing can be attached to the response
            logger.exception("no attribution of %s", query.run_id)
            query.done()

    def unseen(self, query: queries.TrackedQuery, response: Any) -> None:
        """Attach an error, because no model that was observed gave this response."""
        error = UnsupportedModel(
            "nodes went through the postprocessor, but no call of a model of LlamaIndex was seen "
            "that gave this answer. Call the model within the engine, or within `with "
            "postprocessor.retrieved(documents) as response:`. Or attribute the answer with "
            "attribot_rag.Attributor(model, tokenizer).attribute(prompt, answer, nodes)"
        )
        logger.warning("no attribution: %s", error)
        query.add(response)
        query.attach(self.results.add(query.run_of(queries.text_of(response), error)))


def _run_id_of(response: Any) -> str:
    summary = (getattr(response, "metadata", None) or {}).get(queries.KEY) or {}
    if "run_id" not in summary:
        raise InvalidInput(
            "the response carries no attribution: nothing was retrieved for it, or no model of "
            "LlamaIndex was called. A search is seen if an AttributionPostprocessor is among its "
            "node_postprocessors; every search and agent within a block is: with "
            "postprocessor.retrieved() as response: ..."
        )
    return str(summary["run_id"])


def _told(response: Any, run: AttributedRun) -> AttributedRun:
    """Give the response its run, before a waiting thread may see it."""
    if response.metadata[queries.KEY]["status"] == "pending":
        response.metadata[queries.KEY] = run.summary
    return run


def cited_message(run: AttributedRun) -> ChatMessage:
    """The answer as a message with a CitationBlock for each document that a sentence cites.

    `additional_location_info` has the document's `number`, and the characters `start` and `end` of
    the sentence in the answer. Raises the run's error if there is one.
    """
    if run.error is not None:
        raise run.error
    before, composition = len(before_answer(run)), run.composition
    blocks: list[TextBlock | CitationBlock] = []
    if composition is not None:
        for sentence in composition.sentences:
            for origin in sentence.origins:
                for index in origin.documents:
                    document = origin.attribution.documents[index]
                    place = {
                        "number": composition.number_of(origin, index),
                        "start": sentence.cited.start - before,
                        "end": sentence.cited.end - before,
                    }
                    blocks.append(
                        CitationBlock(
                            cited_content=TextBlock(text=origin.source.text.strip()),
                            source=str(document.id or ""),
                            title=document.title,
                            additional_location_info=place,
                        )
                    )
    text = run.text if run.attribution is None else run.attribution.response
    return ChatMessage(role=MessageRole.ASSISTANT, blocks=[TextBlock(text=text[before:]), *blocks])


def before_answer(run: AttributedRun) -> str:
    """What the model said before the answer that was shown, such as an agent's thought."""
    text = run.text[run.answer.start :]
    return text.removesuffix(run.shown) if run.shown and text.endswith(run.shown) else ""
