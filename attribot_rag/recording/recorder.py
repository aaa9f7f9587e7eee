"""The last generations of a model, found again by what they say."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType

from attribot_rag.errors import InvalidInput
from attribot_rag.generation import Generation
from attribot_rag.language_model import LanguageModel
from attribot_rag.recording.hook import GenerateHook


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
            self._hook = GenerateHook.attach(self._language_model.model, self._keep)
        return self

    def detach(self) -> None:
        """Stop recording and give the model its own `generate` back; what was kept stays."""
        if self._hook is not None:
            self._hook.detach(self._keep)
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
        `contains` must stand in it. Waits up to `timeout` seconds for generations that are under
        way when it is called: a streamed answer is seen before `generate` returns.
        """
        hook = self._hook
        awaited = set(hook.in_flight) if hook is not None else set()
        deadline = time.monotonic() + timeout
        while True:
            found = self._search(response, prompt, contains)
            if found is not None or hook is None:
                return found
            with hook.idle:
                awaited &= hook.in_flight
                remaining = deadline - time.monotonic()
                if awaited and remaining > 0:
                    hook.idle.wait(remaining)
                    continue
            return self._search(response, prompt, contains)

    def release(self, generation: Generation) -> None:
        """Let go of a generation's cache once it is attributed; its ids stay."""
        with self._lock:
            self._generations = [
                kept.without_cache() if kept.cache is generation.cache else kept
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
        wanted = None if prompt is None else self._bare(prompt)
        for generation in reversed(self.generations):
            seen, read = (
                self._language_model.decode(generation.prompt_ids, skip_special_tokens=skip)
                for skip in (False, True)
            )
            if wanted is not None and wanted not in (self._bare(seen), self._bare(read)):
                continue
            if all(text.strip() in seen for text in contains):
                with suppress(InvalidInput):
                    return shown_part(self._language_model, generation, response)
        return None

    def _bare(self, prompt: str) -> str:
        """A prompt without the BOS before it, which is there once, twice or not at all."""
        bos = self._language_model.tokenizer.bos_token
        prompt = prompt.strip()
        while bos and prompt.startswith(bos):
            prompt = prompt[len(bos) :].strip()
        return prompt


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
        if text_of(middle).startswith(shown):
            high = middle
        else:
            low = middle + 1
    return generation.shortened(low)
