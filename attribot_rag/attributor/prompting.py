"""The prompt that `Attributor.ask` answers from."""

from __future__ import annotations

from collections.abc import Sequence

from attribot_rag.context import Document
from attribot_rag.model.chat_messages import Message

TEMPLATE = (
    "Answer the question with one short sentence, using only the passages below.\n\n"
    "{context}\n\nQuestion: {question}"
)


def rag_prompt(question: str, documents: Sequence[Document], chat: bool) -> str | list[Message]:
    """The documents, then the question: as a `chat` message, otherwise as text."""
    passages = "\n\n".join(document.text.strip() for document in documents)
    text = TEMPLATE.format(context=passages, question=question.strip())
    return [{"role": "user", "content": text}] if chat else f"{text}\nAnswer:"
