"""The text of a prompt without its documents: questions and statements."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from attribot_rag.cached_property import cached_property
from attribot_rag.context.prompt import TokenizedText
from attribot_rag.context.splitting.splitter import make_splitter, split_spans
from attribot_rag.context.text import (
    LEAST_LETTERS,
    QUESTION_WORDS,
    Interval,
    asks,
    has_words,
    merge,
    num_unspaced,
    same_word,
    subtract,
    words,
)

PromptPart = Literal["instructions", "question", "turn"]

_COLON = re.compile(r"[:：]\s")
_HIRAGANA = re.compile("[\u3040-\u309f]")  # endings and particles
_STATEMENT_WORDS = 2
_ALIKE = 3  # letters with which words begin that may be one
_STEM = 5  # letters


class PromptPieces:
    """The sentences and lines of a prompt without its documents: questions and statements.

    `parts` are the characters of its parts, `message` those of the user's last message.
    """

    def __init__(
        self,
        prompt: TokenizedText,
        parts: Mapping[PromptPart, Sequence[Interval]],
        message: Sequence[Interval],
        language: str | None,
    ) -> None:
        self._prompt = prompt
        self._parts = parts
        self._message = message
        self._language = language

    @cached_property
    def _pieces(self) -> list[PromptPiece]:
        """All parts of the prompt, cut into sentences and lines, without special tokens."""
        text, marks = self._prompt.text, merge(self._prompt.boundaries)
        splitter = make_splitter("sentence", self._language)
        return [
            PromptPiece(part, (start + first, start + last), text[start + first : start + last])
            for part, spans in self._parts.items()
            for span in spans
            for begin, end in subtract(span, marks)
            for start in [_after_role(text, begin, end)]
            for first, last in split_spans(text[start:end], splitter)
        ]

    @cached_property
    def question_pieces(self) -> list[PromptPiece]:
        """The question: the last long sentence if none ends with a question mark.

        If the last message asks nothing, for example because it is a tool's result, it is the last
        question of earlier turns, or else the text before the documents.
        """
        long = [piece for piece in self._pieces if has_words(piece.text, QUESTION_WORDS)]
        asked = [piece for piece in long if piece.part == "question"]
        asked = asked or [piece for piece in long if piece.part == "turn" and asks(piece.text)][-1:]
        asked = asked or [piece for piece in long if piece.part == "instructions"]
        return [piece for piece in asked if asks(piece.text)] or asked[-1:]

    @cached_property
    def question_as_written(self) -> str:
        """The question, with the template's words before a colon."""
        return "\n".join(piece.text for piece in self.question_pieces)

    @property
    def question(self) -> str:
        """The question without the template's words before a colon.

        Such as 'Question:', or 'Answer in one sentence:'.
        """
        begins = {start for start, _ in self._message}
        return "\n".join(
            piece.text if piece.span[0] in begins else _after_colon(piece.text)
            for piece in self.question_pieces
        )

    @cached_property
    def statements(self) -> list[PromptPiece]:
        return [
            piece
            for piece in self._pieces
            if has_words(piece.text, _STATEMENT_WORDS)
            and not asks(piece.text)
            and piece not in self.question_pieces
        ]

    def state(self, text: str, share: float) -> bool:
        """Whether the last message or the instructions state so much of a text.

        That is a share of its numbers and longer words. Their questions state nothing.
        """
        stems = list(_stems(text))
        own = [piece for piece in self._pieces if piece.part != "turn"]
        asked = [piece for piece in own if asks(piece.text)] or self.question_pieces
        stated = {stem for piece in own if piece not in asked for stem in _stems(piece.text)}
        num_stated = sum(stem in stated for stem in stems)
        return bool(stems) and num_stated >= share * len(stems)


@dataclass(frozen=True)
class PromptPiece:
    """A sentence or line of a part of the prompt."""

    part: PromptPart
    span: Interval
    text: str

    def holds(self, word: str) -> bool:
        """Whether it has the word, perhaps with another ending; a number must be equal.

        For characters of a script without spaces, most of them are enough.
        """
        own = words(word)
        if word[0].isdigit():
            return all(each in self._alike.get(each[:_ALIKE], ()) for each in own)
        alike = ((each, self._alike.get(each[:_ALIKE], ())) for each in own)
        held = sum(any(same_word(each, other) for other in others) for each, others in alike)
        return 2 * held > len(own)

    @cached_property
    def _alike(self) -> dict[str, list[str]]:
        """The words of the piece, grouped by their first letters."""
        alike: dict[str, list[str]] = {}
        for word in words(self.text.casefold()):
            alike.setdefault(word[:_ALIKE], []).append(word)
        return alike


def _stems(text: str) -> Iterator[str]:
    """The beginnings of the longer words of a text, its numbers, and ideographs."""
    for word in words(_HIRAGANA.sub(" ", text.casefold())):
        if len(word) >= LEAST_LETTERS or word.isdecimal() or num_unspaced(word):
            yield word[:_STEM]


def _after_colon(text: str) -> str:
    """The text after its last colon, if a question is left."""
    rest = _COLON.split(text)[-1]
    return rest if has_words(rest, QUESTION_WORDS) else text


def _after_role(text: str, start: int, end: int) -> int:
    """The start of [start, end) after a first line of one word, in which templates write roles."""
    first = text.find("\n", start, end) + 1
    return first if first and not has_words(text[start:first], _STATEMENT_WORDS) else start
