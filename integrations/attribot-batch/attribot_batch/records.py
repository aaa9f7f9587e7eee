"""Reads logged answers, one at a time."""

from __future__ import annotations

import codecs
import math
import re
import reprlib
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
)
from pydantic_core import from_json

from attribot_rag import Document
from attribot_rag.attributor import rag_prompt
from attribot_rag.errors import InvalidInput, UnknownOption
from attribot_rag.model import Prompt

Text = Annotated[str, Field(min_length=1, pattern=r"\S")]
TokenIds = Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]

MAX_BYTES = 4_000_000
_MAX_PROBLEMS = 3
_TYPE = re.compile(r"[^a-z0-9_]|^(?:str|int)$")
_QUERY_LENGTH = 300
_PIECE = 1_000_000  # bytes of a long line that are read at a time


def _finite(value: Any) -> Any:
    """The value. Raises ValueError for a number that JSON does not have."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is not a JSON number; write null, or leave it out")
    inner = value.values() if isinstance(value, Mapping) else value
    for item in inner if isinstance(value, Mapping | list) else ():
        _finite(item)
    return value


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
    metadata: dict[str, Annotated[Any, AfterValidator(_finite)]] | None = None


def _with_text(value: Any) -> Any:
    """A document with its `text`, which LangChain calls `page_content`."""
    if isinstance(value, Mapping) and "text" not in value and "page_content" in value:
        return {**value, "text": value["page_content"]}
    return {"text": value} if isinstance(value, str) else value


class Record(_Given):
    """A logged answer with its prompt and documents.

    `prompt` is rendered text or token ids, and `messages` are chat messages. Without both, the
    prompt is the one that `attribot-rag ask` makes of the `question`. `response` is the answer's
    text or token ids. `answered_by` is the name of another model that gave it, '' if unknown.
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
        """A record from a value. Raises InvalidInput, which names the fault."""
        if not isinstance(value, Mapping):
            raise InvalidInput(f"it is {reprlib.repr(value)}; a record is an object with fields")
        try:
            record = cls.model_validate(value)
        except ValidationError as error:
            raise InvalidInput(_described(error, value)) from error
        if record.prompt is None and record.messages is None and record.question is None:
            raise InvalidInput("it has neither a prompt, nor messages, nor a question")
        return record

    @property
    def asked(self) -> str | None:
        """The beginning of the question, or else of the last line of the user's last message."""
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


def _described(error: ValidationError, value: Mapping[str, Any]) -> str:
    """The first faults of a record. If a field is missing, also the fields that it has."""
    problems = error.errors(include_url=False, include_input=False)[:_MAX_PROBLEMS]
    messages: dict[str, None] = {}
    for problem in problems:
        # Not the alternatives of a union, which pydantic names by their types.
        place = [str(part) for part in problem["loc"] if not _TYPE.search(str(part))]
        messages[f"{'.'.join(place)}: {problem['msg']}"] = None
    if any(problem["type"] == "missing" and len(problem["loc"]) == 1 for problem in problems):
        names = ", ".join(map(repr, islice(value, _MAX_PROBLEMS)))
        messages[f"it has {names}; --fields NAME=PLACE tells what stands where"] = None
    return "; ".join(messages)


class Given(NamedTuple):
    """A record as its file has it, or the reason for its refusal.

    It is parsed where it is attributed, so finished records are not parsed again. `fields` are the
    places of a record's fields, see `Log`.
    """

    value: bytes | Mapping[str, Any] | InvalidInput
    fields: Mapping[str, str] | None = None

    @classmethod
    def bounded(
        cls,
        value: bytes | Mapping[str, Any],
        size: int,
        max_bytes: int,
        fields: Mapping[str, str] | None = None,
    ) -> Given:
        """A record of `size` bytes. It is refused if these are too many."""
        if size <= max_bytes:
            return cls(value, fields)
        return cls(
            InvalidInput(
                f"the record has {size:,} bytes, more than {max_bytes:,}; leave out data that is "
                "no part of its prompt, or allow more by --max-bytes (max_bytes=)"
            )
        )

    def parsed(self) -> object:
        """Its content, with the names of a record's fields. Raises InvalidInput for invalid JSON.

        Half of a surrogate pair, as in a text that was cut within an emoji, is invalid: no file
        takes it.
        """
        if isinstance(self.value, InvalidInput):
            raise self.value
        content: object = self.value
        if isinstance(self.value, bytes):
            try:
                content = _json(self.value)
            except ValueError as error:
                raise InvalidInput(f"it is not JSON: {error}") from error
        if not isinstance(content, Mapping):
            return content
        found = {name: _at(path, content) for name, path in (self.fields or {}).items()}
        return {**content, **found}


