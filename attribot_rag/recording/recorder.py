"""The last generations of a model, found again by what they say."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from types import TracebackType

from attribot_rag.errors import InvalidInput
from attribot_rag.generation import Generation
from attribot_rag.language_model import LanguageModel
from attribot_rag.recording.hook import GenerateHook


class _Kept:
    """A generation, with its prompt as text from when it is first looked for."""

    def __init__(self, generation: Generation, language_model: LanguageModel) -> None:
        self.generation = generation
        self._language_model = language_model

    @cached_property
    def prompts(self) -> tuple[str, str]:
        """The prompt with its special tokens and without them."""
        ids, decode = self.generation.prompt_ids, self._language_model.decode
        return decode(ids), decode(ids, skip_special_tokens=True)

    def holds(self, generation: Generation) -> bool:
        """Whether that is this generation, whole or cut."""
        return self.generation.prompt_ids is generation.prompt_ids

    def drop_cache(self) -> None:
        self.generation = self.generation.without_cache()


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
        self._kept: list[_Kept] = []
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
            return tuple(one.generation for one in self._kept)

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
        found = self.find_shown(response, prompt=prompt, contains=contains, timeout=timeout)
        return None if found is None else found[0]

    def find_shown(
        self,
        shown: str,
        *,
        prompt: str | None = None,
        contains: Sequence[str] = (),
        like: str | None = None,
        timeout: float = 0.0,
    ) -> tuple[Generation, int] | None:
        """As `find`, with the character at which the response begins in the text that was shown.

        That is 0 unless the prompt was shown before it. Of several, the one with the prompt `like`
        this comes first, then one that was shown whole, then the latest; if none has that prompt
        and they differ in theirs, there is nothing to choose by, and None is returned.
        """
        hook = self._hook
        awaited = set(hook.in_flight) if hook is not None else set()
        deadline = time.monotonic() + timeout
        while True:
            found = self._search(shown, prompt, contains, like)
            if found is not None or hook is None:
                return found
            with hook.idle:
                awaited &= hook.in_flight
                remaining = deadline - time.monotonic()
                if awaited and remaining > 0:
                    hook.idle.wait(remaining)
                    continue
            return self._search(shown, prompt, contains, like)

    def release(self, generation: Generation) -> None:
        """Let go of a generation's cache once it is attributed; its ids stay."""
        with self._lock:
            for kept in self._kept:
                if kept.holds(generation):
                    kept.drop_cache()

    def forget(self, generation: Generation) -> None:
        """Keep it no longer, whole or cut."""
        with self._lock:
            self._kept = [kept for kept in self._kept if not kept.holds(generation)]

    def clear(self) -> None:
        """Keep nothing of what was recorded."""
        with self._lock:
            self._kept = []

    def wait_until_idle(self, timeout: float) -> None:
        """Return once the model generates nothing, or after `timeout` seconds."""
        hook = self._hook
        if hook is not None:
            with hook.idle:
                hook.idle.wait_for(lambda: not hook.in_flight, timeout)

    def _keep(self, generations: list[Generation]) -> None:
        new = [_Kept(generation, self._language_model) for generation in generations]
        with self._lock:
            self._kept = (self._kept + new)[-self._max_generations :]
            cache_bytes = 0
            for kept in reversed(self._kept):
                cache_bytes += kept.generation.cache_bytes
                if cache_bytes > self._max_cache_bytes:
                    kept.drop_cache()

    def _search(
        self, shown: str, prompt: str | None, contains: Sequence[str], like: str | None
    ) -> tuple[Generation, int] | None:
        wanted = None if prompt is None else self._bare(prompt)
        likely = None if like is None else self._bare(like)
        best: tuple[bool, bool] = (False, False)
        found: list[tuple[Generation, int]] = []
        with self._lock:
            known = tuple(reversed(self._kept))
        for kept in known:
            prompts = tuple(map(self._bare, kept.prompts))
            if wanted is not None and wanted not in prompts:
                continue
            if not all(text.strip() in kept.prompts[0] for text in contains):
                continue
            part = self._shown_part(kept, shown)
            if part is None:
                continue
            whole = part[0].response_ids == kept.generation.response_ids
            rank = (likely in prompts, whole)
            if not found or rank > best:
                best, found = rank, [part]
            elif rank == best:
                found.append(part)
        different = {part.prompt_ids for part, _ in found}
        ambiguous = likely is not None and not best[0] and len(different) > 1
        return found[0] if found and not ambiguous else None

    def _shown_part(self, kept: _Kept, shown: str) -> tuple[Generation, int] | None:
        """The generation as far as it was shown, perhaps behind its prompt, and where it begins."""
        for before in ("", *kept.prompts):
            if shown.startswith(before):
                start = len(before)
                with suppress(InvalidInput):
                    return shown_part(self._language_model, kept.generation, shown[start:]), start
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

    White space at its end stays if nothing else was cut. Raises InvalidInput if the generation's
    text does not begin with it.
    """
    shown = response.strip()

    def text_of(num_tokens: int) -> str:
        ids = generation.response_ids[:num_tokens]
        return language_model.decode(ids, skip_special_tokens=True).strip()

    num_tokens = len(generation.response_ids)
    if not shown or not text_of(num_tokens).startswith(shown):
        raise InvalidInput(f"the response {response[:80]!r} is not what was generated")
    if language_model.decode(generation.response_ids).strip() == shown:
        return generation
    low, high = 1, num_tokens
    while low < high:
        middle = (low + high) // 2
        if text_of(middle).startswith(shown):
            high = middle
        else:
            low = middle + 1
    return generation.truncated(low)
