"""The local Hugging Face model inside a LlamaIndex model."""

from __future__ import annotations

from typing import Any, cast

from torch.nn import Module
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from attribot_rag import LanguageModel
from attribot_rag.errors import InvalidInput


def find_language_model(llm: Any) -> LanguageModel | None:
    """The model and tokenizer that a HuggingFaceLLM generates with; None for another kind."""
    if isinstance(llm, LanguageModel):
        return llm
    model, tokenizer = getattr(llm, "_model", None), getattr(llm, "_tokenizer", None)
    if hasattr(model, "generate") and isinstance(tokenizer, PreTrainedTokenizerBase):
        return LanguageModel(cast(PreTrainedModel, model), tokenizer)
    return None


def describe(llm: Any) -> str:
    """Its class, and that of the model that it holds if there is any."""
    model = getattr(llm, "_model", None)
    name = type(llm).__name__
    return f"{name} ({type(model).__name__})" if isinstance(model, Module) else name


def language_model_of(llm: Any) -> LanguageModel:
    """The same; raises InvalidInput for a model that is not local."""
    found = find_language_model(llm)
    if found is None:
        raise InvalidInput(
            f"{describe(llm)} holds no local Hugging Face model; pass a HuggingFaceLLM, or an "
            "attribot_rag.LanguageModel(model, tokenizer)"
        )
    return found
