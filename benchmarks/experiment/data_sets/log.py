"""A log of an application: JSON lines of question, documents and answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from attribot_rag.context import Document, DocumentSpan
from attribot_rag.errors import InvalidInput
from benchmarks.experiment.data_sets.validation import Text, parse, validated
from benchmarks.experiment.example import Example, Loaded


def _not_blank(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank", "Input should not be empty")
    return text


def _with_text(value: Any) -> Any:
    return {"text": value} if isinstance(value, str) else value


def _number_as_text(value: Any) -> Any:
    return str(value) if type(value) is int else value


Filled = Annotated[Text, AfterValidator(_not_blank)]


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid")

    text: Filled
    id: Any = None
    metadata: dict[str, Any] | None = None


class _Line(BaseModel):
    question: Filled
    documents: Annotated[
        list[Annotated[_Document, BeforeValidator(_with_text)]], Field(min_length=1)
    ]
    answer: Filled | None = None
    evidence: list[Text] | None = None
    id: Annotated[Text, BeforeValidator(_number_as_text)] | None = None


def log(text: str, path: Path) -> Loaded:
    """The examples of a log.

    A line has a `question` and `documents` (texts, or objects with `text` and perhaps `id` and
    `metadata`); it may have an `id`, the `answer` that the model gave (otherwise the model is
    asked), and `evidence`: texts out of the documents that hold the answer.
    """
    examples: dict[str, Example] = {}
    problems: list[str] = []
    ignored: set[str] = set()
    # not splitlines, which cuts at characters that JSON allows within texts
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            place = f"{path}:{number}"
            try:
                value = parse(line, path, number)
                example = _example(validated(_Line, value, place), number, path)
                if example.key in examples:
                    raise InvalidInput(f"{place}.id: an earlier line has this name")
                examples[example.key] = example
                ignored.update(set(value).difference(_Line.model_fields))
            except InvalidInput as error:
                problems.append(str(error))
    return Loaded(tuple(examples.values()), tuple(problems), tuple(sorted(ignored)))


def _example(line: _Line, number: int, path: Path) -> Example:
    documents = tuple(
        Document(document.text, document.id, document.metadata or {}) for document in line.documents
    )
    return Example(
        key=f"{path.stem}/{number if line.id is None else line.id}",
        question=line.question,
        documents=documents,
        evidence=tuple(
            span
            for index, text in enumerate(line.evidence or ())
            for span in _spans(text.strip(), documents, f"{path}:{number}.evidence[{index}]")
        ),
        response=line.answer,
    )


def _spans(text: str, documents: tuple[Document, ...], place: str) -> Iterator[DocumentSpan]:
    """The first occurrence in each document; raises InvalidInput if there is none."""
    starts = [document.text.find(text) if text else -1 for document in documents]
    if max(starts) < 0:
        raise InvalidInput(f"{place}: {text[:60]!r} is in none of the documents")
    for index, start in enumerate(starts):
        if start >= 0:
            yield DocumentSpan(index, start, start + len(text))
