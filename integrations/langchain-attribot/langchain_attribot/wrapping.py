"""Attributes a chain without a handler of your own: a context manager and a runnable."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, get_type_hints
from uuid import UUID

from langchain_core.callbacks import BaseRunManager
from langchain_core.documents import Document
from langchain_core.runnables import Runnable, RunnableConfig, ensure_config
from langchain_core.runnables.config import merge_configs
from langchain_core.runnables.utils import AddableDict, ConfigurableFieldSpec
from langchain_core.tracers.context import register_configure_hook
from langchain_core.utils.pydantic import create_model_v2 as create_model
from pydantic import BaseModel
from typing_extensions import TypedDict, Unpack

from attribot_rag.errors import InvalidInput
from langchain_attribot.handler import AttributionCallbackHandler, HandlerOptions
from langchain_attribot.models import language_models_in

if TYPE_CHECKING:
    from langchain_core.runnables.graph import Graph

    from langchain_attribot.models import ModelHolders

Question = TypeVar("Question")
Answer = TypeVar("Answer")

_attributing: ContextVar[AttributionCallbackHandler | None] = ContextVar(
    "langchain_attribot", default=None
)
register_configure_hook(_attributing, inheritable=True)


def attribute(
    llm: ModelHolders | None = None, **options: Unpack[HandlerOptions]
) -> AttributedBlock:
    """Attribute each answer that the model gives within the block, of `with` or `async with`.

    The block's value is a handler, whose `last` and `results` contain the answers. The handler gets
    `llm` and `options`. A prompt in the block may contain documents and answers from earlier in the
    block, so a script can search, ask and ask again without a chain.
    """
    return AttributedBlock(AttributionCallbackHandler(llm, loose=True, **options))


class AttributedBlock:
    """A block of `attribute`. Its value is a handler, which it closes at the end."""

    def __init__(self, handler: AttributionCallbackHandler) -> None:
        self._handler = handler

    def __enter__(self) -> AttributionCallbackHandler:
        self._token = _attributing.set(self._handler)
        return self._handler

    def __exit__(self, *_: object) -> None:
        self._handler.close()
        with suppress(ValueError):  # a server may end a generator in another context
            _attributing.reset(self._token)

    async def __aenter__(self) -> AttributionCallbackHandler:
        return self.__enter__()

    async def __aexit__(self, *_: object) -> None:
        self.__exit__()


def with_attribution(
    chain: Runnable[Question, Answer],
    llm: ModelHolders | None = None,
    **options: Unpack[HandlerOptions],
) -> AttributedChain[Question, Answer]:
    """Make a runnable that returns the chain's {answer, documents, attribution}.

    `documents` are the documents that the answer was attributed to. If there are none,
    `attribution` is None. In a stream, the pieces of the answer come first, then documents and
    attribution. Raises InvalidInput if the chain contains no local model, and you pass no `llm`,
    `language_model` or `reader`.

    Args:
        chain: The chain that answers.
        llm: The model that answers, or a list of models; by default all local models in the chain.
        **options: The handler's options, also `language_model` and `reader`.
    """
    is_read = options.get("reader") is not None
    llm = llm or (chain if is_read else language_models_in(chain))
    if not llm and options.get("language_model") is None:
        raise InvalidInput(
            "the chain shows no local model; pass those that answer: with_attribution(chain, llm), "
            "or a local copy of a model that answers elsewhere: with_attribution(chain, "
            "language_model=...). For any other model, pass a reader: "
            "with_attribution(chain, reader=attribot_rag.load_model()), or reader='words', which "
            "needs no model"
        )
    return AttributedChain(chain, AttributionCallbackHandler(llm, **options))


class AttributedAnswer(TypedDict, Generic[Answer]):
    """A chain's answer, the documents that it was attributed to, and the summary of that."""

    answer: Answer
    documents: list[Document]
    attribution: dict[str, Any] | None


