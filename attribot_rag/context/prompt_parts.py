"""The parts of a prompt besides documents: instructions, question, earlier turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from attribot_rag.context.intervals import Interval, merge, subtract

PromptPart = Literal["instructions", "question", "turn"]


def prompt_parts(
    length: int,
    retrieved: Sequence[Interval],
    turns: Sequence[Interval],
    message: Sequence[Interval],
) -> Mapping[PromptPart, Sequence[Interval]]:
    """The characters of each part of a prompt of this length, ascending.

    The question is the last `message` of the user; if that holds documents, or is unknown, the text
    after the last document. The text before it are the instructions; the text after it (a tool's
    answers) belongs to the earlier `turns`. The template's markup is not distinguished.
    """
    last = max((end for _, end in retrieved), default=0)
    start, end = (message[0][0], message[-1][1]) if message else (last, length)
    if start < last <= end:
        start = last
    taken = merge((*retrieved, *turns))
    return {
        "instructions": subtract((0, start), taken),
        "question": subtract((start, end), taken),
        "turn": merge((*turns, *subtract((end, length), taken))),
    }
