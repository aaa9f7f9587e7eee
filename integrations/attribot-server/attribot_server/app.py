"""The service: one model that several clients share, with a queue of limited length."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.routing import Route
from typing_extensions import Unpack

from attribot_rag import (
    Attribution,
    AttributionError,
    Attributor,
    AttributorOptions,
    Budget,
    Document,
    LanguageModel,
    Options,
)
from attribot_rag.attribution import attribution_schema
from attribot_rag.corpus import retrieve
from attribot_rag.display import answer_data, digest, element_script, page_part
from attribot_rag.errors import InvalidInput, QueueFull
from attribot_server.access import AccessControl
from attribot_server.access import Limits as Limits
from attribot_server.fair_queue import FairQueue
from attribot_server.metrics import CountResponses, Metrics
from attribot_server.requests import (
    AskRequest,
    AskResponse,
    AttributeRequest,
    BodyRoute,
    Health,
    QueueStatus,
    read_documents,
)
from attribot_server.responses import (
    LINES,
    REFUSALS,
    Pieces,
    json_response,
    malformed,
    refused,
    streamed,
)


def create_app(
    language_model: LanguageModel,
    *,
    chunks: Sequence[Document] = (),
    token: str | None = None,
    hosts: Sequence[str] = ("*",),
    limits: Limits | None = None,
    proxy: LanguageModel | None = None,
    **options: Unpack[AttributorOptions],
) -> FastAPI:
    """The service as an ASGI application.

    Raises InvalidInput for limits that are not above 0, and for an empty token.

    Args:
        language_model: The model that answers and is attributed, local or served.
        chunks: The texts in which the service searches for a question without documents.
        token: The bearer token that clients must send, if any. Several tokens, one on each line,
            tell clients apart.
        hosts: The host names that the service answers to.
        limits: Limits on requests, and on the work for each.
        proxy: As for Attributor.
        **options: As for Attributor.
    """
    limits = limits or Limits()
    if min(vars(limits).values()) <= 0:
        raise InvalidInput(f"{limits}: all limits must be above 0")
    if token is not None and not token.strip():
        raise InvalidInput("the token is empty; leave it out to let everybody in")
    bounded = Options.of(
        "create_app", options, progress=False, budget=Budget(seconds=limits.seconds)
    )
    queue = FairQueue(limits.waiting, at_once=limits.clients, stall_seconds=limits.stall_seconds)
    attributor = _Sharing(language_model, proxy=proxy, options=bounded)
    attributor.step = queue.step
    metrics = Metrics(num_waiting=lambda: len(queue))
    service = _Service(attributor, queue, metrics, tuple(chunks), limits)
    app = FastAPI(
        title="attribot-rag",
        summary="Which retrieved text caused the answer",
        docs_url=None,
        redoc_url=None,
        responses=REFUSALS,
    )
    app.state.queue = queue
    app.router.route_class = BodyRoute
    app.add_exception_handler(AttributionError, refused)
    app.add_exception_handler(RequestValidationError, malformed)
    app.get("/", response_class=HTMLResponse)(page)
    app.get("/attribot-answer.js", response_class=Response)(script)
    app.get("/health", responses={503: {"model": Health}})(service.health)
    app.get("/schema.json")(attribution_schema)
    app.get("/queue")(service.queue)
    app.get("/metrics", include_in_schema=False)(metrics.show)
    app.post("/attribute", response_model=dict[str, Any])(service.attribute)
    app.post("/ask", response_model=AskResponse, responses={200: {"content": {LINES: {}}}})(
        service.ask
    )
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=hosts)
    app.add_middleware(
        AccessControl,
        tokens=tuple(filter(str.strip, (token or "").splitlines())),
        open_paths=frozenset(
            {"/", "/attribot-answer.js", "/health", "/openapi.json", "/schema.json"}
        ),
        limits=limits,
        queue=queue,
    )
    routes = frozenset(route.path for route in app.routes if isinstance(route, Route))
    app.add_middleware(CountResponses, metrics=metrics, routes=routes)
    return app


class _Sharing(Attributor):
    """Shares the model by time with other threads, between two batches.

    `step` is called after each batch, each piece of a prompt, and each token of an answer.
    """

    step: Callable[[], None]

    def between_steps(self) -> None:
        self.step()

    def between_batches(self) -> float:
        self.step()
        seconds = self.language_model.weights.give_way()
        self.step()
        return seconds


@dataclass
class _Service:
    _attributor: Attributor
    _queue: FairQueue
    _metrics: Metrics
    _chunks: Sequence[Document]
    _limits: Limits

    async def health(self, response: Response) -> Health:
        """Whether the service goes on; 503 while a request makes no progress."""
        stalled = self._queue.num_stalled
        response.status_code = 503 if stalled else 200
        return Health(
            status="stalled" if stalled else "ok",
            stalled=stalled,
            model=self._attributor.language_model.public_name,
            waiting=len(self._queue),
            max_waiting=self._limits.waiting,
        )

    async def attribute(self, body: AttributeRequest, request: Request) -> Response:
        """The attribution of a response, by the public schema."""
        task = partial(
            self._attributor.attribute,
            body.read_prompt(),
            body.response,
            read_documents(body.documents),
            answered_by=body.answered_by,
        )
        return json_response((await self._attribution(request, task)).to_dict())

    async def ask(self, body: AskRequest, request: Request) -> Response:
        """An answer of the model from the documents, with its attribution."""
        if not body.stream:
            attribution = await self._attribution(request, partial(self._answer, body))
            return json_response(_answered(body, attribution))
        pieces = Pieces(self._attributor.language_model.tokenizer, data=body.data)
        task = partial(self._answer, body, streamer=pieces)
        if body.data:

            def tell(attribution: Attribution) -> None:
                pieces.tell({"data": answer_data(_public(attribution))})

            task = partial(task, on_sentence=tell)
        attributing = asyncio.ensure_future(self._attribution(request, task))
        return await streamed(pieces, attributing, partial(_answered, body))

    def _answer(self, body: AskRequest, **generate: Any) -> Attribution:
        if body.documents is not None:
            documents = read_documents(body.documents)
        elif self._chunks:
            documents = retrieve(body.question, self._chunks, self._limits.chunks)
        else:
            raise InvalidInput("no files are served; send documents with the question")
        return self._attributor.ask(
            body.question,
            documents,
            max_new_tokens=body.max_new_tokens,
            max_time=self._limits.seconds,
            **generate,
        )

    async def queue(self, request: Request) -> QueueStatus:
        """The queue, and the places of this client's requests in it."""
        return QueueStatus(
            waiting=len(self._queue),
            max_waiting=self._limits.waiting,
            places=self._queue.places(request.state.client),
        )

    async def _attribution(self, request: Request, task: Callable[[], Attribution]) -> Attribution:
        """The task's attribution after its turn in the queue; cancelled if the client hangs up."""
        measured = partial(self._metrics.measured, request.url.path, task)
        working = asyncio.ensure_future(self._queue.run(request.state.client, measured))
        leaving = asyncio.ensure_future(_leaves(request))
        try:
            await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                request.state.refusal = "client gone"
                raise HTTPException(400, "the client has gone")
            return _public(working.result())
        except QueueFull as full:
            headers = {"Retry-After": str(self._queue.retry_after)}
            raise HTTPException(429, str(full), headers) from full
        finally:
            working.cancel()
            leaving.cancel()


