"""Examples as prompts, and the answers that the model generates for them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from attribot_rag.attributor.prompts import TEMPLATE
from attribot_rag.context import ContextOptions, PromptInput, TokenizedText, locate_context
from attribot_rag.model.generation import Generation
from attribot_rag.model.language_model import Prompt
from attribot_rag.model.local_model import LocalModel
from attribot_rag.recording import generate_answer
from attribot_rag.scoring import LocalBackend, Scorer, ScoringOptions
from benchmarks.experiment.example import Example
from benchmarks.experiment.results import AnswerRecord, Setting
from benchmarks.experiment.setting import CLOCKS

TEMPLATES: dict[str, str] = {
    "attribot": (
        "Answer the question based on the provided context:\n\n"
        "Context:\n{context}\n\nQuestion: {question}"
    ),
    "context_cite": "Context: {context}\n\nQuery: {question}",
    "short": TEMPLATE,
}
"""Prompts by name: of AttriBoT's published scripts, of ContextCite, and of `Attributor.ask`."""


@dataclass(frozen=True, eq=False)
class Question:
    """An example with its prompt and its located documents, for a model.

    `max_new_tokens` is None for an example with a recorded answer.
    """

    example: Example
    language_model: LocalModel
    prompt_ids: tuple[int, ...]
    prompt_input: PromptInput
    max_new_tokens: int | None

    @cached_property
    def digest(self) -> str:
        """A digest of the model, its whole input, and the sources' spans."""
        model = self.language_model
        sources = [
            [occurrence.spans for occurrence in source.occurrences]
            for source in self.prompt_input.context.sources
        ]
        example = (self.example.documents, sources, self.example.response)
        checkpoint = (Path(model.name).name, model.weights.num_parameters, model.dtype)
        return _digest(self.prompt_ids, self.max_new_tokens, example, *checkpoint)

    @property
    def evidence(self) -> list[int]:
        """The sources that overlap the annotators' marks."""
        return [
            source.id
            for source in self.prompt_input.context.sources
            if any(
                span.document == mark.document and span.start < mark.end and mark.start < span.end
                for place in source.occurrences
                for span in place.spans
                for mark in self.example.evidence
            )
        ]


@dataclass(frozen=True, eq=False)
class GeneratedAnswer:
    """The generation that answers a question; `seconds` is None for a recorded answer."""

    question: Question
    generation: Generation
    seconds: float | None

    @property
    def digest(self) -> str:
        """A digest of the question and of the answer's tokens."""
        return _digest(self.question.digest, self.generation.response_ids)

    def record(self, setting: Setting, num_random: int) -> AnswerRecord:
        """The record of the answer, timed in this setting."""
        question, generation = self.question, self.generation
        context = question.prompt_input.context
        return AnswerRecord(
            key=question.example.key,
            question=question.digest,
            digest=self.digest,
            prompt_tokens=len(generation.prompt_ids),
            context_tokens=sum(len(context.prompt.tokens_in(region)) for region in context.regions),
            response_tokens=len(generation.response_ids),
            documents=[source.documents[0] for source in context.sources],
            evidence=question.evidence,
            seconds=None if self.seconds is None else round(self.seconds, 3),
            clock=setting.clock,
            hardware=setting.hardware,
            num_random=num_random,
        )

    def scorer(self, backend: LocalBackend, implementation: str = "auto") -> Scorer:
        """A new scorer, with nothing read or counted yet."""
        return Scorer(
            self.question.language_model,
            self.generation,
            self.question.prompt_input.context,
            backend,
            options=ScoringOptions(implementation=implementation),
            prompt_input=self.question.prompt_input,
        )


def prepare(
    example: Example, language_model: LocalModel, template: str, max_new_tokens: int
) -> Question:
    """The example as a prompt; raises ContextTooLong if it exceeds the model's positions."""
    prompt = prompt_of(example, template, language_model)
    prompt_ids = language_model.encode_prompt(prompt)
    if example.response is None:
        language_model.check_length(len(prompt_ids), max_new_tokens)
    located = ContextOptions(source_unit=example.source_unit)
    tokens = TokenizedText.of(prompt_ids, language_model)
    context = locate_context(tokens, example.documents, located)
    return Question(
        example,
        language_model,
        prompt_ids,
        PromptInput(prompt, context, located),
        max_new_tokens if example.response is None else None,
    )


def prompt_of(example: Example, template: str, language_model: LocalModel) -> Prompt:
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


def answer_question(question: Question, clock: str = "wall") -> GeneratedAnswer | None:
    """The recorded answer, or the model's own, greedily; None if that has no tokens."""
    language_model, prompt_ids = question.language_model, question.prompt_ids
    if question.example.response is not None:
        response_ids = language_model.encode(question.example.response)
        language_model.check_length(len(prompt_ids), len(response_ids))
        recorded = Generation(prompt_ids, response_ids, retokenized=True)
        return GeneratedAnswer(question, recorded, None)
    assert question.max_new_tokens is not None
    now = CLOCKS[clock]
    started = now()
    generation = generate_answer(language_model, prompt_ids, max_new_tokens=question.max_new_tokens)
    seconds = now() - started
    return None if generation is None else GeneratedAnswer(question, generation, seconds)


def _digest(*values: object) -> str:
    return hashlib.sha256(repr(values).encode()).hexdigest()[:16]
