"""The bodies of requests and responses, and how requests are read: JSON of a known form, or 422."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Coroutine, Sequence
from typing import Annotated, Any, Literal, TypeVar

from anyio import to_thread
from fastapi import HTTPException, Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from attribot_rag import Document
from attribot_rag.model import Prompt

MAX_DOCUMENTS = 1_000
MAX_MESSAGES = 1_000
_MOST_UNKNOWN = 3  # fields, to be named in an error

Part = TypeVar("Part")
# Stop at the first error: a large body could have a hundred thousand.
Few = Annotated[list[Part], Field(max_length=MAX_MESSAGES, fail_fast=True)]
Text = Annotated[str, Field(min_length=1, pattern=r"\S")]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _with_few_unknown_fields(cls, data: Any) -> Any:
        """Each unknown field is an error, and a body may hold a hundred thousand."""
        if not isinstance(data, dict) or len(data) <= len(cls.model_fields):
            return data
        unknown = [name for name in data if name not in cls.model_fields]
        named = {*cls.model_fields, *unknown[:_MOST_UNKNOWN]}
        return {name: value for name, value in data.items() if name in named}


class TextPart(_Body):
    """A part of a message's content."""

    type: Literal["text"] = "text"
    text: str


class Message(_Body):
    """A turn of a conversation, for chat templates."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | Few[TextPart] | None = None
    name: str | None = None
    tool_calls: Few[JsonValue] | None = None
    tool_call_id: str | None = None


class GivenDocument(_Body):
    """A retrieved chunk. `title`, `source`, `url` and `page` in its metadata are displayed."""

    text: Text
    id: str | None = None
    metadata: dict[str, JsonValue] = Field(default_factory=dict)


Documents = Annotated[
    list[Text | GivenDocument],
    Field(min_length=1, max_length=MAX_DOCUMENTS, fail_fast=True),
]


def read_documents(documents: list[str | GivenDocument]) -> list[Document]:
    return [
        Document(document)
        if isinstance(document, str)
        else Document(document.text, document.id, document.metadata)
        for document in documents
    ]


class AttributeRequest(_Body):
    """A rendered prompt or chat messages, and the response of this model or another one."""

    prompt: Text | Annotated[Few[Message], Field(min_length=1)]
    response: Text
    documents: Documents
    answered_by: str | None = Field(
        default=None,
        description="another model that gave the response, '' if its name is unknown; then the "
        "attribution says what supports it (basis reader)",
    )

    def read_prompt(self) -> Prompt:
        if isinstance(self.prompt, str):
            return self.prompt
        return [message.model_dump(exclude_none=True) for message in self.prompt]


class AskRequest(_Body):
    """A question. Without documents it is answered from the served files."""

    question: Text
    documents: Documents | None = None
    max_new_tokens: Annotated[int, Field(ge=1, le=1_024)] = 128
    html: bool = Field(default=False, description="whether to send a page that shows the answer")
    data: bool = Field(default=False, description="whether to send what <attribot-answer> shows")
    stream: bool = Field(
        default=False,
        description="whether to send lines of JSON: `piece`s of the answer, then all fields, or "
        "`detail` after an error",
    )


class AskResponse(BaseModel):
    answer: str
    cited_text: str = Field(description="the answer with its citations and remarks")
    attribution: dict[str, Any] = Field(description="by the attribution's public schema")
    html: str | None = None
    data: dict[str, Any] | None = None


class Problem(BaseModel):
    detail: str


class Health(BaseModel):
    status: Literal["ok", "stalled"]
    model: str
    waiting: int = Field(description="requests in the queue or in progress")
    max_waiting: int
    stalled: int = Field(description="running requests without progress for too long")


class QueuePlace(BaseModel):
    before: int = Field(description="how many requests are served before this one")
    seconds: float | None = Field(description="until its turn, by the last requests; null at first")


class QueueStatus(BaseModel):
    waiting: int = Field(description="requests in the queue or in progress")
    max_waiting: int
    places: list[QueuePlace] = Field(description="of this client's waiting requests, in order")


# Alternatives of union types, which pydantic adds to the locations of errors.
_ALTERNATIVES = {"str", "constrained-str", "list[Message]", "list[TextPart]", "GivenDocument"}
_MOST_LISTED = 3
_LONGEST = 100  # characters of a field's name
NO_OBJECT = "the body is not a JSON object; send one, with Content-Type: application/json"
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
