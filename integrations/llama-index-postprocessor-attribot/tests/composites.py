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
from llama_index.core.schema import QueryBundle
from llama_index.core.tools.types import ToolMetadata


class Asks(BaseQuestionGenerator):
    """One question for each of these tools."""

    def __init__(self, names: Sequence[str], question: str = "What of the {name}?") -> None:
        self._names = names
        self._question = question

    def generate(self, tools: Sequence[ToolMetadata], query: QueryBundle) -> list[SubQuestion]:
        return [
            SubQuestion(sub_question=self._question.format(name=name), tool_name=name)
            for name in self._names
        ]

    async def agenerate(
        self, tools: Sequence[ToolMetadata], query: QueryBundle
    ) -> list[SubQuestion]:
        return self.generate(tools, query)

    def _get_prompts(self) -> dict[str, Any]:
        return {}

    def _update_prompts(self, prompts: Any) -> None:
        """It has none."""


class ChoosesAll(BaseSelector):
    """Every choice."""

    def _get_prompts(self) -> dict[str, Any]:
        return {}

    def _update_prompts(self, prompts: Any) -> None:
        """It has none."""

    def _select(self, choices: Sequence[ToolMetadata], query: QueryBundle) -> SelectorResult:
        chosen = [SingleSelection(index=index, reason="all") for index in range(len(choices))]
        return MultiSelection(selections=chosen)

    async def _aselect(self, choices: Sequence[ToolMetadata], query: QueryBundle) -> SelectorResult:
        return self._select(choices, query)
