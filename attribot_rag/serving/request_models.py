"""What clients send and get."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from attribot_rag.context import Document
from attribot_rag.language_model import Prompt

MAX_DOCUMENTS = 1_000

Text = Annotated[str, Field(min_length=1, pattern=r"\S")]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Message(_Body):
    """One turn of a conversation, as chat templates take it."""

    role: Literal["system", "user", "assistant"]
    content: str


class GivenDocument(_Body):
    """A retrieved chunk. `title`, `source`, `url` and `page` of the metadata are shown."""

    text: Text
    id: str | None = None
    metadata: dict[str, JsonValue] = Field(default_factory=dict)

    def read(self) -> Document:
        return Document(self.text, self.id, self.metadata)


Documents = Annotated[list[Text | GivenDocument], Field(min_length=1, max_length=MAX_DOCUMENTS)]


def read_documents(given: list[str | GivenDocument]) -> list[Document]:
    return [Document(one) if isinstance(one, str) else one.read() for one in given]


class AttributeRequest(_Body):
    """A prompt as it was rendered, or its chat messages, and what this model answered to it."""

    prompt: Text | Annotated[list[Message], Field(min_length=1)]
    response: Text
    documents: Documents

    def read_prompt(self) -> Prompt:
        if isinstance(self.prompt, str):
            return self.prompt
        return [one.model_dump() for one in self.prompt]


class AskRequest(_Body):
    """A question. Without documents it is answered from the files that are served."""

    question: Text
    documents: Documents | None = None
    max_new_tokens: Annotated[int, Field(ge=1, le=1_024)] = 128
    html: bool = Field(default=False, description="whether to send a page that shows the answer")


class Answer(BaseModel):
    answer: str
    attribution: dict[str, Any] = Field(description="after the attribution's public schema")
    html: str | None = None


class Problem(BaseModel):
    detail: str


class Health(BaseModel):
    status: Literal["ok"] = "ok"
    model: str
    waiting: int = Field(description="requests that wait or are worked on")
    max_waiting: int
