"""A prompt and its documents as texts, for any model, and the prompt without some documents."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import pairwise
from typing import Any, cast

from attribot_rag.attribution import Marker
from attribot_rag.context import (
    Context,
    ContextOptions,
    Document,
    Source,
    TokenizedText,
    locate_context,
)
from attribot_rag.context.document import Documents, label_of
from attribot_rag.context.text import Interval, merge, subtract
from attribot_rag.errors import InvalidInput
from attribot_rag.model.chat_messages import Message, message_role, message_text, with_texts
from attribot_rag.model.language_model import Prompt, check_characters, is_chat
from attribot_rag.result import Result

TEMPLATE = (
    "Answer the question with one short sentence, using only the passages below.\n\n"
    "{context}\n\nQuestion: {question}"
)
_MOST_NAMED = 5  # documents in a note
_LONGEST_NAME = 40
_LINE_BREAKS = re.compile(r"\s*\n|\s*\Z")


def rag_prompt(question: str, documents: Sequence[Document], chat: bool) -> str | list[Message]:
    """The documents and then the question: as a `chat` message, or as text."""
    passages = "\n\n".join(document.text.strip() for document in documents)
    text = TEMPLATE.format(context=passages, question=question.strip())
    return [{"role": "user", "content": text}] if chat else f"{text}\nAnswer:"


def check_texts(
    name: str, prompt: Prompt, documents: Sequence[Document], response: object = ""
) -> None:
    """Raises InvalidInput for half of a surrogate pair, and names its place.

    No tokenizer takes these. `name` is the caller's name for the prompt.
    """
    texts = {name: prompt} if isinstance(prompt, str) else {}
    if is_chat(prompt):
        messages = cast(Sequence[Message], prompt)
        texts = {f"{name}[{i}]": message_text(messages[i]) for i in range(len(messages))}
    if isinstance(response, str):
        texts["the response"] = response
    texts.update({f"documents[{i}]": documents[i].text for i in range(len(documents))})
    for place, text in texts.items():
        check_characters(place, text)


def locate_documents(
    text: TokenizedText,
    documents: Documents,
    prompt: Prompt | None,
    options: ContextOptions,
) -> Context:
    """Where the documents and the earlier turns are in the text of the prompt."""
    turns, message = turns_of(prompt)
    return locate_context(text, documents, options, earlier_turns=turns, message=message)


def turns_of(prompt: Prompt | None) -> tuple[tuple[str, ...], str]:
    """The texts of earlier user and assistant turns, and the last user message."""
    if prompt is None or not is_chat(prompt):
        return (), ""
    messages = cast(Sequence[Message], prompt)
    turns = [turn for turn in messages if message_role(turn) in ("user", "assistant")]
    last = max((i for i, turn in enumerate(turns) if message_role(turn) == "user"), default=None)
    if last is None:
        return (), ""
    return tuple(map(message_text, turns[:last])), message_text(turns[last])


def context_fields(context: Context, markers: Sequence[Marker]) -> dict[str, Any]:
    """Fields of an Attribution: the documents, and what the prompt calls them."""
    names = context.labels.names_for(marker.label for marker in markers)
    cited = {
        (marker.document, marker.number)
        for marker in markers
        if marker.document is not None and marker.number is not None
    }
    return {
        "documents": context.documents,
        "not_located": context.not_located,
        "partly_located": context.partly_located,
        "sources": context.sources,
        "prompt_numbers": context.labels.numbers_for(names, cited),
        "prompt_names": names,
    }


def location_notes(context: Context) -> Iterator[str]:
    """Notes on documents that are not in the prompt, or only in part."""
    if absent := context.absent:
        names = [_name_of(context, index) for index in absent[:_MOST_NAMED]]
        if len(absent) > len(names):
            names.append(f"and {len(absent) - len(names)} more")
        yield (
            f"The model did not receive {len(absent)} of {len(context.documents)} documents "
            f"({', '.join(names)}): not in its prompt. Retrieve fewer, or pass their texts as they "
            "stand there."
        )
    if parts := context.partly_located:
        shares = (
            f"{min(max(share, 0.01), 0.99):.0%} of {_name_of(context, index)}"
            for index, share in parts.items()
        )
        yield (
            f"The model received documents only in part: {', '.join(shares)}. While that is so, no "
            "sentence is said to come from elsewhere; pass the documents as they "
            "are in the prompt."
        )
    if crowded := context.crowded:
        yield (
            f"{len(crowded)} of the documents occur in the prompt too often to find every place; "
            "the places that were not found stay in the prompt."
        )


def _name_of(context: Context, index: int) -> str:
    label = " ".join(label_of(context.documents[index], index).split())
    return label if len(label) <= _LONGEST_NAME else f"{label[: _LONGEST_NAME - 1]}…"


def check_documents(attribution: Result, documents: Collection[int]) -> None:
    """Raises InvalidInput for documents that do not exist or are not in the prompt."""
    num_documents = len(attribution.documents)
    if not documents:
        raise InvalidInput("no document to leave out; pass the index of at least one")
    for index in documents:
        if index not in range(num_documents):
            raise InvalidInput(
                f"no document has the index {index!r}: there are {num_documents}, and the first "
                "has the index 0"
            )
        if index in attribution.not_located:
            raise InvalidInput(
                f"the document with the index {index} was not found in the prompt, so there is "
                "nothing to leave out"
            )


def places_of(
    documents: Collection[int], sources: Sequence[Source], text: str
) -> Iterator[Interval]:
    """The characters of these documents in a prompt's text, with the line breaks after them."""
    places = sorted(
        (place.start, place.end)
        for source in sources
        for place in source.occurrences
        if any(span.document in documents for span in place.spans)
    )
    gaps = [
        (end, start) for (_, end), (start, _) in pairwise(places) if not text[end:start].strip()
    ]
    for start, end in merge([*places, *gaps]):
        breaks = _LINE_BREAKS.match(text, end)
        begins_line = not start or text[start - 1] == "\n"
        yield start, breaks.end() if breaks and begins_line else end


