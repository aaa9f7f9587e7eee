"""Retrieved documents and earlier answers: how they are read, merged, and found in a prompt."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

from attribot_rag.context import Document, texts_in_prompt
from attribot_rag.context.text import find_all, single_spaced
from attribot_rag.errors import DocumentsNotLocated, InvalidInput
from attribot_rag.model.chat_messages import is_message, message_text
from attribot_rag.recording import Answer
from attribot_rag.runtime.runs import AttributedRun

_TEXT_FIELDS = ("page_content", "text")


def told_document(value: Any) -> Document:
    """A Document from a search result: what `Document.of` takes, a pair with a score, or a mapping.

    The text of a mapping is its `page_content` or `text`, or else its longest text. Its other
    fields become metadata. Raises InvalidInput if there is no text.
    """
    if isinstance(value, tuple):
        parts = [part for part in value if not isinstance(part, Real)]
        return told_document(parts[0]) if len(parts) == 1 else Document.of(value)
    if not isinstance(value, Mapping):
        return Document.of(value)
    texts = {name: text for name, text in value.items() if isinstance(text, str)}
    name = next((name for name in _TEXT_FIELDS if name in texts), None)
    if name is None:
        name = max(texts, key=lambda name: len(texts[name]), default=None)
    if name is None:
        raise InvalidInput(
            f"a document with the fields {sorted(map(str, value))} has no text; pass it as a str "
            "under 'text'"
        )
    attached = value.get("metadata")
    metadata = {str(key): field for key, field in value.items() if key not in (name, "id")}
    if isinstance(attached, Mapping):
        del metadata["metadata"]
        metadata.update(attached)
    if name == "page_content":
        metadata.pop("type", None)  # the class, which LangChain adds
    id_ = value.get("id")
    return Document(texts[name], None if id_ is None else str(id_), metadata)


_PIECE = 8  # characters, without white space
_VERSION_SHARE = 0.7
_MIN_VALUE = 4
_METADATA_READ = (
    "The model also read metadata of the documents, which were not scored: an answer may come from "
    "them."
)


def document_key(document: Any) -> str:
    """A key that is equal for a document and its copy with more metadata, such as a rank."""
    read = Document.of(document)
    return json.dumps([read.id, read.text])


def merge_documents(lists: Iterable[Sequence[Any]], *, exact: bool = False) -> list[Any]:
    """All documents of all lists, each as often as in the list with most copies.

    Two documents are the same if their texts are equal, unless their ids differ. With `exact`, the
    metadata that both have must be equal too. The copy with most information is kept.
    """
    lists = [documents for documents in lists if documents]
    if len(lists) < 2:
        return [document for documents in lists for document in documents]
    merged: list[Any] = []
    kept: list[Document] = []  # those of `merged`, converted
    places: defaultdict[str, list[int]] = defaultdict(list)  # of a text's documents
    for documents in lists:
        free = {text: list(indices) for text, indices in places.items()}
        for document, read in zip(documents, [*map(Document.of, documents)], strict=True):
            alike = [
                index
                for index in free.get(read.text, ())
                if _are_same(read, kept[index], exact=exact)
            ]
            if not alike:
                places[read.text].append(len(merged))
                merged.append(document)
                kept.append(read)
                continue
            equal = (index for index in alike if repr(read) == repr(kept[index]))
            index = next(equal, alike[0])
            free[read.text].remove(index)
            known = kept[index]
            if (bool(read.id), len(read.metadata)) > (bool(known.id), len(known.metadata)):
                merged[index], kept[index] = document, read
    return merged


def _are_same(document: Document, other: Document, *, exact: bool) -> bool:
    if document.id and other.id and document.id != other.id:
        return False
    shared = document.metadata.keys() & other.metadata.keys() if exact else ()
    return all(repr(document.metadata[key]) == repr(other.metadata[key]) for key in shared)


def are_versions(document: Any, other: Any) -> bool:
    """Whether two documents share an id, and one is a shorter or changed text of the other.

    Chunks of a file may share its id. So most of the shorter text, in pieces of eight characters,
    must be in the other text.
    """
    first, second = Document.of(document), Document.of(other)
    if not first.id or first.id != second.id:
        return False
    small, large = sorted(map(_pieces, (first.text, second.text)), key=len)
    return len(small & large) >= _VERSION_SHARE * len(small)


def _pieces(text: str) -> frozenset[str]:
    plain = "".join(text.split()).casefold()
    return frozenset(plain[i : i + _PIECE] for i in range(max(1, len(plain) - _PIECE + 1)))


def documents_in_prompt(prompt: str, documents: Sequence[Any]) -> list[Any]:
    """The documents whose text is in the prompt."""
    texts = [Document.of(document).text for document in documents]
    present = texts_in_prompt(prompt, texts)
    return [document for document, text in zip(documents, texts, strict=True) if text in present]


def metadata_note(documents: Sequence[Any], prompt: str) -> str:
    """A note if the prompt also contains values of the documents' metadata, or ''.

    Values of less than four characters are ignored.
    """
    read = list(map(Document.of, documents))
    texts = "\n".join(document.text for document in read)
    values = (value for document in read for value in document.metadata.values())
    readable = (value for value in values if isinstance(value, str) and len(value) >= _MIN_VALUE)
    return (
        _METADATA_READ if any(value in prompt and value not in texts for value in readable) else ""
    )


_TITLE = "earlier answer"
_MAX_CHOICE = 24  # characters of an answer that may be a word the prompt let the model choose
_LACKING = (
    "{} of the {} earlier answers in this prompt have no attribution: sentences that come from "
    "them cite them, and no documents. {}"
)


def document_of(run: AttributedRun) -> Document:
    """A run's answer as a document of a later prompt, with the run's id."""
    return Document(text_of(run), run.run_id, {"title": run.question or _TITLE})


def find_in_prompt(
    prompt: str, documents: Sequence[str], earlier: Sequence[AttributedRun] = ()
) -> tuple[list[int], list[AttributedRun]]:
    """The documents and earlier answers that a prompt contains: indices, and runs in order.

    An earlier answer counts if its text is not part of a longer document or answer there. If
    several answers have the same text, the last ones count, one for each place. An answer that only
    chose a word of its prompt, such as yes or no, does not count. If the prompt contains no
    answer as a whole, answers count that it contains in part or in another form.
    """
    plain = single_spaced(prompt)
    answers: dict[str, list[AttributedRun]] = defaultdict(list)
    for run in earlier:
        text = single_spaced(text_of(run))
        if any(map(str.isalnum, text)) and not _is_choice(run, text):
            answers[text].append(run)
    spaced = [single_spaced(document) for document in documents]
    places = _num_places(plain, spaced, answers)
    hidden = {
        text for text in spaced if text in plain and places[text] <= len(answers.get(text, ()))
    }
    kept = [text for text, key in zip(documents, spaced, strict=True) if key not in hidden]
    whole = [text_of(run) for text in answers if places[text] for run in answers[text]]
    is_changed = not any(places.values())
    absent = [runs for text, runs in answers.items() if text not in plain]
    changed = {text_of(runs[-1]) for runs in absent} if is_changed else set()
    present = texts_in_prompt(prompt, {*kept, *whole, *changed})
    indices = [
        index
        for index, text in enumerate(documents)
        if text in present and spaced[index] not in hidden
    ]
    read: set[str] = set()
    for text, runs in answers.items():
        num_places = places[text] or (text_of(runs[-1]) in changed & present)
        read.update(run.run_id for run in runs[-num_places:] if num_places)
    return indices, [run for run in earlier if run.run_id in read]


def _num_places(plain: str, documents: Collection[str], answers: Collection[str]) -> dict[str, int]:
    """How many places of each text the prompt has.

    Places within a longer text do not count, and places of a document within an answer.
    """
    places: dict[str, int] = {}
    taken: list[tuple[int, int]] = []
    by_answers: list[tuple[int, int]] = []
    for text in sorted({*documents, *answers}, key=len, reverse=True):
        is_answer = text in answers
        outer = taken if is_answer else by_answers
        at = [
            (start, end)
            for start in find_all(plain, text)
            for end in [start + len(text)]
            if not any(first <= start and end <= last for first, last in outer)
            and not (is_answer and _is_cut(plain, start, end))
        ]
        places[text] = len(at)
        taken += at
        by_answers += at if is_answer else []
    return places


def _is_cut(plain: str, start: int, end: int) -> bool:
    """Whether [start, end) begins or ends within a word or number."""
    edges = ((start - 1, start), (end - 1, end))
    return any(
        before >= 0 and after < len(plain) and _joins(plain[before]) and _joins(plain[after])
        for before, after in edges
    )


def _joins(character: str) -> bool:
    """Whether the character forms words with its neighbours: digits, letters with two cases."""
    return character.isdigit() or character.lower() != character.upper()


def _is_choice(run: AttributedRun, text: str) -> bool:
    """Whether a short answer is in its own prompt, outside of the documents."""
    prompt = run.answer.prompt
    if len(text) > _MAX_CHOICE or prompt is None:
        return False
    parts = [prompt] if isinstance(prompt, str) else map(message_text, filter(is_message, prompt))
    documents = [
        single_spaced(Document.of(document).text) for document in run.answer.prompt_documents
    ]
    return _num_places(single_spaced(" ".join(parts)), documents, [text])[text] > 0


def text_of(run: AttributedRun) -> str:
    """The run's answer, without a prompt before it, or the text that was shown instead."""
    return (run.shown or run.text[run.answer.start :]).strip()


