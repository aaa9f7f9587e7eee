"""An answer of the model: generated and recorded here, or given by its server."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import torch
from transformers import (
    GenerationMixin,
    PreTrainedModel,
    StoppingCriteria,
    StoppingCriteriaList,
)

from attribot_rag.errors import AttributionError, InvalidInput
from attribot_rag.model.generation import (
    CACHE_NAMES,
    Generation,
    cache_inputs,
    piece_size,
    read_in_pieces,
)
from attribot_rag.model.language_model import LanguageModel
from attribot_rag.model.local_model import LocalModel, model_here
from attribot_rag.recording.hook import GenerateArguments, PrefilledCache
from attribot_rag.recording.recorder import GenerationRecorder
from attribot_rag.scoring.local_prefix import Cropped

if TYPE_CHECKING:
    from attribot_rag.model.served_model import ServedWeights


logger = logging.getLogger(__name__)
# Settings with which `generate` does not continue from one row's keys and values.
_OTHERWISE = (
    *("assistant_model", "cache_implementation", "custom_generate", "inputs_embeds"),
    *("prompt_lookup_num_tokens", *CACHE_NAMES),
)
_ONE_ROW = ("num_beams", "num_return_sequences")


def generate_answer(
    language_model: LanguageModel,
    prompt_ids: Sequence[int],
    *,
    max_new_tokens: int,
    between_steps: Callable[[], None] | None = None,
    **options: Any,
) -> Generation | None:
    """Let the model answer a prompt, greedily by default; None if the answer has no tokens.

    `options` go to the model's own `generate`, see `generate_with`, or to the server of a served
    model. A server has `max_time` seconds, and a `streamer` gets its answer as a whole.
    """
    if isinstance(language_model, LocalModel):
        settings = {"do_sample": False, "max_new_tokens": max_new_tokens, **options}
        return generate_with(language_model, prompt_ids, settings, between_steps)
    server = cast("ServedWeights", language_model.weights)
    return _served_answer(language_model, server, prompt_ids, max_new_tokens, options)


def generate_with(
    language_model: LanguageModel,
    prompt_ids: Sequence[int],
    settings: Mapping[str, Any],
    between_steps: Callable[[], None] | None = None,
) -> Generation | None:
    """Let the model's own `generate` answer a prompt with exactly these settings.

    A long prompt is read in pieces if that gives the same numbers, so `max_time`, in seconds, also
    limits the reading. `between_steps` runs before each piece and after each token. If it raises an
    error, the answer ends. Raises InvalidInput if the time is up before the answer has a word.
    """
    model, prompt_ids = model_here(language_model), tuple(prompt_ids)
    inputs = torch.tensor([prompt_ids], device=language_model.device)
    limits = _Limits(settings.get("max_time"), between_steps)
    own = {name: value for name, value in settings.items() if name != "max_time"}
    own["stopping_criteria"] = StoppingCriteriaList(
        [*(settings.get("stopping_criteria") or ()), limits]
    )
    with GenerationRecorder(language_model) as recorder, torch.no_grad():
        if _reads_in_pieces(model, prompt_ids, settings):
            own |= _cached_prompt(model, prompt_ids, limits)
        generate = cast(Callable[..., Any], model.generate)
        generate(inputs, attention_mask=torch.ones_like(inputs), **own)
    latest = reversed(recorder.generations)  # other threads may have generated, too
    answer = next((match for match in latest if match.prompt_ids == prompt_ids), None)
    if limits.are_over and not (answer and language_model.decode(answer.response_ids).strip()):
        raise limits.no_answer(len(prompt_ids))
    if answer is None or answer.settings is None:
        return answer
    recorded = answer.settings
    given = replace(
        recorded,
        values={
            name: settings[name] for name in (*recorded.values, "max_time") if name in settings
        },
        left_out=tuple(name for name in recorded.left_out if name in settings),
    )
    is_cut = limits.are_over and answer.unfinished and answer.cut_at is None
    return replace(answer, settings=given, out_of_time=is_cut)


class _Limits(StoppingCriteria):
    """The end of an answer's time, by a clock that cannot be set, and the call between steps.

    The limit of transformers uses the time of day, and begins with the first token.
    """

    def __init__(self, seconds: float | None, between_steps: Callable[[], None] | None) -> None:
        self._seconds = seconds
        self._between_steps = between_steps or (lambda: None)
        self._started = time.perf_counter()
        self.are_over = False

    def __call__(self, input_ids: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
        self._step()
        return torch.full((len(input_ids),), self.are_over, device=input_ids.device)

    def before_piece(self, position: int) -> None:
        self._step()
        if position and self.are_over:
            raise self.no_answer(position)

    def no_answer(self, num_read: int) -> InvalidInput:
        return InvalidInput(
            f"the {self._seconds:g} seconds for the answer were over when {num_read:,} tokens of "
            "the prompt were read and nothing was answered; allow more time, or retrieve fewer or "
            "shorter documents"
        )

    def _step(self) -> None:
        self._between_steps()
        passed = time.perf_counter() - self._started
        self.are_over = self._seconds is not None and passed > self._seconds


def _reads_in_pieces(
    model: PreTrainedModel, prompt_ids: Sequence[int], settings: Mapping[str, Any]
) -> bool:
    """Whether the prompt has several pieces, and their cache is as good as `generate`'s own."""
    if len(prompt_ids) <= piece_size(model.device):
        return False
    call = GenerateArguments(model, settings)
    generate = getattr(model.generate, "original", model.generate)  # without the recorder's hook
    num_tokens = len(prompt_ids) + call.max_new_tokens(len(prompt_ids))
    return (
        Cropped.why_not_for(model, num_tokens) is None
        and call.setting("use_cache") is not False
        and not any(call.setting(name) is not None for name in _OTHERWISE)
        and all(call.setting(name) in (None, 1) for name in _ONE_ROW)
        and getattr(generate, "__func__", None) is GenerationMixin.generate
    )


def _cached_prompt(
    model: PreTrainedModel, prompt_ids: Sequence[int], limits: _Limits
) -> dict[str, Any]:
    """The prompt's cache as an argument of `generate`; empty if the model takes no pieces.

    Raises InvalidInput if the time is up.
    """
    cache = PrefilledCache(config=model.config.get_text_config(decoder=True))
    taken = cache_inputs(model, cache)
    try:
        read_in_pieces(model, prompt_ids[:-1], taken, limits.before_piece)
    except (TypeError, ValueError, AttributeError) as error:
        if isinstance(error, AttributionError):
            raise
        logger.info("the prompt is read in one piece: %s", error)
        return {}
    return taken


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
