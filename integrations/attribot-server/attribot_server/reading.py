"""Reads the bodies of requests: JSON of a known form, or 422."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Coroutine
from typing import Any

from anyio import to_thread
from fastapi import HTTPException, Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError

from attribot_server.problems import NO_OBJECT, listed
from attribot_server.request_models import AskRequest, AttributeRequest

_BODIES: dict[str, type[BaseModel]] = {"/attribute": AttributeRequest, "/ask": AskRequest}
_LARGE = 10_000  # bytes of a body that is read outside of the event loop


class BodyRoute(APIRoute):
    """A route that reads its body strictly, and outside of the event loop if it is large."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle, kind = super().get_route_handler(), _BODIES.get(self.path)

        async def handler(request: Request) -> Response:
            if kind is not None:
                request = _Reading(request.scope, request.receive)
                request.kind = kind
            return await handle(request)

        return handler


class _Reading(Request):
    kind: type[BaseModel]

    async def json(self) -> BaseModel:
        """The body as an object of its kind, which FastAPI takes as it is; raises HTTPException."""
        body = await self.body()
        if len(body) < _LARGE:
            return read(self.kind, body)
        return await to_thread.run_sync(read, self.kind, body)


def read(kind: type[BaseModel], body: bytes) -> BaseModel:
    """The object of this kind in a body. Raises HTTPException.

    Values that Python's JSON accepts beyond the standard are refused, because the answer could not
    contain them: NaN, numbers beyond the largest float, halves of surrogate pairs.
    """
    try:
        data = json.loads(body, parse_constant=_not_a_number, parse_float=_finite)
        if b"\\u" in body:
            json.dumps(data, ensure_ascii=False).encode()
        return kind.model_validate(data)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False, include_input=False)
        raise HTTPException(422, listed(details)) from error
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise HTTPException(
            422,
            f"{half!a} is half of a surrogate pair, not a unicode character; leave it out",
        ) from error
    except _NoJson as error:
        raise HTTPException(422, str(error)) from error
    except (ValueError, RecursionError) as error:
        raise HTTPException(422, NO_OBJECT) from error


class _NoJson(Exception):
    """A value that JSON, or a float, cannot hold."""


def _not_a_number(name: str) -> None:
    raise _NoJson(f"{name} is no JSON; send a number, null or a text")


def _finite(number: str) -> float:
    value = float(number)
    if math.isinf(value):
        raise _NoJson(f"{number:.40} is beyond the largest number; send it as a text")
    return value