class Entry(NamedTuple):
    """A record of a file, and its digest."""

    digest: str
    given: Given


class Log:
    """The records of a JSON lines or Parquet file, read one at a time, as often as wanted.

    A last line without a line break may still be growing. It waits, unless it is a whole object, or
    already too long. It is then no record yet, and `waits` becomes True. `setting` has the options
    that change the records.

    Raises InvalidInput for a file that cannot be read, or is empty.

    Args:
        path: The file.
        max_bytes: A record with more bytes is refused before it is parsed.
        fields: Where the fields of a record are in the file: names and indices with dots between
            them, {"response": "outputs.choices.0.text"}. Other fields keep their names. Raises
            UnknownOption for a name that no record has.
    """

    def __init__(
        self,
        path: Path,
        max_bytes: int = MAX_BYTES,
        fields: Mapping[str, str] | None = None,
    ) -> None:
        UnknownOption.check("a record", fields or {}, Record.model_fields)
        if max_bytes < 1:
            raise InvalidInput(f"max_bytes={max_bytes}; use 1 or more")
        self.path = path
        self.waits = False
        self.setting = {"fields": dict(fields or {}), "max_bytes": max_bytes}
        self._fields = fields
        self._max_bytes = max_bytes
        if next(iter(self), None) is None and not self.waits:
            raise InvalidInput(f"{path} has no records")

    def count(self) -> int:
        """About how many records there are. A waiting line counts."""
        if self.path.suffix == ".parquet":
            return int(_parquet(self.path).metadata.num_rows)
        with _opened(self.path) as file:
            return sum(1 for line in file if line.strip())

    def __iter__(self) -> Iterator[Entry]:
        self.waits = False
        return self._rows() if self.path.suffix == ".parquet" else self._lines()

    def _lines(self) -> Iterator[Entry]:
        with _opened(self.path) as file:
            while line := file.readline(self._max_bytes + 1):
                end, size = line, len(line)
                while not end.endswith(b"\n") and (end := file.readline(_PIECE)):
                    size += len(end)
                if size <= self._max_bytes and not end.endswith(b"\n") and not _is_object(line):
                    self.waits = bool(line.strip())
                    return
                if line.strip():
                    given = Given.bounded(line, size, self._max_bytes, self._fields)
                    yield Entry(_digest(line.strip()), given)

    def _rows(self) -> Iterator[Entry]:
        for batch in _parquet(self.path).iter_batches(batch_size=64):
            for index in range(batch.num_rows):
                row = batch.slice(index, 1)
                (fields,) = row.to_pylist()
                value = {name: field for name, field in fields.items() if field is not None}
                given = Given.bounded(value, row.nbytes, self._max_bytes, self._fields)
                yield Entry(_digest(repr(fields).encode()), given)


def _json(line: bytes) -> object:
    return from_json(line.strip().removeprefix(codecs.BOM_UTF8))


def _at(path: str, content: object) -> object:
    """The value at this place of a record, or None."""
    for step in path.split("."):
        if isinstance(content, list) and step.isdecimal() and int(step) < len(content):
            content = content[int(step)]
        else:
            content = content.get(step) if isinstance(content, Mapping) else None
    return content


def _digest(text: bytes) -> str:
    return blake2b(text, digest_size=8).hexdigest()


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(_json(line), dict)
    except ValueError:
        return False


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
