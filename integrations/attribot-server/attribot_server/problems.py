"""Error responses of the service: a status, and JSON with the `detail`."""

from __future__ import annotations

import json
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError

from attribot_rag.errors import AttributionError, InvalidInput, ScoringOutOfMemory, ServerFailed
from attribot_server.fair_queue import ServiceStopping
from attribot_server.request_models import Problem

REFUSALS: dict[int | str, dict[str, Any]] = {
    code: {"model": Problem} for code in (400, 401, 408, 413, 422, 429, 502, 503)
}
_STATUSES: dict[type[AttributionError], int] = {
    InvalidInput: 422,
    ServerFailed: 502,
    ScoringOutOfMemory: 503,
    ServiceStopping: 503,
}
# The alternatives of union types, which pydantic puts into the places of errors.
_ALTERNATIVES = {"str", "constrained-str", "list[Message]", "GivenDocument"}
_NO_OBJECT = "the body is not a JSON object; send one, with Content-Type: application/json"


def detail_of(error: AttributionError) -> str:
    """The error's message for clients; a failed model server's, with a fix for its operator."""
    if isinstance(error, ServerFailed):
        return (
            f"the model of this service did not answer: {error}; see that its server runs and "
            "answers, then ask again"
        )
    return str(error)


async def refused(request: Request, error: Exception) -> Response:
    """Refuses what cannot be attributed (422), as for now (502, 503), or at all (500)."""
    assert isinstance(error, AttributionError)
    status = next((code for kind, code in _STATUSES.items() if isinstance(error, kind)), 500)
    if isinstance(error, ServiceStopping):
        request.state.refusal = "stopping"
    return json_response({"detail": detail_of(error)}, status)


async def malformed(_: Request, error: Exception) -> Response:
    """422 with the wrong fields, but not with their values, which may be anything."""
    assert isinstance(error, RequestValidationError)
    messages = []
    for problem in error.errors():
        place = [part for part in problem["loc"][1:] if part not in _ALTERNATIVES]
        if not place or problem["type"] == "json_invalid":
            messages = [_NO_OBJECT]
            break
        messages.append(f"{'.'.join(map(str, place))}: {problem['msg']}")
    return json_response({"detail": "; ".join(dict.fromkeys(messages))}, 422)


def json_response(data: Any, status: int = 200) -> Response:
    return Response(ascii_json(data), status, media_type="application/json")


def ascii_json(data: Any) -> str:
    """JSON in ASCII, because texts may hold halves of surrogate pairs."""
    return json.dumps(data, allow_nan=False)
