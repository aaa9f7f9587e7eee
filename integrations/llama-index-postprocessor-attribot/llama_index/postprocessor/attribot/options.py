"""The options of the postprocessor: those of every service, as fields of a model of pydantic."""

from __future__ import annotations

from dataclasses import fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, get_type_hints

from llama_index.core.callbacks import CallbackManager
from llama_index.core.llms import LLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.postprocessor.attribot.query import describe, find_language_model
from pydantic import ConfigDict, Field, SkipValidation, create_model, model_validator

from attribot_rag import LanguageModel
from attribot_rag.errors import InvalidInput, UnknownOption
from attribot_rag.runtime import RunOptions, ServiceOptions, Words

ModelHolder: TypeAlias = LLM | LanguageModel
"""What holds a local model: a HuggingFaceLLM, or the model itself."""

_NO_DATA = ("annotator", "on_result")
_FIELDS = {field.name: field for field in fields(RunOptions) if field.name != "raise_error"}


class EngineOptions(ServiceOptions, total=False):
    """Options of AttributionPostprocessor by name, less those that change the prompt."""

    language_model: ModelHolder | None
    reader: ModelHolder | Words | None
    proxy: ModelHolder | None
    score_metadata: bool


class PostprocessorOptions(EngineOptions, total=False):
    """Options of AttributionPostprocessor by name."""

    callback_manager: CallbackManager
    deduplicate: bool
    threshold: float
    min_overlap: int | None


class _Checked(BaseNodePostprocessor):
    """A postprocessor that names an option that it does not have, and takes options whole."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, options: Any) -> Any:
        if not isinstance(options, dict):
            return options
        UnknownOption.check(cls.__name__, options, {*cls.model_fields, "options"})
        whole = RunOptions.of(cls.__name__, {"options": options.get("options")})
        return {name: getattr(whole, name) for name in _FIELDS} | {
            name: value for name, value in options.items() if name != "options"
        }

    @cached_property
    def run_options(self) -> RunOptions:
        """The options of every service among the fields."""
        return RunOptions(**{name: getattr(self, name) for name in _FIELDS})


if TYPE_CHECKING:
    OptionFields = _Checked
else:
    hints = get_type_hints(RunOptions)
    for name in ("method", "annotator"):  # any object that has the methods
        hints[name] = SkipValidation[hints[name]]
    OptionFields = create_model(
        "OptionFields",
        __base__=_Checked,
        **{  # what is no data is not written down
            name: (hints[name], Field(default=field.default, exclude=name in _NO_DATA))
            for name, field in _FIELDS.items()
        },
    )


def language_model_of(llm: Any) -> LanguageModel:
    """The model that a HuggingFaceLLM generates with; raises InvalidInput for another kind."""
    model = find_language_model(llm)
    if model is None:
        raise InvalidInput(
            f"{describe(llm)} holds no local Hugging Face model; pass a HuggingFaceLLM, or an "
            "attribot_rag.LocalModel(model, tokenizer)"
        )
    return model
