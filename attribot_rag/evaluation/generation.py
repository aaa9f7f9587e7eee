"""Examples as prompts, and the answers that the model generates for them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from attribot_rag.context import Context, ContextOptions, PromptInput, TokenizedText, locate_context
from attribot_rag.errors import InvalidInput
from attribot_rag.evaluation.example import Example
from attribot_rag.evaluation.setting import CLOCKS
from attribot_rag.generation import Generation
from attribot_rag.language_model import LanguageModel, Prompt
from attribot_rag.prompting import TEMPLATE
from attribot_rag.recording import generate_answer
from attribot_rag.scoring import Scorer, ScoringModels, ScoringOptions

TEMPLATES: dict[str, str] = {
    "attribot": (
        "Answer the question based on the provided context:\n\n"
        "Context:\n{context}\n\nQuestion: {question}"
    ),
    "context_cite": "Context: {context}\n\nQuery: {question}",
    "short": TEMPLATE,
}
"""Prompts by name: of AttriBoT's published scripts, of ContextCite, and of `Attributor.ask`."""


@dataclass(frozen=True, kw_only=True)
class GenerationOptions:
    """The name of the prompt's template, and the maximal number of tokens of an answer.

    Raises InvalidInput for an unknown template or less than one token.
    """

    template: str = "attribot"
    max_new_tokens: int = 64

    def __post_init__(self) -> None:
        if self.template not in TEMPLATES:
            known = ", ".join(TEMPLATES)
            raise InvalidInput(f"unknown prompt template {self.template!r}; choose one of {known}")
        if self.max_new_tokens < 1:
            raise InvalidInput(f"max_new_tokens={self.max_new_tokens!r}; use at least 1")


@dataclass(frozen=True, eq=False)
class Question:
    """An example with its prompt and its located documents.

    `max_new_tokens` is None for an example with a recorded answer.
    """

    example: Example
    prompt_ids: tuple[int, ...]
    prompt_input: PromptInput
    max_new_tokens: int | None

    def digest(self, language_model: LanguageModel) -> str:
        """A digest of the model, its whole input, and the sources' spans."""
        model = (Path(language_model.name).name, language_model.num_parameters)
        sources = [
            [occurrence.spans for occurrence in source.occurrences]
            for source in self.prompt_input.context.sources
        ]
        example = (self.example.documents, sources, self.example.response)
        return _digest(self.prompt_ids, self.max_new_tokens, example, *model, language_model.dtype)


@dataclass(frozen=True, eq=False)
class GeneratedAnswer:
    """The generation that answers a question.

    `seconds` is the time of generation by the `clock`, None for a recorded answer.
    """

    question: Question
    generation: Generation
    seconds: float | None
    clock: str = "wall"

    @property
    def context(self) -> Context:
        return self.question.prompt_input.context

    def digest(self, language_model: LanguageModel) -> str:
        """A digest of the question, the model and the response."""
        return _digest(self.question.digest(language_model), self.generation.response_ids)

    def scorer(
        self,
        language_model: LanguageModel,
        models: ScoringModels,
        implementation: str = "auto",
        of: type[Scorer] = Scorer,
    ) -> Scorer:
        """A new scorer of class `of`, with nothing read or counted yet."""
        options = ScoringOptions(implementation=implementation)
        return of(
            language_model,
            self.generation,
            self.context,
            models,
            options=options,
            prompt_input=self.question.prompt_input,
        )


def prepare(
    example: Example, language_model: LanguageModel, options: GenerationOptions
) -> Question:
    """The example as a prompt; raises ContextTooLong if it exceeds the model's positions."""
    prompt = prompt_of(example, options.template, language_model)
    prompt_ids = language_model.encode_prompt(prompt)
    max_new_tokens = None
    if example.response is None:
        max_new_tokens = options.max_new_tokens
        language_model.check_length(len(prompt_ids), max_new_tokens)
    located = ContextOptions(source_unit=example.source_unit)
    tokens = TokenizedText.of(prompt_ids, language_model)
    context = locate_context(tokens, example.documents, located)
    return Question(example, prompt_ids, PromptInput(prompt, context, located), max_new_tokens)


def prompt_of(example: Example, template: str, language_model: LanguageModel) -> Prompt:
    """The example's prompt: a chat message for a chat model, otherwise text."""
    passages = "\n\n".join(
        f"{heading}\n{document.text.strip()}" if heading else document.text.strip()
        for document in example.documents
        for heading in [document.metadata.get("heading")]
    )
    text = TEMPLATES[template].format(context=passages, question=example.question.strip())
    if language_model.tokenizer.chat_template:
        return [{"role": "user", "content": text}]
    return f"{text}\nAnswer:"


def answer_question(
    question: Question, language_model: LanguageModel, clock: str = "wall"
) -> GeneratedAnswer | None:
    """The recorded answer, or the model's own, greedily; None if that has no tokens."""
    example, prompt_ids = question.example, question.prompt_ids
    if example.response is not None:
        response_ids = language_model.encode(example.response)
        language_model.check_length(len(prompt_ids), len(response_ids))
        recorded = Generation(prompt_ids, response_ids, retokenized=True)
        return GeneratedAnswer(question, recorded, None, clock)
    assert question.max_new_tokens is not None
    now = CLOCKS[clock]
    started = now()
    generation = generate_answer(language_model, prompt_ids, max_new_tokens=question.max_new_tokens)
    seconds = now() - started
    return None if generation is None else GeneratedAnswer(question, generation, seconds, clock)


def _digest(*values: object) -> str:
    return hashlib.sha256(repr(values).encode()).hexdigest()[:16]
