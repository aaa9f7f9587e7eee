"""The model's own greedy answers, with generation's cache."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from attribot_rag import ContextOptions, LanguageModel
from attribot_rag.context import Context, TokenizedText, locate_context
from attribot_rag.prompting import rag_prompt
from attribot_rag.recording import Generation, GenerationRecorder
from benchmarks.examples import Example

MAX_NEW_TOKENS = 64


@dataclass(frozen=True, eq=False)
class Answer:
    """The generation that answered an example, and its located context."""

    generation: Generation
    context: Context


def answer(example: Example, language_model: LanguageModel) -> Answer | None:
    """Ask the model; None if it has no answer."""
    chat = bool(language_model.tokenizer.chat_template)
    prompt_ids = language_model.encode_prompt(rag_prompt(example.question, example.documents, chat))
    inputs = torch.tensor([prompt_ids], device=language_model.device)
    with GenerationRecorder(language_model) as recorder, torch.inference_mode():
        language_model.model.generate(  # type: ignore[operator]
            inputs,
            attention_mask=torch.ones_like(inputs),
            max_new_tokens=MAX_NEW_TOKENS,
            do_sample=False,
        )
    if not recorder.generations:
        return None
    generation = recorder.generations[-1]
    prompt = TokenizedText.of(prompt_ids, language_model)
    context = locate_context(prompt, example.documents, ContextOptions())
    return Answer(generation, context)