class AttributedChain(Runnable[Question, AttributedAnswer[Answer]]):
    """A chain that returns its answers with their documents and their attribution.

    It has the chain's input schema and graph. Its own run is around the chain's run, so tracers
    show what it returns. `handler.results` also has the run by that run's id.
    """

    def __init__(
        self, chain: Runnable[Question, Answer], handler: AttributionCallbackHandler
    ) -> None:
        self.chain = chain
        self.handler = handler

    @property
    def InputType(self) -> type[Question]:  # noqa: N802
        return self.chain.InputType

    @property
    def OutputType(self) -> type[AttributedAnswer[Answer]]:  # noqa: N802
        return cast(
            type[AttributedAnswer[Answer]],
            AttributedAnswer[self.chain.OutputType],  # type: ignore[name-defined]
        )

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        return self.chain.config_specs

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        return cast(type[BaseModel], self.chain.get_input_schema(config))

    def get_output_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        fields = {**get_type_hints(AttributedAnswer), "answer": self.chain.OutputType}
        return create_model(
            self.get_name("Output"),
            field_definitions={name: (of, ...) for name, of in fields.items()},
        )

    def get_graph(self, config: RunnableConfig | None = None) -> Graph:
        return self.chain.get_graph(config)

    def invoke(
        self, input: Question, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AttributedAnswer[Answer]:
        return self._call_with_config(self._invoke, input, self._observed(config), **kwargs)

    async def ainvoke(
        self, input: Question, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AttributedAnswer[Answer]:
        return await self._acall_with_config(self._ainvoke, input, self._observed(config), **kwargs)

    def stream(
        self, input: Question, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[AttributedAnswer[Answer]]:
        yield from self._transform_stream_with_config(
            iter([input]), self._transform, self._observed(config), **kwargs
        )

    async def astream(
        self, input: Question, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[AttributedAnswer[Answer]]:
        async def given() -> AsyncIterator[Question]:
            yield input

        async for piece in self._atransform_stream_with_config(
            given(), self._atransform, self._observed(config), **kwargs
        ):
            yield piece

    def _observed(self, config: RunnableConfig | None) -> RunnableConfig:
        return merge_configs(ensure_config(config), RunnableConfig(callbacks=[self.handler]))

    def _invoke(
        self, input: Question, run_manager: BaseRunManager, config: RunnableConfig, **kwargs: Any
    ) -> AttributedAnswer[Answer]:
        answer = self.chain.invoke(input, config, **kwargs)
        return _piece(answer=answer, **self._found(run_manager.run_id, answer))

    async def _ainvoke(
        self, input: Question, run_manager: BaseRunManager, config: RunnableConfig, **kwargs: Any
    ) -> AttributedAnswer[Answer]:
        answer = await self.chain.ainvoke(input, config, **kwargs)
        return _piece(answer=answer, **self._found(run_manager.run_id, answer))

    def _transform(
        self,
        input: Iterator[Question],
        run_manager: BaseRunManager,
        config: RunnableConfig,
        **kwargs: Any,
    ) -> Iterator[AttributedAnswer[Answer]]:
        total: Answer | None = None
        for piece in self.chain.transform(input, config, **kwargs):
            total = _added(total, piece)
            yield _piece(answer=piece)
        yield _piece(**self._found(run_manager.run_id, total))

    async def _atransform(
        self,
        input: AsyncIterator[Question],
        run_manager: BaseRunManager,
        config: RunnableConfig,
        **kwargs: Any,
    ) -> AsyncIterator[AttributedAnswer[Answer]]:
        total: Answer | None = None
        async for piece in self.chain.atransform(input, config, **kwargs):
            total = _added(total, piece)
            yield _piece(answer=piece)
        yield _piece(**self._found(run_manager.run_id, total))

    def _found(self, run_id: UUID, answer: Answer | None) -> dict[str, Any]:
        documents, attribution = self.handler.settle(run_id, answer)
        return {"documents": documents, "attribution": attribution}


def _piece(**part: Any) -> AttributedAnswer[Any]:
    """A part of an answer in a stream; parts add up to the whole."""
    return cast(AttributedAnswer[Any], AddableDict(part))


def _added(total: Answer | None, piece: Answer) -> Answer:
    """The sum of two pieces, as LangChain adds up a stream.

    A piece that cannot be added replaces it.
    """
    if total is None:
        return piece
    try:
        return cast(Answer, total + piece)  # type: ignore[operator]
    except TypeError:
        return piece