def with_earlier(run: AttributedRun, earlier: Iterable[AttributedRun]) -> AttributedRun:
    """The run with the earlier answers that its prompt contains, and those in their prompts.

    All are of the same root. A note says which of them have no attribution.
    """
    direct = list(earlier)
    if not direct:
        return run
    runs: dict[str, AttributedRun] = {}
    for part in direct:
        if part.root_id == run.root_id:
            runs.update((inner.run_id, inner) for inner in part.all_earlier())
        runs[part.run_id] = part
    lacking = [part.error for part in direct if part.attribution is None]
    notes = run.answer.notes
    if lacking:
        reason = next((f"{type(error).__name__}: {error}" for error in lacking if error), "")
        notes = (*notes, _LACKING.format(len(lacking), len(direct), reason).strip())
    return replace(run, answer=replace(run.answer, notes=notes), earlier=tuple(runs.values()))


def not_composed(answer: Answer) -> DocumentsNotLocated:
    """The error if a prompt contains neither the answer's documents nor earlier answers."""
    return DocumentsNotLocated(
        f"neither the {len(answer.documents)} documents nor the {answer.num_before} answers that "
        "models gave before this one are in its prompt: a step between changed their texts, or "
        "passed them on as the assistant's turns. Pass them on as they are, or say which texts "
        "were put into this prompt, as documents that were retrieved"
    )
