"""An answer that is generated here, and recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch

from attribot_rag.model.generation import Generation
from attribot_rag.model.language_model import LanguageModel
from attribot_rag.model.served import ServedModel
from attribot_rag.recording.recorder import GenerationRecorder


def generate_answer(
    language_model: LanguageModel, prompt_ids: Sequence[int], *, max_new_tokens: int, **options: Any
) -> Generation | None:
    """Let the model answer a prompt, greedily by default; None if the answer has no tokens.

    `options` go to the model's own `generate`, or to the server of a served model.
    """
    if isinstance(language_model, ServedModel):
        return language_model.answer(prompt_ids, max_new_tokens=max_new_tokens, **options)
    settings = {"do_sample": False, "max_new_tokens": max_new_tokens, **options}
    return generate_with(language_model, prompt_ids, settings)


def generate_with(
    language_model: LanguageModel, prompt_ids: Sequence[int], settings: Mapping[str, Any]
) -> Generation | None:
    """Let the model's own `generate` answer a prompt with these settings and no others."""
    inputs = torch.tensor([list(prompt_ids)], device=language_model.device)
    with GenerationRecorder(language_model) as recorder, torch.inference_mode():
        generate = cast(Callable[..., Any], language_model.model.generate)
        generate(inputs, attention_mask=torch.ones_like(inputs), **settings)
    latest = reversed(recorder.generations)  # other threads may have generated meanwhile
    return next((one for one in latest if one.prompt_ids == tuple(prompt_ids)), None)
