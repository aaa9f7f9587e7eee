"""Error responses of the service: a status, and JSON with the `detail`."""

from __future__ import annotations

import json
from collections.abc import Sequence
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
# Alternatives of union types, which pydantic adds to the locations of errors.
_ALTERNATIVES = {"str", "constrained-str", "list[Message]", "list[TextPart]", "GivenDocument"}
_MOST_LISTED = 3
_LONGEST = 100  # characters of a field's name
NO_OBJECT = "the body is not a JSON object; send one, with Content-Type: application/json"


def detail_of(error: AttributionError) -> str:
    """The error's message for clients.

    If the model's server failed, it also tells the operator a fix.
    """
    if isinstance(error, ServerFailed):
        return (
            f"the model of this service did not answer: {error}; see that its server runs and "
            "answers, then ask again"
        )
    return str(error)


async def refused(request: Request, error: Exception) -> Response:
    """The response for an error: 422 if it cannot be attributed, 502 or 503 for now, else 500."""
    assert isinstance(error, AttributionError)
    status = next((code for kind, code in _STATUSES.items() if isinstance(error, kind)), 500)
    if isinstance(error, ServiceStopping):
        request.state.refusal = "stopping"
    return json_response({"detail": detail_of(error)}, status)


async def malformed(_: Request, error: Exception) -> Response:
    """422 for a body that was not sent as JSON."""
    assert isinstance(error, RequestValidationError)
    return json_response({"detail": NO_OBJECT}, 422)


def listed(problems: Sequence[Any]) -> str:
    """The first wrong fields, without their values, which may be anything."""
    messages: dict[str, None] = {}
    for problem in problems:
        place = [str(part) for part in problem["loc"] if part not in _ALTERNATIVES]
        if not place:
            return NO_OBJECT
        name = ".".join(place)
        name = name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…"
        messages[f"{name}: {problem['msg']}"] = None
    shown = "; ".join([*messages][:_MOST_LISTED])
    return f"{shown}; and more" if len(messages) > _MOST_LISTED else shown


def json_response(data: Any, status: int = 200) -> Response:
    return Response(ascii_json(data), status, media_type="application/json")


def ascii_json(data: Any) -> str:
    """JSON in ASCII, because texts may contain halves of surrogate pairs."""
    return json.dumps(data, allow_nan=False)
