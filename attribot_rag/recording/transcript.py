"""Answers, and the texts of prompts and generations that match an answer."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from attribot_rag.cached_property import cached_property
from attribot_rag.context import TokenizedText
from attribot_rag.context.document import Documents
from attribot_rag.errors import InvalidInput
from attribot_rag.model.language_model import LanguageModel, Prompt

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from attribot_rag.model.generation import Generation

_trace: ModuleType | None = None
with suppress(ImportError):  # an extra
    from opentelemetry import trace as _trace


@dataclass(frozen=True, eq=False)
class PromptText:
    """The ids of a prompt, decoded when the text is first needed."""

    ids: tuple[int, ...]
    language_model: LanguageModel

    @cached_property
    def tokens(self) -> TokenizedText:
        """The prompt with its special tokens."""
        return TokenizedText.of(self.language_model.check_ids(self.ids), self.language_model)

    @cached_property
    def without_special_tokens(self) -> str:
        return self.language_model.decode(self.ids, skip_special_tokens=True)

    @property
    def texts(self) -> Iterator[str]:
        """The prompt with its special tokens, then without them."""
        yield self.tokens.text
        yield self.without_special_tokens

    def equals(self, prompt: str) -> bool:
        """Whether this is the whole prompt, with or without its special tokens."""
        bare = self._without_bos(prompt)
        return any(bare == self._without_bos(text) for text in self.texts)

    def fits(self, prompt: str | None, contains: Sequence[str]) -> bool:
        """Whether it equals `prompt`, unless that is None, and contains all these texts.

        A prompt of embeddings may have been any prompt.
        """
        if not self.ids:
            return True
        if prompt is not None and not self.equals(prompt):
            return False
        return all(text.strip() in self.tokens.text for text in contains)

    def _without_bos(self, prompt: str) -> str:
        """A prompt without the BOS before it, which may be there once, twice or not at all."""
        bos = self.language_model.tokenizer.bos_token
        prompt = prompt.strip()
        while bos and prompt.startswith(bos):
            prompt = prompt[len(bos) :].strip()
        return prompt


@dataclass(frozen=True, eq=False)
class Transcript:
    """A generation with its texts, each decoded once."""

    generation: Generation
    prompt: PromptText

    @classmethod
    def of(cls, generation: Generation, language_model: LanguageModel) -> Transcript:
        return cls(generation, PromptText(generation.prompt_ids, language_model))

    @cached_property
    def response(self) -> TokenizedText:
        """The response's tokens with their text. Special tokens are empty."""
        language_model = self.prompt.language_model
        ids = language_model.check_ids(self.generation.response_ids)
        return TokenizedText.of(ids, language_model, skip_special_tokens=True)

    def holds(self, generation: Generation) -> bool:
        """Whether the answer is this generation, whole or cut: they share the prompt's tuple."""
        return self.generation.prompt_ids is generation.prompt_ids

    def shown_part(self, shown: str) -> tuple[Transcript, int] | None:
        """The generation cut to a displayed text, with or without its prompt; and its start."""
        with suppress(InvalidInput):
            return self.cut_to(shown), 0
        for prompt in self.prompt.texts:
            if shown.startswith(prompt):
                with suppress(InvalidInput):
                    return self.cut_to(shown[len(prompt) :]), len(prompt)
        return None

    def cut_to(self, response: str) -> Transcript:
        """The generation cut to the tokens of the text `response`.

        White space at its end stays if nothing else was cut. Raises InvalidInput if the
        generation's text does not begin with `response`.
        """
        shown = response.strip()
        if not shown or not self.response.text.strip().startswith(shown):
            raise InvalidInput(f"the response {response[:80]!r} is not what was generated")
        decode, ids = self.prompt.language_model.decode, self.generation.response_ids
        if decode(ids).strip() == shown:
            return self

        def is_enough(length: int) -> bool:
            return decode(ids[:length], skip_special_tokens=True).strip().startswith(shown)

        cut = self.generation.truncated(1 + bisect_left(range(1, len(ids)), True, key=is_enough))
        return self if cut is self.generation else Transcript(cut, self.prompt)


@dataclass(frozen=True, eq=False)
class Answer:
    """An answer of a model, from the framework that shows it to the summary attached to it.

    After the attribution, it keeps no transcript, which may have a KV cache.

    Args:
        text: The answer as its caller has it, or its beginning, perhaps after the prompt.
        documents: The framework's own documents.
        prompt_texts: Texts that are all in the prompt, and identify it.
        prompt: The whole prompt, if it is known.
        notes: Notes of the attribution.
        warning: A note for an attribution that finds no source of some sentence.
        question: The question.
        elsewhere: Whether a copy of the model gave the answer, which nobody recorded. Prompt and
            text are then tokenized.
        answered_by: The name of the model that gave the answer, if another one reads it; '' if
            unknown.
        ask: Sends a prompt to that model for `Attributor.answer_without`; None if it cannot be
            asked.
        beside_others: Whether the application calls models several times. Documents that are not in
            this prompt then cause no warning.
        span: The OpenTelemetry span of the model's call, if the framework reports it.
        contents: The documents as the prompt has them, if `Document.of` reads something else.
        retrieved: Documents of the application that may be missing in this prompt: those of earlier
            answers.
        num_before: When the application asked for this answer, how many answers with documents it
            already had.
        transcript: The generation of a matched answer, cut to the text.
        start: The character at which the response of a matched answer begins in the text.
    """

    text: str
    documents: Documents = ()
    prompt_texts: Sequence[str] = ()
    prompt: Prompt | None = None
    notes: Sequence[str] = ()
    warning: str = ""
    question: str | None = None
    elsewhere: bool = False
    answered_by: str = ""
    ask: Callable[..., str] | None = None
    beside_others: bool = False
    span: Span | None = None
    contents: Documents | None = None
    retrieved: Documents = ()
    num_before: int = 0
    transcript: Transcript | None = None
    start: int = 0

    def __getstate__(self) -> dict[str, Any]:
        """The state without values that belong to this process."""
        return {**vars(self), "ask": None, "span": None, "transcript": None}

    @property
    def prompt_documents(self) -> Documents:
        """The documents as the prompt may have them."""
        return self.documents if self.contents is None else self.contents


def current_span() -> Span | None:
    """The current span of this thread or task, or None."""
    if _trace is None:
        return None
    span: Span = _trace.get_current_span()
    # OpenInference's wrapper of a LlamaIndex span changes its span when that ends.
    span = getattr(span, "__wrapped__", span)
    return span if span.get_span_context().is_valid else None
