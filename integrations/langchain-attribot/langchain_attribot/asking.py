"""The model that answered, asked again with another prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseLanguageModel

from attribot_rag.errors import InvalidInput
from langchain_attribot.callbacks import unobserved
from langchain_attribot.messages import answer_text


@dataclass(frozen=True, eq=False)
class AskAgain:
    """Has the one of these models that answered a prompt complete another one, text or messages.

    `name` is what its call named it, `parameters` are those of that call. Raises InvalidInput if it
    is none of the models, or cannot be told from another one.
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
        """What the call had besides the model's own parameters: tools, or a bound temperature."""
        as_dict = (
            getattr(model, "asdict", None) or model.dict
        )  # as it was before langchain-core 1.4
        own = {"stop": None, **as_dict()}
        return {
            name: value
            for name, value in self.parameters.items()
            if name not in own or own[name] != value
        }
