"""Logged answers, read one at a time."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import from_json

from attribot_rag import Document
from attribot_rag.attributor import rag_prompt
from attribot_rag.errors import InvalidInput
from attribot_rag.model import Prompt

Text = Annotated[str, Field(min_length=1, pattern=r"\S")]
TokenIds = Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]

_MAX_PROBLEMS = 3
_QUERY_LENGTH = 300


class _Given(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)


class TextPart(_Given):
    type: Literal["text"] = "text"
    text: str


class Message(_Given):
    role: str
    content: str | list[TextPart] | None = None


class GivenDocument(_Given):
    text: Text
    id: str | int | None = None
    metadata: dict[str, Any] | None = None


def _with_text(value: Any) -> Any:
    return {"text": value} if isinstance(value, str) else value


class Record(_Given):
    """A logged answer with its prompt and documents.

    `prompt` is rendered text or token ids, `messages` chat messages; without either, the prompt is
    that of `attribot-rag ask` for the `question`. `response` is the answer's text or token ids.
    `answered_by` is the name of another model that gave it, '' if unknown.
    """

    id: str | int | None = None
    prompt: Text | TokenIds | None = None
    messages: Annotated[list[Message], Field(min_length=1)] | None = None
    question: Text | None = None
    documents: Annotated[
        list[Annotated[GivenDocument, BeforeValidator(_with_text)]], Field(min_length=1)
    ]
    response: Text | TokenIds
    answered_by: str | None = None

    @classmethod
    def of(cls, value: object) -> Record:
        """A record of a value; raises InvalidInput that names the fault."""
        try:
            record = cls.model_validate(value)
        except ValidationError as error:
            problems = error.errors(include_url=False, include_input=False)[:_MAX_PROBLEMS]
            raise InvalidInput(
                "; ".join(
                    f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"
                    for problem in problems
                )
            ) from error
        if record.prompt is None and record.messages is None and record.question is None:
            raise InvalidInput("it has neither a prompt, nor messages, nor a question")
        return record

    @property
    def query(self) -> str | None:
        """The beginning of the question, else of the last line of the last user's message."""
        messages = [message for message in self.messages or () if message.role == "user"]
        content = messages[-1].content if messages else None
        parts = content if isinstance(content, list) else [TextPart(text=content or "")]
        lines = "\n".join(part.text for part in parts).strip().splitlines()
        return (self.question or (lines or [""])[-1]).strip()[:_QUERY_LENGTH] or None

    def read_documents(self) -> list[Document]:
        return [
            Document(
                document.text,
                None if document.id is None else str(document.id),
                document.metadata or {},
            )
            for document in self.documents
        ]

    def read_prompt(self, *, chats: bool) -> Prompt:
        if self.prompt is not None:
            return self.prompt
        if self.messages is not None:
            return [message.model_dump() for message in self.messages]
        return rag_prompt(str(self.question), self.read_documents(), chats)


def count(path: Path) -> int:
    """The number of records in a file, by its lines."""
    if path.suffix == ".parquet":
        return int(_parquet(path).metadata.num_rows)
    with _opened(path) as file:
        return sum(1 for line in file if line.strip())


def read(path: Path, start: int = 0) -> Iterator[object]:
    """The values of a JSON lines or Parquet file from this record on, each read when it is wanted.

    Raises InvalidInput for a file that cannot be read.
    """
    values = _from_parquet(path) if path.suffix == ".parquet" else _from_lines(path)
    return islice(values, start, None)


def _from_lines(path: Path) -> Iterator[object]:
    with _opened(path) as file:
        for line in file:
            if line.strip():
                yield Line(line)


class Line(bytes):
    """A line, parsed lazily: finished records are not parsed again."""


def parsed(value: object) -> object:
    """The JSON of a line, other values as they are; raises InvalidInput for invalid JSON.

    Half of a surrogate pair, as in a text that was cut in an emoji, is none: no file takes it.
    """
    if not isinstance(value, Line):
        return value
    try:
        return from_json(value.strip().removeprefix(codecs.BOM_UTF8))
    except ValueError as error:
        raise InvalidInput(f"it is not JSON: {error}") from error


def _from_parquet(path: Path) -> Iterator[object]:
    for batch in _parquet(path).iter_batches(batch_size=64):
        for row in batch.to_pylist():
            yield {name: value for name, value in row.items() if value is not None}


def _parquet(path: Path) -> Any:
    from pyarrow import ArrowException, parquet

    try:
        return parquet.ParquetFile(path)
    except (OSError, ArrowException) as error:
        raise InvalidInput(f"{path} cannot be read: {error}") from error


def _opened(path: Path) -> Any:
    try:
        return path.open("rb")
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from error
