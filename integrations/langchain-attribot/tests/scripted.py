"""A local model that is made to answer with given texts, whatever thread asks it."""

from collections.abc import Mapping
from typing import Any

import torch
from conftest import Chat, chat_of
from transformers import LogitsProcessor, LogitsProcessorList

from attribot_rag import LocalModel

_HEADER = "<|im_start|>assistant\n"


class SaysTo(LogitsProcessor):
    """Leaves `generate` no choice: the answer of the first text that is in the prompt."""

    def __init__(self, language_model: LocalModel, answers: Mapping[str, str]) -> None:
        self._language_model = language_model
        encode = language_model.tokenizer.encode
        self._header = encode(_HEADER, add_special_tokens=False)
        eos = language_model.model.generation_config.eos_token_id  # type: ignore[union-attr]
        self._answers = {
            text: [*encode(answer, add_special_tokens=False), eos]
            for text, answer in answers.items()
        }
        self.max_new_tokens = max(map(len, self._answers.values()))

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        forced = torch.full_like(scores, float("-inf"))
        for row, ids in enumerate(input_ids.tolist()):
            size = len(self._header)
            starts = (
                i for i in range(len(ids) - size, -1, -1) if ids[i : i + size] == self._header
            )
            start = next(starts) + size
            prompt = self._language_model.decode(ids[:start])
            answer = next(said for text, said in self._answers.items() if text in prompt)
            forced[row, answer[min(len(ids) - start, len(answer) - 1)]] = 0.0
        return forced


def says_to(language_model: LocalModel, answers: Mapping[str, str], **options: Any) -> Chat:
    """Answers a prompt with what is said to the first of these texts that is in it."""
    processor = SaysTo(language_model, answers)
    return chat_of(
        language_model,
        max_new_tokens=processor.max_new_tokens,
        logits_processor=LogitsProcessorList([processor]),
        **options,
    )
