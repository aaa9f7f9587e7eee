"""The model's own greedy answers, with generation's cache."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from attribot_rag import ContextOptions, Generation, GenerationRecorder, LanguageModel
from attribot_rag.context import Context, TokenizedText, locate_context
from attribot_rag.context.splitting import sentences, split_spans
from attribot_rag.prompting import rag_prompt
from benchmarks.faithfulness.examples import Example

MAX_NEW_TOKENS = 64


@dataclass(frozen=True, eq=False)
class Answer:
    """One example with the generation that answered it and its located context.

    `sentence_tokens` are the columns of each sentence of the response.
    """

    example: Example
    generation: Generation
    context: Context
    text: str
    sentence_tokens: tuple[range, ...]

    @property
    def digest(self) -> str:
        """Changes whenever the model, the prompt or the sources do."""
        sources = [
            (place.start, place.end) for one in self.context.sources for place in one.occurrences
        ]
        seen = (self.generation.prompt_ids, self.generation.response_ids, sources)
        return hashlib.sha256(repr(seen).encode()).hexdigest()[:16]


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
    response = TokenizedText.of(generation.response_ids, language_model)
    return Answer(
        example,
        generation,
        locate_context(prompt, example.documents, ContextOptions()),
        response.text,
        tuple(_tokens(response, span) for span in split_spans(response.text, sentences)),
    )


def _tokens(response: TokenizedText, span: tuple[int, int]) -> range:
    return response.tokens_in(span)


def per_sentence(token_scores: Sequence[float], sentence_tokens: Sequence[range]) -> list[float]:
    """Sums over the tokens of each sentence, in nats."""
    return [round(sum(token_scores[i] for i in tokens), 4) for tokens in sentence_tokens]
