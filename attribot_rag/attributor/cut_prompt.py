"""A prompt as an application gave it, without some of its passages."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import pairwise
from typing import cast

from attribot_rag.context import Source
from attribot_rag.context.text import Interval, merge, subtract
from attribot_rag.errors import InvalidInput
from attribot_rag.model.chat_messages import Message, with_texts
from attribot_rag.model.language_model import Prompt
from attribot_rag.result import Result

_LINE_BREAKS = re.compile(r"\s*\n|\s*\Z")


def check_documents(attribution: Result, documents: Collection[int]) -> None:
    """Raises InvalidInput for documents that do not exist or do not stand in the prompt."""
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
    """The text or the messages without the passages at these places of the prompt as it was `read`.

    Of a passage that stands there several times, the same occurrence is taken out. Raises
    InvalidInput if the prompt has fewer or more of them than what was read.
    """
    texts: list[str] = []

    def collected(text: str) -> str:
        texts.append(text)
        return text

    _mapped(prompt, collected)
    cuts = defaultdict[int, list[Interval]](list)
    for place in places:
        index, cut = _given_place(texts, read, place)
        cuts[index].append(cut)
    kept = (_without(text, cuts[index]) for index, text in enumerate(texts))
    return _mapped(prompt, lambda _: next(kept))


def _mapped(prompt: Prompt, change: Callable[[str], str]) -> Prompt:
    """The prompt with each of its texts changed, one after the other."""
    if isinstance(prompt, str):
        return change(prompt)
    messages = cast(Sequence[Message], prompt)
    return [with_texts(message, change) for message in messages]


def _given_place(texts: Sequence[str], read: str, place: Interval) -> tuple[int, Interval]:
    """The text, by its index, that has the passage at a place of what was read; its place there.

    White space after the passage belongs to it, as far as it is there.
    """
    start, end = place
    passage = read[start:end].strip()
    start = read.index(passage, start)
    seen = [*_starts(read, passage)]
    given = [(index, at) for index, text in enumerate(texts) for at in _starts(text, passage)]
    if len(given) != len(seen):
        stands = f"stands {len(given)} times" if given else "does not stand"
        raise InvalidInput(
            f"{passage[:60]!r} {stands} in the prompt as it was given, and {len(seen)} times in "
            "what was read, so it cannot be taken out; ask the model yourself, with a prompt "
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
