"""Calls of LlamaIndex's models: their prompts and answers, and the local models in them."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Generator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from llama_index.core.base.llms.types import ChatMessage, CompletionResponse, MessageRole
from llama_index.core.llms import LLM, ChatResponse
from llama_index.postprocessor.attribot.asking import AskAgain
from torch.nn import Module
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from attribot_rag import LanguageModel, LocalModel
from attribot_rag.runtime import Step


def find_language_model(llm: Any) -> LanguageModel | None:
    """The model and tokenizer that a HuggingFaceLLM generates with; None for another kind."""
    if isinstance(llm, LanguageModel):
        return llm
    model, tokenizer = getattr(llm, "_model", None), getattr(llm, "_tokenizer", None)
    if hasattr(model, "generate") and isinstance(tokenizer, PreTrainedTokenizerBase):
        return LocalModel(cast(PreTrainedModel, model), tokenizer)
    return None


def describe(llm: Any) -> str:
    """Its class, and that of the model that it holds if there is any."""
    model = getattr(llm, "_model", None)
    name = type(llm).__name__
    return f"{name} ({type(model).__name__})" if isinstance(model, Module) else name


@dataclass(eq=False)
class ModelCall:
    """A call of a model, with its prompt as text and perhaps as messages.

    `language_model` is None for a model that is not local; `answer` while it has not answered, and
    for an answer that was streamed to somebody else. A call that is `begun` only gave a stream, and
    asks the model when that is read. `asked_model` is the model that got the messages. It is
    answered `elsewhere` where that is not the local model that scores; `ask_again` has the model
    that answered do so again.
    """

    step: Step
    name: str
    language_model: LanguageModel | None = None
    prompt: str = ""
    messages: Sequence[ChatMessage] | None = None
    asked_model: LLM | None = None
    elsewhere: bool = False
    ask_again: AskAgain | None = None
    answer: str | None = None
    begun: bool = False

    @property
    def prompt_texts(self) -> list[str]:
        """What stands in the prompt as it is, whatever a template makes of earlier answers."""
        if self.messages is None:
            return [self.prompt.strip()]
        contents = (
            message.content or ""
            for message in self.messages
            if message.role is not MessageRole.ASSISTANT
        )
        return [text for content in contents if (text := content.strip())]

    def ask(
        self, llm: LLM, bound_args: inspect.BoundArguments, scoring: LanguageModel | None
    ) -> None:
        """The prompt of the innermost model that reports the call, which that model scores."""
        if self.language_model is None:  # of a model around a local one, that one
            self.language_model = scoring
        messages = _argument(bound_args, "messages")
        if messages is not None:
            self.messages, self.asked_model = tuple(messages), llm
        own, scoring = find_language_model(llm), self.language_model
        self.elsewhere = scoring is not None and (own is None or own.weights is not scoring.weights)
        prompt = _argument(bound_args, "prompt")
        if isinstance(prompt, str):
            self.prompt = prompt
            if self.asked_model is not llm:
                self.messages = None
        if messages is not None or (isinstance(prompt, str) and self.messages is None):
            self.ask_again = AskAgain.of(llm, self.messages, bound_args)

    def end(self, llm: LLM, result: Any) -> None:
        """The answer of the innermost model, which others may have changed."""
        if isinstance(result, CompletionResponse):
            if self.answer is None or find_language_model(llm) is not None:
                self.answer = str(result.text)
        elif isinstance(result, ChatResponse):
            if self.answer is None:  # of a model that chats without completing a prompt
                self.answer = result.message.content or ""
        elif not self.prompt:
            self.begun = isinstance(result, (Generator, AsyncGenerator))


def _argument(bound_args: inspect.BoundArguments, name: str) -> Any:
    """An argument by its name, or the first one of a method behind a decorator."""
    arguments = bound_args.arguments
    if name in arguments:
        return arguments[name]
    named = arguments.get("kwargs", {})
    if name in named:
        return named[name]
    first = next(iter(arguments.get("args", ())), None)
    return first if name == "prompt" and isinstance(first, str) else None