def prompt_without(prompt: Prompt, read: str, places: Sequence[Interval]) -> Prompt:
    """The prompt, text or messages, without the passages at these places of `read`.

    `read` is the prompt as the model read it. If a passage stands there several times, the same one
    of them is removed. Raises InvalidInput if the prompt has another number of them than `read`.
    """
    texts: list[str] = []

    def collected(text: str) -> str:
        texts.append(text)
        return text

    _with_texts(prompt, collected)
    cuts = defaultdict[int, list[Interval]](list)
    for place in places:
        index, cut = _given_place(texts, read, place)
        cuts[index].append(cut)
    kept = (_without(text, cuts[index]) for index, text in enumerate(texts))
    return _with_texts(prompt, lambda _: next(kept))


def _with_texts(prompt: Prompt, change: Callable[[str], str]) -> Prompt:
    """The prompt with every text changed, in order."""
    if isinstance(prompt, str):
        return change(prompt)
    messages = cast(Sequence[Message], prompt)
    return [with_texts(message, change) for message in messages]


def _given_place(texts: Sequence[str], read: str, place: Interval) -> tuple[int, Interval]:
    """The index of the text that has the passage at a place of `read`, and its place there.

    White space after the passage counts as part of it.
    """
    start, end = place
    passage = read[start:end].strip()
    start = read.index(passage, start)
    seen = [*_starts(read, passage)]
    given = [(index, at) for index, text in enumerate(texts) for at in _starts(text, passage)]
    if len(given) != len(seen):
        stands = f"stands {len(given)} times" if given else "does not stand"
        raise InvalidInput(
            f"{passage[:60]!r} {stands} in the given prompt, but {len(seen)} times in the prompt "
            "that was read, so it cannot be removed; ask the model yourself, with a prompt "
            "without it"
        )
    index, at = given[seen.index(start)]
    is_whole = texts[index].startswith(read[start:end], at)
    return index, (at, at + (end - start if is_whole else len(passage)))


def _starts(text: str, passage: str) -> Iterator[int]:
    at = text.find(passage)
    while at >= 0:
        yield at
        at = text.find(passage, at + 1)


def _without(text: str, cuts: Sequence[Interval]) -> str:
    return "".join(text[start:end] for start, end in subtract((0, len(text)), sorted(cuts)))
