"""The nouns of the labelled set: a case, what is expected of its sentences, what they cite."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from attribot_rag.attribution.verdict import Kind, Relation
from attribot_rag.context import Document
from attribot_rag.language_model import Message
from attribot_rag.prompting import rag_prompt

Split = Literal["calibration", "held_out"]
BETWEEN = "\n\n"
SPLITS: tuple[Split, ...] = ("calibration", "held_out")


@dataclass(frozen=True)
class Citation:
    """A labelled cause: `text` stands exactly once in the document with this index.

    `shown` is how the prompt has it, up to white space.
    """

    document: int
    text: str
    shown: str


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What a sentence of the answer should get: all `sources` are cited, and nothing else.

    `follows` is the index of an earlier sentence. `acceptable` are other labels that are as right.
    """

    verdict: Kind
    sources: tuple[Citation, ...] = ()
    relation: Relation = "each"
    follows: int | None = None
    acceptable: tuple[Expected, ...] = ()

    @property
    def alternatives(self) -> tuple[Expected, ...]:
        """This label, then those that are as right."""
        return (self, *self.acceptable)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A question with documents, an answer that is given, and a label for each of its sentences.

    `documents` are the originals, `shown` the same as they stand in the prompt. `messages` are the
    turns of a chat, with {documents} where they go; without, the prompt is that of `ask`.
    """

    id: str
    kind: str
    split: Split
    question: str
    documents: tuple[str, ...]
    shown: tuple[str, ...]
    messages: tuple[Message, ...] = ()
    answer: str
    expected: tuple[Expected, ...]

    @property
    def context(self) -> str:
        """The documents as they stand in the prompt, one after the other."""
        return BETWEEN.join(text.strip() for text in self.shown)

    @property
    def prompt(self) -> list[Message]:
        """The chat messages that the model is given."""
        if not self.messages:
            prompt = rag_prompt(self.question, [Document(text) for text in self.shown], chat=True)
            assert isinstance(prompt, list)
            return prompt
        return [
            {**message, "content": str(message["content"]).replace("{documents}", self.context)}
            for message in self.messages
        ]
