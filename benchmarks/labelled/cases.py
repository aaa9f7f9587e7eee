"""The nouns of the labelled set: case, expected verdict, labelled source."""

from __future__ import annotations

from dataclasses import dataclass

from attribot_rag.attributor.prompts import rag_prompt
from attribot_rag.context import Document
from attribot_rag.model.chat_messages import Message
from attribot_rag.result.verdict import Kind, Relation
from benchmarks.halves import Split

BETWEEN = "\n\n"


@dataclass(frozen=True)
class LabelledSource:
    """A labelled cause: `text` occurs exactly once in the document with this index.

    `shown` is its form in the prompt, up to white space.
    """

    document: int
    text: str
    shown: str


@dataclass(frozen=True, kw_only=True)
class ExpectedVerdict:
    """The label of an answer sentence: exactly these `sources` are to be cited.

    `follows` is the index of an earlier sentence. `acceptable` are equally correct labels. With
    `at_any_reliance` the label holds however much the context matters: it gives the sentence its
    unit, say, but not its value.
    """

    verdict: Kind
    sources: tuple[LabelledSource, ...] = ()
    relation: Relation = "each"
    follows: int | None = None
    at_any_reliance: bool = False
    acceptable: tuple[ExpectedVerdict, ...] = ()

    @property
    def alternatives(self) -> tuple[ExpectedVerdict, ...]:
        """This label, then the acceptable labels."""
        return (self, *self.acceptable)


@dataclass(frozen=True, kw_only=True)
class LabelledCase:
    """A question with documents, a fixed answer, and a label for each of its sentences.

    `documents` are the originals, `shown` their text in the prompt. `messages` are the turns of a
    chat with the placeholder {documents}; without messages, the prompt is that of `ask`.
    """

    id: str
    kind: str
    split: Split
    question: str
    documents: tuple[str, ...]
    shown: tuple[str, ...]
    messages: tuple[Message, ...] = ()
    answer: str
    expected: tuple[ExpectedVerdict, ...]

    @property
    def context(self) -> str:
        """The documents' text in the prompt, in order."""
        return BETWEEN.join(text.strip() for text in self.shown)

    @property
    def prompt(self) -> list[Message]:
        """The chat messages for the model."""
        if not self.messages:
            prompt = rag_prompt(self.question, [Document(text) for text in self.shown], chat=True)
            assert isinstance(prompt, list)
            return prompt
        return [
            {**message, "content": str(message["content"]).replace("{documents}", self.context)}
            for message in self.messages
        ]
