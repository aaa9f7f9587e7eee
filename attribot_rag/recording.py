"""Recording what a loaded model generates, without changing what its callers get."""

from __future__ import annotations

import copy
import functools
import inspect
import logging
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import MethodType, TracebackType
from typing import Any, cast

import torch
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer
from transformers.generation.utils import GenerateDecoderOnlyOutput
from transformers.utils.generic import ModelOutput

from attribot_rag.errors import InvalidInput
from attribot_rag.generation import Generation, LayerCache, PromptCache
from attribot_rag.language_model import LanguageModel

logger = logging.getLogger(__name__)

Listener = Callable[[list[Generation]], None]


class GenerateHook:
    """Stands in for `model.generate` and tells its listeners what was generated.

    One hook serves all recorders of a model; the last one to leave puts the model's own method
    back. Callers get exactly what they asked for.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = weakref.ref(model)
        self._shadowed = model.__dict__.get("generate")
        self.original = cast(Callable[..., Any], model.generate)
        self.listeners: list[Listener] = []
        self.idle = threading.Condition()
        self.in_flight = 0
        functools.update_wrapper(self, self.original)

    @classmethod
    def of(cls, model: PreTrainedModel) -> GenerateHook:
        hook = model.__dict__.get("generate")
        if not isinstance(hook, cls):
            hook = cls(model)
            model.__dict__["generate"] = hook
        return hook

    def remove(self, listener: Listener) -> None:
        self.listeners.remove(listener)
        model = self._model()
        if self.listeners or model is None or model.__dict__.get("generate") is not self:
            return
        if self._shadowed is None:
            del model.__dict__["generate"]
        else:
            model.__dict__["generate"] = self._shadowed

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """A copied model generates with its own weights, unrecorded."""
        twin = memo.get(id(self._model()))
        return MethodType(cast(Any, type(twin)).generate, twin)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        call = inspect.signature(self.original).bind_partial(*args, **kwargs)
        call.arguments.update(call.arguments.pop("kwargs", {}))
        wants_dict = self._ask_for_dict(call.arguments)
        with self.idle:
            self.in_flight += 1
        try:
            output = self.original(**call.arguments)
            if not isinstance(output, ModelOutput):
                return output
            self._tell(call.arguments, output)
            return output if wants_dict else output["sequences"]
        finally:
            with self.idle:
                self.in_flight -= 1
                self.idle.notify_all()

    def _ask_for_dict(self, arguments: dict[str, Any]) -> bool:
        """Make the call return a dict, and say whether the caller wanted one."""
        given = arguments.get("generation_config")
        wanted = arguments.get("return_dict_in_generate")
        for config in (given, getattr(self._model(), "generation_config", None)):
            if wanted is None:
                wanted = getattr(config, "return_dict_in_generate", None)
        if given is None or "return_dict_in_generate" in arguments:
            arguments["return_dict_in_generate"] = True
        else:
            arguments["generation_config"] = copy.deepcopy(given)
            arguments["generation_config"].return_dict_in_generate = True
        return bool(wanted)

    def _tell(self, arguments: dict[str, Any], output: ModelOutput) -> None:
        model = self._model()
        if model is None:
            return
        try:
            generations = read_generations(model, arguments, output)
            for listener in tuple(self.listeners):
                listener(generations)
        except Exception:  # the caller's answer must not be lost to its recording
            logger.exception("this generation could not be recorded")


def read_generations(
    model: PreTrainedModel, arguments: dict[str, Any], output: ModelOutput
) -> list[Generation]:
    """One Generation per row of a finished `generate` call; none where the prompt had no ids."""
    prompts = arguments.get("inputs", arguments.get("input_ids"))
    if prompts is None or prompts.dtype.is_floating_point:
        return []
    sequences: torch.Tensor = output["sequences"]
    mask = _attention_mask(model, arguments, prompts)
    eos_ids = _eos_ids(model, arguments)
    rows_per_prompt = sequences.shape[0] // prompts.shape[0]
    response_start = 1 if model.config.is_encoder_decoder else prompts.shape[1]
    cached = None if "past_key_values" in arguments else _plain_cache(output)
    generations = []
    for row, sequence in enumerate(sequences):
        visible = mask[row // rows_per_prompt].bool()
        prompt_ids = tuple(prompts[row // rows_per_prompt][visible].tolist())
        response_ids = _until_eos(sequence[response_start:].tolist(), eos_ids)
        if not prompt_ids or not response_ids:
            continue
        cache = None
        padding = int(visible.numel() - visible.sum())
        if cached is not None and bool(visible[padding:].all()):
            cache = _cache_row(cached, row, padding, prompts.shape[1])
        generations.append(Generation(prompt_ids, response_ids, cache))
    return generations


def _attention_mask(
    model: PreTrainedModel, arguments: dict[str, Any], prompts: torch.Tensor
) -> torch.Tensor:
    """The mask that was given, or the one that `generate` infers from padding."""
    mask = arguments.get("attention_mask")
    if mask is not None:
        return torch.as_tensor(mask)
    pad = _generation_setting(model, arguments, "pad_token_id")
    if pad is None or pad in _eos_ids(model, arguments):
        return torch.ones_like(prompts)
    return torch.ne(prompts, pad).long()


def _generation_setting(model: PreTrainedModel, arguments: dict[str, Any], name: str) -> Any:
    for value in (
        arguments.get(name),
        getattr(arguments.get("generation_config"), name, None),
        getattr(model.generation_config, name, None),
    ):
        if value is not None:
            return value
    return None


def _eos_ids(model: PreTrainedModel, arguments: dict[str, Any]) -> frozenset[int]:
    eos = _generation_setting(model, arguments, "eos_token_id")
    if eos is None:
        return frozenset()
    return frozenset(int(i) for i in torch.as_tensor(eos).flatten())


def _until_eos(ids: list[int], eos_ids: frozenset[int]) -> tuple[int, ...]:
    end = next((i for i, token_id in enumerate(ids) if token_id in eos_ids), len(ids))
    return tuple(ids[:end])


def _plain_cache(output: ModelOutput) -> list[DynamicLayer] | None:
    """The layers of the cache if all are plain tensors that still hold every position."""
    cache = output.get("past_key_values")
    if not isinstance(output, GenerateDecoderOnlyOutput) or type(cache) is not DynamicCache:
        return None
    num_cached = output["sequences"].shape[1] - 1
    layers = [layer for layer in cache.layers if type(layer) is DynamicLayer]
    if cache.offloading or len(layers) != len(cache.layers):
        return None
    if any(layer.get_seq_length() != num_cached for layer in layers):
        return None
    return layers


def _cache_row(layers: list[DynamicLayer], row: int, start: int, end: int) -> PromptCache:
    """The prompt's part of one row: a view, or a copy where the storage is shared with others."""

    def cut(tensor: torch.Tensor | None) -> torch.Tensor:
        assert tensor is not None
        part = tensor[row : row + 1, :, start:end]
        return part if tensor.shape[0] == 1 else part.clone()

    return tuple(LayerCache(cut(layer.keys), cut(layer.values)) for layer in layers)


