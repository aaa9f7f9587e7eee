"""Prompts with documents, and tiny models that are made to answer with a given text."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from transformers import LogitsProcessor, LogitsProcessorList

from attribot_rag.model.local_model import LocalModel

DOCUMENTS = (
    "The treaty was signed in the old town hall. The harbour had been closed for two winters.",
    "In the spring the first ships came up the river. They brought salt and timber.",
    "The town hall burned down later. Today the room is a museum.",
)
QUESTION = "Where was the treaty signed?"
ANSWER = "In the old town hall. It is a museum."


def messages(
    documents: Sequence[str] = DOCUMENTS, question: str = QUESTION
) -> list[dict[str, str]]:
    return [{"role": "user", "content": "\n".join([*documents, question])}]


def rendered(
    language_model: LocalModel, documents: Sequence[str] = DOCUMENTS, question: str = QUESTION
) -> str:
    """The prompt as text, by the chat template if there is one."""
    if not language_model.tokenizer.chat_template:
        return "\n".join([*documents, question])
    text = language_model.tokenizer.apply_chat_template(
        messages(documents, question), tokenize=False, add_generation_prompt=True
    )
    return str(text)


class Saying(LogitsProcessor):
    """Leaves `generate` no choice: each row says its ids and ends."""

    def __init__(self, texts: list[list[int]], prompt_length: int) -> None:
        self.texts = texts
        self.prompt_length = prompt_length

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        step = input_ids.shape[1] - self.prompt_length
        forced = torch.full_like(scores, float("-inf"))
        for row, text in enumerate(self.texts):
            forced[row, text[min(step, len(text) - 1)]] = 0.0
        return forced


def generate(language_model: LocalModel, *args: Any, **kwargs: Any) -> Any:
    return cast(Callable[..., Any], language_model.model.generate)(*args, **kwargs)


def say(
    language_model: LocalModel, prompts: Sequence[str], answers: Sequence[str], **options: Any
) -> Any:
    """Run `generate` on left-padded prompts so that it answers with these texts and EOS."""
    tokenizer = language_model.tokenizer
    inputs = tokenizer(
        list(prompts),
        add_special_tokens=False,
        padding=len(prompts) > 1,
        padding_side="left",
        return_tensors="pt",
    )
    texts = [[*language_model.encode(answer), int(tokenizer.eos_token_id)] for answer in answers]
    saying = Saying(texts, inputs["input_ids"].shape[1])
    return generate(
        language_model,
        inputs["input_ids"],
        attention_mask=inputs["attention_mask"],
        logits_processor=LogitsProcessorList([saying]),
        **{"do_sample": False, "max_new_tokens": max(map(len, texts)), **options},
    )
