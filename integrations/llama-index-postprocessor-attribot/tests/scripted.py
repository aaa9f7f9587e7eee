"""A local model that is made to answer with given texts, and a model around another."""

from collections.abc import Sequence
from typing import Any

import torch
from engines import llm_of
from llama_index.core.base.llms.types import CompletionResponse, LLMMetadata
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.llms.huggingface import HuggingFaceLLM
from transformers import LogitsProcessor, LogitsProcessorList

from attribot_rag import LocalModel


class SaysInTurn(LogitsProcessor):
    """Leaves `generate` no choice: its first call says the first text, the next one the next."""

    def __init__(self, texts: Sequence[list[int]]) -> None:
        self._texts = list(texts)
        self._turn = -1
        self._start = self._length = 0

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        length = input_ids.shape[1]
        if length != self._length + 1 or self._turn < 0:
            self._turn, self._start = self._turn + 1, length
        self._length = length
        text = self._texts[self._turn % len(self._texts)]
        forced = torch.full_like(scores, float("-inf"))
        forced[:, text[min(length - self._start, len(text) - 1)]] = 0.0
        return forced


def says(language_model: LocalModel, *texts: str, **options: Any) -> HuggingFaceLLM:
    """Answers in turn with these texts."""
    tokenizer = language_model.tokenizer
    eos = language_model.model.generation_config.eos_token_id  # type: ignore[union-attr]
    ids = [[*tokenizer.encode(text, add_special_tokens=False), eos] for text in texts]
    processors = LogitsProcessorList([SaysInTurn(ids)])
    return llm_of(
        language_model,
        max_new_tokens=max(map(len, ids)),
        generate_kwargs={"logits_processor": processors},
        **options,
    )


class Around(CustomLLM):
    """Answers by another model; its own stream breaks off."""

    inner: Any = None

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="around", context_window=2048)

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        response: CompletionResponse = self.inner.complete(prompt, formatted=True)
        return response

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        def pieces() -> Any:
            yield CompletionResponse(text="It", delta="It")
            raise ConnectionError("cut off")

        return pieces()