class GenerationRecorder:
    """Keeps the last generations of a model, so that an answer can be attributed as it was made.

    Attach it, or use it as a context manager. At most `max_generations` are kept, and their caches
    while they take no more than `max_cache_bytes` together (the oldest lose theirs first).
    """

    def __init__(
        self,
        language_model: LanguageModel,
        *,
        max_generations: int = 16,
        max_cache_bytes: int = 2 << 30,
    ) -> None:
        self._language_model = language_model
        self._max_generations = max_generations
        self._max_cache_bytes = max_cache_bytes
        self._hook: GenerateHook | None = None
        self._generations: list[Generation] = []
        self._lock = threading.Lock()

    def attach(self) -> GenerationRecorder:
        """Start recording; nothing happens if it has already started."""
        if self._hook is None:
            self._hook = GenerateHook.of(self._language_model.model)
            self._hook.listeners.append(self._keep)
        return self

    def detach(self) -> None:
        """Stop recording and give the model its own `generate` back; what was kept stays."""
        if self._hook is not None:
            self._hook.remove(self._keep)
            self._hook = None

    def __enter__(self) -> GenerationRecorder:
        return self.attach()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.detach()

    @property
    def generations(self) -> tuple[Generation, ...]:
        """What is kept, oldest first."""
        with self._lock:
            return tuple(self._generations)

    def find(
        self,
        response: str,
        *,
        prompt: str | None = None,
        contains: Sequence[str] = (),
        timeout: float = 0.0,
    ) -> Generation | None:
        """The latest generation that gave this response, cut to the text that was shown.

        `response` may be the beginning of what was generated (a stopped answer, a stop string).
        `prompt`, with or without special tokens, must be the whole prompt; each text in
        `contains` must stand in it. While a generation is under way, waits up to `timeout`
        seconds for it: a streamed answer is seen before `generate` returns.
        """
        deadline = time.monotonic() + timeout
        while True:
            found = self._search(response, prompt, contains)
            if found is not None or self._hook is None:
                return found
            with self._hook.idle:
                remaining = deadline - time.monotonic()
                if not self._hook.in_flight or remaining <= 0:
                    return self._search(response, prompt, contains)
                self._hook.idle.wait(remaining)

    def release(self, generation: Generation) -> None:
        """Let go of a generation's cache once it is attributed; its ids stay."""
        with self._lock:
            self._generations = [
                kept.without_cache() if kept.prompt_ids == generation.prompt_ids else kept
                for kept in self._generations
            ]

    def wait_until_idle(self, timeout: float) -> None:
        """Return once the model generates nothing, or after `timeout` seconds."""
        hook = self._hook
        if hook is not None:
            with hook.idle:
                hook.idle.wait_for(lambda: not hook.in_flight, timeout)

    def _keep(self, generations: list[Generation]) -> None:
        with self._lock:
            kept = (self._generations + generations)[-self._max_generations :]
            cache_bytes = 0
            for index in reversed(range(len(kept))):
                cache_bytes += kept[index].cache_bytes
                if cache_bytes > self._max_cache_bytes:
                    kept[index] = kept[index].without_cache()
            self._generations = kept

    def _search(
        self, response: str, prompt: str | None, contains: Sequence[str]
    ) -> Generation | None:
        for generation in reversed(self.generations):
            texts = [
                self._language_model.decode(generation.prompt_ids, skip_special_tokens=skip).strip()
                for skip in (False, True)
            ]
            if prompt is not None and prompt.strip() not in texts:
                continue
            if all(text in texts[0] for text in contains):
                with suppress(InvalidInput):
                    return shown_part(self._language_model, generation, response)
        return None


def shown_part(language_model: LanguageModel, generation: Generation, response: str) -> Generation:
    """The generation cut to the tokens whose text was shown as `response`.

    Raises InvalidInput if the generation's text does not begin with it.
    """
    shown = response.strip()

    def text_of(num_tokens: int) -> str:
        ids = generation.response_ids[:num_tokens]
        return language_model.decode(ids, skip_special_tokens=True).strip()

    num_tokens = len(generation.response_ids)
    if not shown or not text_of(num_tokens).startswith(shown):
        raise InvalidInput(f"the response {response[:80]!r} is not what was generated")
    low, high = 1, num_tokens
    while low < high:
        middle = (low + high) // 2
        if len(text_of(middle)) >= len(shown):
            high = middle
        else:
            low = middle + 1
    return generation.shortened(low)
