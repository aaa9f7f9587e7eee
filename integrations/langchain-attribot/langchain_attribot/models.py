"""The local Hugging Face model inside a LangChain model."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from langchain_core.runnables import Runnable, RunnableLambda
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from attribot_rag import LanguageModel
from attribot_rag.errors import InvalidInput

if TYPE_CHECKING:
    from transformers import Pipeline

# What holds what: ChatHuggingFace its llm, HuggingFacePipeline its pipeline, bindings and
# fallbacks their runnable.
_HOLDERS = ("llm", "bound", "runnable", "pipeline")


LocalModel: TypeAlias = "Runnable[Any, Any] | Pipeline | LanguageModel"
"""What holds a local model: a LangChain model or a chain, its pipeline, or the model itself."""

LocalModels: TypeAlias = "LocalModel | Sequence[LocalModel]"


def language_model_of(llm: Any) -> LanguageModel:
    """The model and tokenizer that a LangChain model generates with.

    `llm` is a ChatHuggingFace or HuggingFacePipeline on a local text-generation pipeline, bound or
    not, the pipeline itself, or a LanguageModel. Raises InvalidInput for anything else.
    """
    model = find_language_model(llm)
    if model is None:
        raise InvalidInput(
            f"{type(llm).__name__} holds no local Hugging Face model; pass the ChatHuggingFace or "
            "HuggingFacePipeline that answers (on a local pipeline, not an endpoint), or, with the "
            "same weights, language_model=attribot_rag.LanguageModel(model, tokenizer)"
        )
    return model


def find_language_model(llm: Any) -> LanguageModel | None:
    """The same, or None."""
    for _ in range(8):
        own = _own_model(llm)
        if own is not None:
            return own
        llm = next((inner for name in _HOLDERS if (inner := getattr(llm, name, None))), None)
    return None


def _own_model(llm: Any) -> LanguageModel | None:
    if isinstance(llm, LanguageModel):
        return llm
    model, tokenizer = getattr(llm, "model", None), getattr(llm, "tokenizer", None)
    if hasattr(model, "generate") and isinstance(tokenizer, PreTrainedTokenizerBase):
        return LanguageModel(cast(PreTrainedModel, model), tokenizer)
    return None


def language_models_in(chain: Any) -> list[LanguageModel]:
    """All different local models in a chain, a graph or a list.

    Also in its branches and fallbacks, and the runnables that its functions and nodes use by name.
    """
    models: dict[Hashable, LanguageModel] = {}
    visited: dict[int, Any] = {}
    waiting = deque([chain])
    while waiting:
        part = waiting.popleft()
        if id(part) in visited:
            continue
        visited[id(part)] = part
        language_model = _own_model(part)
        if language_model is not None:
            models.setdefault(language_model.backend, language_model)
        waiting.extend(_parts(part))
    return list(models.values())


def _parts(holder: Any) -> Iterator[Any]:
    if isinstance(holder, list | tuple | set):
        yield from holder
    elif isinstance(holder, dict):
        yield from holder.values()
    else:
        if isinstance(holder, Runnable):
            for value in vars(holder).values():
                yield value
                if inspect.isfunction(value):
                    yield from RunnableLambda(value).deps
        yield from (getattr(holder, name, None) for name in _HOLDERS)
