"""Attribution of a chain without a handler to hold: a context manager and a runnable."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any
from uuid import UUID, uuid4

from langchain_core.runnables import Runnable, RunnableConfig, ensure_config
from langchain_core.runnables.config import merge_configs
from langchain_core.runnables.utils import AddableDict
from langchain_core.tracers.context import register_configure_hook
from typing_extensions import Unpack

from attribot_rag.errors import InvalidInput
from langchain_attribot.handler import AttributionCallbackHandler, HandlerOptions
from langchain_attribot.models import language_models_in

_attributing: ContextVar[AttributionCallbackHandler | None] = ContextVar(
    "langchain_attribot", default=None
)
register_configure_hook(_attributing, inheritable=True)


@contextmanager
def attribute(llm: Any, **options: Unpack[HandlerOptions]) -> Iterator[AttributionCallbackHandler]:
    """Attribute every answer that the model gives within the block.

    Gives the handler, whose `last` and `results` hold them; `llm` and `options` are the handler's.
    """
    handler = AttributionCallbackHandler(llm, **options)
    token = _attributing.set(handler)
    try:
        yield handler
    finally:
        handler.close()
        with suppress(ValueError):  # a server may end a generator in another context
            _attributing.reset(token)


def with_attribution(
    chain: Runnable[Any, Any], llm: Any = None, **options: Unpack[HandlerOptions]
) -> AttributedChain:
    """The chain as a runnable that gives {answer, documents, attribution}.

    `documents` are those that the answer was attributed to; without any, `attribution` is None.

    `llm` is the model that answers, or a list of those; without it, all local models in the chain.
    `options` are the handler's. Streamed, the pieces of the answer come first, documents and
    attribution last. Raises InvalidInput if the chain shows no local model.
    """
    llm = llm or language_models_in(chain)
    if not llm:
        raise InvalidInput(
            "the chain shows no local model; pass those that answer: with_attribution(chain, llm)"
        )
    return AttributedChain(chain, AttributionCallbackHandler(llm, **options))


class AttributedChain(Runnable[Any, Any]):
    """A chain whose answers come with their documents and their attribution."""

    def __init__(self, chain: Runnable[Any, Any], handler: AttributionCallbackHandler) -> None:
        self.chain = chain
        self.handler = handler

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        run_id, inner = self._configured(config)
        answer = self.chain.invoke(input, inner, **kwargs)
        return {"answer": answer, **self._found(run_id)}

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        run_id, inner = self._configured(config)
        answer = await self.chain.ainvoke(input, inner, **kwargs)
        return {"answer": answer, **self._found(run_id)}

    def stream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[Any]:
        run_id, inner = self._configured(config)
        for piece in self.chain.stream(input, inner, **kwargs):
            yield AddableDict(answer=piece)
        yield AddableDict(self._found(run_id))

    async def astream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[Any]:
        run_id, inner = self._configured(config)
        async for piece in self.chain.astream(input, inner, **kwargs):
            yield AddableDict(answer=piece)
        yield AddableDict(self._found(run_id))

    def _configured(self, config: RunnableConfig | None) -> tuple[UUID, RunnableConfig]:
        """The id that the chain's run is going to have, and a configuration with the handler."""
        run_id = (config or {}).get("run_id") or uuid4()
        mine = RunnableConfig(callbacks=[self.handler], run_id=run_id)
        return run_id, merge_configs(ensure_config(config), mine)

    def _found(self, run_id: UUID) -> dict[str, Any]:
        run = self.handler.results.get(str(run_id))
        if run is None:
            return {"documents": [], "attribution": None}
        return {"documents": list(run.documents), "attribution": run.summary}
