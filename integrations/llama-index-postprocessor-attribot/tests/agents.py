"""A scripted model that calls tools, which the embedded one is too small for."""

import json
from typing import Any

from llama_index.core.base.llms.types import CompletionResponse, LLMMetadata
from llama_index.core.llms import CustomLLM


class SearchesFirst(CustomLLM):
    """Hands the question to its tool, and answers with what the tool found (ReAct's format)."""

    tool: str

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="scripted", is_chat_model=True)

    def _say(self, prompt: str) -> str:
        _, _, turn = prompt.rpartition("user: ")
        if turn.startswith("Observation: "):
            found = turn.removeprefix("Observation: ").partition("\nassistant:")[0].strip()
            return f"Thought: I can answer without using any more tools.\nAnswer: {found}"
        question = turn.partition("\n")[0]
        given = json.dumps({"input": question})
        return f"Thought: I need to look.\nAction: {self.tool}\nAction Input: {given}\n"

    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        return CompletionResponse(text=self._say(prompt))

    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        said = self._say(prompt)
        yield CompletionResponse(text=said, delta=said)
