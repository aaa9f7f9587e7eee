"""The service: one model, one attribution at a time, a bounded queue before it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from pathlib import PurePath
from typing import Any, TypeVar

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse

from attribot_rag.adapting import Worker
from attribot_rag.attribution import Attribution
from attribot_rag.attributor import Attributor
from attribot_rag.context import Document
from attribot_rag.corpus import retrieve
from attribot_rag.errors import AttributionError, InvalidInput, QueueFull, ScoringOutOfMemory
from attribot_rag.language_model import LanguageModel
from attribot_rag.scoring import Budget
from attribot_rag.serving.access import Guard
from attribot_rag.serving.page import page_and_policy
from attribot_rag.serving.request_models import (
    Answer,
    AskRequest,
    AttributeRequest,
    Health,
    Problem,
    read_documents,
)

Result = TypeVar("Result")

_HANGUP_CHECKS = 0.25  # seconds
# What pydantic puts between fields and indices, for what a value may be.
_ALTERNATIVES = {"str", "constrained-str", "list[Message]", "GivenDocument"}
_NO_OBJECT = "the body is no JSON object; send one, with Content-Type: application/json"
_REFUSALS: dict[int | str, dict[str, Any]] = {
    code: {"model": Problem} for code in (400, 401, 413, 422, 429, 503)
}


@dataclass(frozen=True)
class Limits:
    """At most `waiting` requests wait or are worked on, each with at most `bytes` of body.

    `seconds` is how long one answer may take, and again how long its attribution may, which is
    then partial; `chunks` is how many pieces of the files are retrieved for a question.
    """

    waiting: int = 8
    bytes: int = 1_000_000
    seconds: float = 60.0
    chunks: int = 4


def create_app(
    language_model: LanguageModel,
    *,
    chunks: Sequence[Document] = (),
    token: str | None = None,
    limits: Limits | None = None,
    **options: Any,
) -> FastAPI:
    """The service as an ASGI application.

    `chunks` are pieces of files that questions without documents are answered from; `token` is the
    bearer token that clients must send, if any. `options` are those of Attributor. Raises
    InvalidInput for limits that let nothing through, or an empty token.
    """
    limits = limits or Limits()
    if min(limits.waiting, limits.bytes, limits.seconds, limits.chunks) <= 0:
        raise InvalidInput(f"{limits}: all limits must be above 0")
    if token is not None and not token.strip():
        raise InvalidInput("the token is empty; leave it out to let everybody in")
    service = _Service(language_model, tuple(chunks), limits, options)
    app = FastAPI(
        title="attribot-rag",
        summary="Which retrieved text caused the answer",
        docs_url=None,
        redoc_url=None,
        responses=_REFUSALS,
    )
    app.add_middleware(
        Guard,
        token=token,
        max_bytes=limits.bytes,
        open_to_all=frozenset({"/", "/health", "/openapi.json", "/schema.json"}),
    )
    app.add_exception_handler(AttributionError, _refused)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.get("/", response_class=HTMLResponse)(page)
    app.get("/health")(service.health)
    app.get("/schema.json")(schema)
    app.post("/attribute", response_model=dict[str, Any])(service.attribute)
    app.post("/ask", response_model=Answer)(service.ask)
    return app


class _Service:
    def __init__(
        self,
        language_model: LanguageModel,
        chunks: tuple[Document, ...],
        limits: Limits,
        options: dict[str, Any],
    ) -> None:
        self._chunks = chunks
        self._limits = limits
        given = {"progress": False, "budget": Budget(seconds=limits.seconds), **options}
        self._attributor = Attributor(language_model.model, language_model.tokenizer, **given)
        self._worker = Worker.of(language_model.model)

    async def health(self) -> Health:
        return Health(
            model=PurePath(self._attributor.language_model.name).name,
            waiting=self._worker.num_pending,
            max_waiting=self._limits.waiting,
        )

    async def attribute(self, given: AttributeRequest, request: Request) -> Response:
        """What caused a response, after the attribution's public schema."""
        attribution = await self._run(
            request,
            partial(
                self._attributor.attribute,
                given.read_prompt(),
                given.response,
                read_documents(given.documents),
            ),
        )
        return _json(_shown(attribution).to_dict())

    async def ask(self, given: AskRequest, request: Request) -> Response:
        """An answer of the model from the documents, and what caused it."""
        attribution = _shown(await self._run(request, partial(self._answer, given)))
        answer: dict[str, Any] = {
            "answer": attribution.response,
            "attribution": attribution.to_dict(),
            "html": attribution.to_html() if given.html else None,
        }
        return _json(answer)

    def _answer(self, given: AskRequest) -> Attribution:
        if given.documents is not None:
            documents = read_documents(given.documents)
        elif self._chunks:
            documents = retrieve(given.question, self._chunks, self._limits.chunks)
        else:
            raise InvalidInput("no files are served; send documents with the question")
        return self._attributor.ask(
            given.question,
            documents,
            max_new_tokens=given.max_new_tokens,
            max_time=self._limits.seconds,
        )

    async def _run(self, request: Request, task: Callable[[], Result]) -> Result:
        """Its turn in the queue; who hangs up loses it."""
        try:
            future = self._worker.submit(task, max_pending=self._limits.waiting)
        except QueueFull as full:
            detail = f"the queue is full (it takes {self._limits.waiting}); try again later"
            raise HTTPException(429, detail, {"Retry-After": "5"}) from full
        waited = asyncio.wrap_future(future)
        while not waited.done():
            await asyncio.wait({waited}, timeout=_HANGUP_CHECKS)
            if not waited.done() and await request.is_disconnected():
                future.cancel()
                raise HTTPException(400, "the client has gone")
        return waited.result()


def _shown(attribution: Attribution) -> Attribution:
    """Where the model lies on this machine is nobody else's affair."""
    provenance = attribution.provenance
    return replace(attribution, provenance=replace(provenance, model=provenance.model_name))


async def page() -> HTMLResponse:
    """Asks, and shows what caused the answer."""
    text, policy = page_and_policy()
    return HTMLResponse(text, headers={"Content-Security-Policy": policy})


async def schema() -> dict[str, Any]:
    """The JSON Schema of attributions."""
    text = files("attribot_rag.attribution").joinpath("schema.json").read_text("utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


async def _refused(_: Request, error: Exception) -> Response:
    """What cannot be attributed is the client's affair, what does not fit is the machine's."""
    status = 422 if isinstance(error, InvalidInput) else 500
    if isinstance(error, ScoringOutOfMemory):
        status = 503
    return _json({"detail": str(error)}, status)


async def _malformed(_: Request, error: Exception) -> Response:
    """Which fields are wrong; what stood in them may be anything, and is not repeated."""
    assert isinstance(error, RequestValidationError)
    said = []
    for one in error.errors():
        place = [part for part in one["loc"][1:] if part not in _ALTERNATIVES]
        if not place or one["type"] == "json_invalid":
            said = [_NO_OBJECT]
            break
        said.append(f"{'.'.join(map(str, place))}: {one['msg']}")
    return _json({"detail": "; ".join(dict.fromkeys(said))}, 422)


def _json(data: Any, status: int = 200) -> Response:
    """In ASCII, because texts may hold halves of surrogate pairs."""
    return Response(json.dumps(data, allow_nan=False), status, media_type="application/json")
