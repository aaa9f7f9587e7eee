"""A prompt as an application gave it, without some of its passages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import cast

from attribot_rag.context.intervals import Interval, subtract
from attribot_rag.errors import InvalidInput
from attribot_rag.model.chat_messages import Message, with_texts
from attribot_rag.model.language_model import Prompt


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
