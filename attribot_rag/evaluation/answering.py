"""The model's own greedy answers, with generation's cache."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import torch

from attribot_rag.context import Context, ContextOptions, PromptInput, TokenizedText, locate_context
from attribot_rag.errors import InvalidInput
from attribot_rag.evaluation.clock import CLOCKS
from attribot_rag.evaluation.example import Example
from attribot_rag.generation import Generation
from attribot_rag.language_model import LanguageModel, Prompt
from attribot_rag.prompting import TEMPLATE
from attribot_rag.recording import GenerationRecorder
from attribot_rag.scoring import Scorer, ScoringModels, ScoringOptions

TEMPLATES: dict[str, str] = {
    "attribot": (
        "Answer the question based on the provided context:\n\n"
        "Context:\n{context}\n\nQuestion: {question}"
    ),
    "context_cite": "Context: {context}\n\nQuery: {question}",
    "short": TEMPLATE,
}
"""Prompts by name: that of AttriBoT's published scripts, ContextCite's, and that of
`Attributor.ask`."""


@dataclass(frozen=True, kw_only=True)
class AskingOptions:
    """The name of the prompt's template, and the tokens of an answer at most."""

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
    """One example with its prompt, and its documents located there.

    `max_new_tokens` is None for an example that holds its answer.
    """

    example: Example
    prompt_ids: tuple[int, ...]
    prompt_input: PromptInput
    max_new_tokens: int | None

    def digest(self, language_model: LanguageModel) -> str:
        """Changes whenever the model, anything that it is given, or what is a source does."""
        model = (Path(language_model.name).name, language_model.num_parameters)
        sources = [
            [place.spans for place in source.occurrences]
            for source in self.prompt_input.context.sources
        ]
        example = (self.example.documents, sources, self.example.response)
        return _digest(self.prompt_ids, self.max_new_tokens, example, *model, language_model.dtype)


@dataclass(frozen=True, eq=False)
class Answer:
    """The generation that answered a question.

    `seconds` is what the answer took by the `clock`, None if it was given.
    """

    question: Question
    generation: Generation
    seconds: float | None
    clock: str = "wall"

    @property
    def context(self) -> Context:
        return self.question.prompt_input.context

    def digest(self, language_model: LanguageModel) -> str:
        """Changes whenever the question, the model or the response does."""
        return _digest(self.question.digest(language_model), self.generation.response_ids)

    def scorer(
        self,
        language_model: LanguageModel,
        models: ScoringModels,
        implementation: str = "auto",
        of: type[Scorer] = Scorer,
    ) -> Scorer:
        """A new one, so that what another has read or counted does not show."""
        options = ScoringOptions(implementation=implementation)
        return of(
            language_model,
            self.generation,
            self.context,
            models,
            options=options,
            prompt_input=self.question.prompt_input,
        )


def ask(example: Example, language_model: LanguageModel, options: AskingOptions) -> Question:
    """Put the example into a prompt; raises ContextTooLong if the model has no room for it."""
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
    """The example's prompt, a chat message if the model chats."""
    passages = "\n\n".join(
        f"{heading}\n{document.text.strip()}" if heading else document.text.strip()
        for document in example.documents
        for heading in [document.metadata.get("heading")]
    )
    text = TEMPLATES[template].format(context=passages, question=example.question.strip())
    if language_model.tokenizer.chat_template:
        return [{"role": "user", "content": text}]
    return f"{text}\nAnswer:"


def answer(question: Question, language_model: LanguageModel, clock: str = "wall") -> Answer | None:
    """Let the model answer, unless the example holds an answer; None if it says nothing."""
    example, prompt_ids = question.example, question.prompt_ids
    seconds = None
    if example.response is not None:
        response_ids = language_model.encode(example.response)
        language_model.check_length(len(prompt_ids), len(response_ids))
        generation = Generation(prompt_ids, response_ids, retokenized=True)
    else:
        now = CLOCKS[clock]
        started = now()
        generated = _generated(prompt_ids, language_model, question.max_new_tokens)
        seconds = now() - started
        if generated is None:
            return None
        generation = generated
    return Answer(question, generation, seconds, clock)


def _generated(
    prompt_ids: tuple[int, ...], language_model: LanguageModel, max_new_tokens: int | None
) -> Generation | None:
    inputs = torch.tensor([prompt_ids], device=language_model.device)
    with GenerationRecorder(language_model) as recorder, torch.inference_mode():
        language_model.model.generate(  # type: ignore[operator]
            inputs,
            attention_mask=torch.ones_like(inputs),
            max_new_tokens=max_new_tokens,
            do_sample=False,
        )
    return recorder.generations[-1] if recorder.generations else None


def _digest(*values: object) -> str:
    return hashlib.sha256(repr(values).encode()).hexdigest()[:16]
