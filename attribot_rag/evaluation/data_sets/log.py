"""A log of one's own: JSON lines of question, documents and answer."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from attribot_rag.context import Document, DocumentSpan
from attribot_rag.errors import InvalidInput
from attribot_rag.evaluation.data_sets.fields import Field, parse
from attribot_rag.evaluation.example import Example

_FIELDS = ("question", "documents", "answer", "evidence", "id")


def log(text: str, path: Path) -> tuple[list[Example], list[str], list[str]]:
    """The examples, what is wrong with each line that is none, and the fields that are not read.

    A line has a `question` and `documents` (texts, or objects with `text` and perhaps `id` and
    `metadata`); it may have an `id`, the `answer` that the model gave (otherwise it is asked), and
    `evidence`, texts out of the documents that hold the answer.
    """
    examples: dict[str, Example] = {}
    problems: list[str] = []
    ignored: set[str] = set()
    # not splitlines, which cuts at characters that JSON allows within texts
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                parsed = Field(parse(line, path, number).value, f"{path}:{number}")
                example = _example(parsed, str(number), path)
                if example.key in examples:
                    raise InvalidInput(f"{parsed.place}.id: an earlier line has this name")
                examples[example.key] = example
                ignored.update(set(parsed.value).difference(_FIELDS))
            except InvalidInput as error:
                problems.append(str(error))
    return list(examples.values()), problems, sorted(ignored)


def _example(one: Field, number: str, path: Path) -> Example:
    documents = tuple(map(_document, one["documents"]))
    if not documents:
        raise InvalidInput(f"{one.place}.documents: no documents; give at least one")
    question, answer, name = one["question"], one.get("answer"), one.get("id")
    for field in (question, answer):
        if field is not None and not field.text.strip():
            raise InvalidInput(f"{field.place}: it is empty")
    return Example(
        key=f"{path.stem}/{number if name is None else name.name}",
        question=question.text,
        documents=documents,
        evidence=tuple(
            chain.from_iterable(_places(text, documents) for text in one.get("evidence") or ())
        ),
        response=None if answer is None else answer.text,
    )


def _document(field: Field) -> Document:
    if isinstance(field.value, str):
        document = Document(field.value)
    else:
        field["text"].of(str)
        try:
            document = Document.of(field.of(dict))
        except InvalidInput as error:
            raise InvalidInput(f"{field.place}: {error}") from error
    if not document.text.strip():
        raise InvalidInput(f"{field.place}: the document is empty")
    return document


def _places(text: Field, documents: tuple[Document, ...]) -> Iterator[DocumentSpan]:
    wanted = text.text.strip()
    found = False
    for index, document in enumerate(documents):
        start = document.text.find(wanted) if wanted else -1
        if start >= 0:
            found = True
            yield DocumentSpan(index, start, start + len(wanted))
    if not found:
        raise InvalidInput(f"{text.place}: {wanted[:60]!r} stands in none of the documents")
