"""Selectors of composite engines, without asking a model that is too small for it."""

from collections.abc import Sequence
from typing import Any

from llama_index.core.base.base_selector import (
    BaseSelector,
    MultiSelection,
    SelectorResult,
    SingleSelection,
)
from llama_index.core.question_gen.types import BaseQuestionGenerator, SubQuestion


class WithoutPrompts:
    def _get_prompts(self) -> dict[str, Any]:
        return {}

    def _update_prompts(self, prompts: Any) -> None:
        """It has none."""


class Asks(WithoutPrompts, BaseQuestionGenerator):
    """One question for each of these tools."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def generate(self, *_: Any, **__: Any) -> list[SubQuestion]:
        return [
            SubQuestion(sub_question=f"What of the {name}?", tool_name=name) for name in self._names
        ]

    async def agenerate(self, *_: Any, **__: Any) -> list[SubQuestion]:
        return self.generate()


class ChoosesAll(WithoutPrompts, BaseSelector):
    """Every choice."""

    def _select(self, choices: Sequence[Any], query: Any) -> SelectorResult:
        chosen = [SingleSelection(index=index, reason="all") for index in range(len(choices))]
        return MultiSelection(selections=chosen)

    async def _aselect(self, choices: Sequence[Any], query: Any) -> SelectorResult:
        return self._select(choices, query)
