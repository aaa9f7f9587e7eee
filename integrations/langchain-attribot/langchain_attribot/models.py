"""Finds the local Hugging Face model inside a LangChain model, and asks models again."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from langchain_core.language_models import BaseLanguageModel
from langchain_core.runnables import Runnable, RunnableLambda

import attribot_rag
from attribot_rag import LanguageModel
from attribot_rag.errors import InvalidInput
from langchain_attribot.callbacks import unobserved
from langchain_attribot.messages import answer_text

if TYPE_CHECKING:
    from transformers import Pipeline

# The attributes that hold models: ChatHuggingFace has an llm, HuggingFacePipeline a pipeline,
# bindings and fallbacks a runnable.
_HOLDERS = ("llm", "bound", "runnable", "pipeline")


ModelHolder: TypeAlias = "Runnable[Any, Any] | Pipeline | LanguageModel"
"""What holds a local model: a LangChain model or chain, a pipeline, or the model itself."""

ModelHolders: TypeAlias = "ModelHolder | Sequence[ModelHolder]"


def language_model_of(llm: Any) -> LanguageModel:
    """The model and tokenizer that a LangChain model generates with.

    `llm` is a ChatHuggingFace or HuggingFacePipeline on a local text-generation pipeline, with or
    without bindings, the pipeline itself, or a LanguageModel. Raises InvalidInput for anything
    else.
    """
    model = find_language_model(llm)
    if model is None:
        raise InvalidInput(
            f"{type(llm).__name__} holds no local Hugging Face model; pass the ChatHuggingFace or "
            "HuggingFacePipeline that answers (on a local pipeline, not an endpoint), or a copy of "
            "its weights: language_model=attribot_rag.LocalModel(model, tokenizer). For any other "
            "model, pass a reader: reader=attribot_rag.load_model(), or reader='words', which "
            "needs no model"
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
    model: Any = getattr(llm, "model", None)
    tokenizer: Any = getattr(llm, "tokenizer", None)
    if not hasattr(model, "generate"):
        return None
    from transformers import PreTrainedTokenizerBase  # which takes seconds

    is_whole = isinstance(tokenizer, PreTrainedTokenizerBase)
    return attribot_rag.LocalModel(model, tokenizer) if is_whole else None


def language_models_in(chain: Any) -> list[LanguageModel]:
    """All different local models in a chain, a graph or a list.

    This includes branches, fallbacks, and the runnables that functions and nodes use by name.
    """
    models: dict[Hashable, LanguageModel] = {}
    for part in _all_parts(chain):
        language_model = _own_model(part)
        if language_model is not None:
            models.setdefault(language_model.weights, language_model)
    return list(models.values())


def answering_models_in(chain: Any) -> list[BaseLanguageModel[Any]]:
    """All LangChain models in a chain, a graph or a list, without models inside other models."""
    models = [part for part in _all_parts(chain) if isinstance(part, BaseLanguageModel)]
    inner = {id(part) for model in models for part in _parts(model)}
    return [model for model in models if id(model) not in inner]


def _all_parts(chain: Any) -> Iterator[Any]:
    """The chain and all its parts, each once."""
    visited: dict[int, Any] = {}
    waiting = deque([chain])
    while waiting:
        part = waiting.popleft()
        if id(part) not in visited:
            visited[id(part)] = part
            yield part
            waiting.extend(_parts(part))


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


@dataclass(frozen=True, eq=False)
class AskAgain:
    """Sends another prompt, text or messages, to the model that answered a prompt.

    `name` and `parameters` of the model come from its call. Raises
    InvalidInput if none of the models fits, or several do.
    """

    models: Sequence[BaseLanguageModel[Any]]
    name: str
    parameters: Mapping[str, Any]

    def __call__(self, prompt: Any, **settings: Any) -> str:
        model = self._model()
        with unobserved():
            answer = model.invoke(prompt, **{**self._settings(model), **settings})
        return answer if isinstance(answer, str) else answer_text(answer)

    def _model(self) -> BaseLanguageModel[Any]:
        models = list(self.models)
        if len(models) > 1:
            names = ("model", "model_name")
            models = [m for m in models if self.name in [getattr(m, name, None) for name in names]]
        if len(models) == 1:
            return models[0]
        raise InvalidInput(
            f"{self.name or 'the model that answered'} cannot be asked again: it is "
            f"{'one of several' if models else 'none'} of the models that were passed. Pass the "
            "one that answers, AttributionCallbackHandler(chat, reader=...), or the chain with it"
        )

    def _settings(self, model: Any) -> dict[str, Any]:
        """The call's parameters that the model lacks itself: tools, or a bound temperature."""
        as_dict = (
            getattr(model, "asdict", None) or model.dict
        )  # as it was before langchain-core 1.4
        own = {"stop": None, **as_dict()}
        return {
            name: value
            for name, value in self.parameters.items()
            if name not in own or own[name] != value
        }
