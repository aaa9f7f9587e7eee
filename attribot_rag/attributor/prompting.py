"""Prompts: the one that `Attributor.ask` answers from, and what was said before a question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from attribot_rag.context import Document
from attribot_rag.context.document import Documents
from attribot_rag.errors import InvalidInput
from attribot_rag.model.chat_messages import Message, message_text
from attribot_rag.model.language_model import LanguageModel, Prompt, is_chat

TEMPLATE = (
    "Answer the question with one short sentence, using only the passages below.\n\n"
    "{context}\n\nQuestion: {question}"
)


def asked(
    question: str, documents: Documents, language_model: LanguageModel
) -> tuple[str | list[Message], list[Document]]:
    """The documents, then the question, as a message or as text; and the documents that were read.

    Raises InvalidInput for an empty question, or no documents.
    """
    if not question.strip():
        raise InvalidInput(f"the question is empty: {question!r}")
    if isinstance(documents, str) or not documents:
        raise InvalidInput(f"documents={documents!r}; pass a list of at least one document")
    known = [Document.of(document) for document in documents]
    return rag_prompt(question, known, bool(language_model.tokenizer.chat_template)), known


def rag_prompt(question: str, documents: Sequence[Document], chat: bool) -> str | list[Message]:
    """The documents, then the question: as a `chat` message, otherwise as text."""
    passages = "\n\n".join(document.text.strip() for document in documents)
    text = TEMPLATE.format(context=passages, question=question.strip())
    return [{"role": "user", "content": text}] if chat else f"{text}\nAnswer:"


def earlier_turns(prompt: Prompt) -> tuple[str, ...]:
    """What user and assistant said before the last message of the user."""
    if not is_chat(prompt):
        return ()
    said = [m for m in cast(Sequence[Message], prompt) if m.get("role") in ("user", "assistant")]
    last = max((i for i, message in enumerate(said) if message["role"] == "user"), default=0)
    return tuple(map(message_text, said[:last]))
