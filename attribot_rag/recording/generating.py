"""An answer of the model: generated here and recorded, or given by its server."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import torch

from attribot_rag.model.generation import Generation
from attribot_rag.model.language_model import LanguageModel
from attribot_rag.model.local_model import LocalModel, model_here
from attribot_rag.recording.recorder import GenerationRecorder

if TYPE_CHECKING:
    from attribot_rag.model.served import ServedWeights


def generate_answer(
    language_model: LanguageModel, prompt_ids: Sequence[int], *, max_new_tokens: int, **options: Any
) -> Generation | None:
    """Let the model answer a prompt, greedily by default; None if the answer has no tokens.

    `options` go to the model's own `generate`, or to the server of a served model, which is waited
    for no longer than `max_time` seconds, and whose answer a `streamer` gets as a whole.
    """
    if isinstance(language_model, LocalModel):
        settings = {"do_sample": False, "max_new_tokens": max_new_tokens, **options}
        return generate_with(language_model, prompt_ids, settings)
    server = cast("ServedWeights", language_model.weights)
    return _served_answer(language_model, server, prompt_ids, max_new_tokens, options)


def generate_with(
    language_model: LanguageModel, prompt_ids: Sequence[int], settings: Mapping[str, Any]
) -> Generation | None:
    """Let the model's own `generate` answer a prompt with these settings and no others."""
    inputs = torch.tensor([list(prompt_ids)], device=language_model.device)
    with GenerationRecorder(language_model) as recorder, torch.no_grad():
        generate = cast(Callable[..., Any], model_here(language_model).generate)
        generate(inputs, attention_mask=torch.ones_like(inputs), **settings)
    latest = reversed(recorder.generations)  # other threads may have generated meanwhile
    return next((match for match in latest if match.prompt_ids == tuple(prompt_ids)), None)


def _served_answer(
    language_model: LanguageModel,
    server: ServedWeights,
    prompt_ids: Sequence[int],
    max_new_tokens: int,
    options: dict[str, Any],
) -> Generation | None:
    max_time, streamer = options.pop("max_time", None), options.pop("streamer", None)
    deadline = None if max_time is None else time.perf_counter() + max_time
    answer = server.complete(prompt_ids, max_new_tokens, options, deadline)
    response = list(language_model.encode(answer.text) if answer.ids is None else answer.ids)
    ends = {*language_model.eos_ids, *language_model.tokenizer.all_special_ids}
    while response and response[-1] in ends:
        response.pop()
    if streamer is not None:
        streamer.put(torch.tensor(prompt_ids))
        streamer.put(torch.tensor(response))
        streamer.end()
    if not response:
        return None
    return Generation(
        tuple(prompt_ids),
        tuple(response),
        retokenized=answer.ids is None,
        cut_at=max_new_tokens if answer.is_cut else None,
        unfinished=answer.is_cut,
    )
