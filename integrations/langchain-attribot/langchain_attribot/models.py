"""The local Hugging Face model inside a LangChain model."""

from __future__ import annotations

from typing import Any, cast

from langchain_core.runnables import Runnable
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from attribot_rag import LanguageModel
from attribot_rag.errors import InvalidInput

# What holds what: ChatHuggingFace its llm, HuggingFacePipeline its pipeline, bindings and
# fallbacks their runnable.
_HOLDERS = ("llm", "bound", "runnable", "pipeline")


def language_model_of(llm: Any) -> LanguageModel:
    """The model and tokenizer that a LangChain model generates with.

    `llm` is a ChatHuggingFace or HuggingFacePipeline on a local text-generation pipeline, bound or
    not, the pipeline itself, or a LanguageModel. Raises InvalidInput for anything else.
    """
    found = find_language_model(llm)
    if found is None:
        raise InvalidInput(
            f"{type(llm).__name__} holds no local Hugging Face model; pass the ChatHuggingFace or "
            "HuggingFacePipeline that answers (on a local pipeline, not an endpoint), or an "
            "attribot_rag.LanguageModel(model, tokenizer)"
        )
    return found


def find_language_model(llm: Any) -> LanguageModel | None:
    """The same, or None."""
    for _ in range(8):
        if isinstance(llm, LanguageModel):
            return llm
        model, tokenizer = getattr(llm, "model", None), getattr(llm, "tokenizer", None)
        if hasattr(model, "generate") and isinstance(tokenizer, PreTrainedTokenizerBase):
            return LanguageModel(cast(PreTrainedModel, model), tokenizer)
        llm = next((held for name in _HOLDERS if (held := getattr(llm, name, None))), None)
    return None


def language_models_in(chain: Runnable[Any, Any]) -> list[LanguageModel]:
    """All different local models that the chain's graph shows."""
    found: dict[int, LanguageModel] = {}
    for llm in (chain, *(node.data for node in chain.get_graph().nodes.values())):
        language_model = find_language_model(llm)
        if language_model is not None:
            found.setdefault(id(language_model.model), language_model)
    return list(found.values())