def _answered(body: AskRequest, attribution: Attribution) -> dict[str, Any]:
    return {
        "answer": attribution.response,
        "cited_text": attribution.to_cited_text(),
        "attribution": attribution.to_dict(),
        "html": attribution.to_html(question=body.question) if body.html else None,
        "data": answer_data(attribution) if body.data else None,
    }


async def _leaves(request: Request) -> None:
    """Returns when the client disconnects."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _public(attribution: Attribution) -> Attribution:
    """The attribution without the model's path or address, which are private."""
    provenance = attribution.provenance
    device = provenance.device.partition("://")[0]
    shown = replace(provenance, model=provenance.model_name, device=device)
    return replace(attribution, provenance=shown)


async def page() -> HTMLResponse:
    """The page for asking questions, with the attribution of the answers."""
    text, policy = _page_and_policy()
    return HTMLResponse(text, headers={"Content-Security-Policy": policy})


async def script() -> Response:
    """The script of <attribot-answer>, for pages of other sites too."""
    headers = {"Cross-Origin-Resource-Policy": "cross-origin", "Cache-Control": "max-age=3600"}
    return Response(element_script(), media_type="text/javascript", headers=headers)


@cache
def _page_and_policy() -> tuple[str, str]:
    html, style, script = (
        page_part(name, "attribot_server") for name in ("page.html", "page.css", "page.js")
    )
    element = element_script()
    policy = "; ".join(
        [
            "default-src 'none'",
            f"style-src '{digest(style)}'",
            f"script-src '{digest(script)}' '{digest(element)}'",
            "connect-src 'self'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    return str(html).format(style=style, script=script, element=element), policy
