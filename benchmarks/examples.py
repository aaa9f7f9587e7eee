"""Questions with documents from HotpotQA's public JSON file, and answers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from attribot_rag import ContextOptions, Document, LanguageModel
from attribot_rag.attributor.prompting import rag_prompt
from attribot_rag.context import Context, TokenizedText, locate_context
from attribot_rag.recording import Generation, generate_answer

MAX_NEW_TOKENS = 64


@dataclass(frozen=True)
class Example:
    """A question with its context; `key` names it in the data set."""

    key: str
    question: str
    documents: tuple[Document, ...]


@dataclass(frozen=True, eq=False)
class GeneratedAnswer:
    """The model's own greedy answer to an example, and the located context."""

    generation: Generation
    context: Context


def answer(example: Example, language_model: LanguageModel) -> GeneratedAnswer | None:
    """Let the model answer; None if the answer has no tokens."""
    is_chat = bool(language_model.tokenizer.chat_template)
    prompt = rag_prompt(example.question, example.documents, is_chat)
    prompt_ids = language_model.encode_prompt(prompt)
    generation = generate_answer(language_model, prompt_ids, max_new_tokens=MAX_NEW_TOKENS)
    if generation is None:
        return None
    tokens = TokenizedText.of(prompt_ids, language_model)
    return GeneratedAnswer(generation, locate_context(tokens, example.documents, ContextOptions()))


def hotpotqa(path: Path, count: int) -> list[Example]:
    """The file's first questions, each with ten titled paragraphs."""
    return [
        Example(
            key=f"hotpotqa/{one['_id']}",
            question=one["question"],
            documents=tuple(
                Document(f"{title}: {''.join(sentences).strip()}", id=title)
                for title, sentences in one["context"]
            ),
        )
        for one in json.loads(path.read_text())[:count]
    ]
