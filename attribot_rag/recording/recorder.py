"""The last generations of a model, found again by what they say."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import NamedTuple
from weakref import WeakKeyDictionary

from attribot_rag.errors import InvalidInput
from attribot_rag.model.generation import Generation
from attribot_rag.model.language_model import LanguageModel
from attribot_rag.recording.hook import GenerateHook, RunningCall
from attribot_rag.recording.prompts import RecordedPrompt


class Match(NamedTuple):
    """A generation cut to the text that was shown, and where its response begins in that text."""

    generation: Generation
    start: int


class _Kept:
    """A recorded generation and its prompt's text."""

    def __init__(self, generation: Generation, language_model: LanguageModel) -> None:
        self.generation = generation
        self.prompt = RecordedPrompt(generation.prompt_ids, language_model)

    def holds(self, generation: Generation) -> bool:
        """Whether that is this generation, whole or cut."""
        return self.generation.prompt_ids is generation.prompt_ids

    def drop_cache(self) -> None:
        self.generation = self.generation.without_cache()

    def drop_tensors(self) -> None:
        self.generation = self.generation.without_tensors()


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
        self._running_prompts: WeakKeyDictionary[RunningCall, list[RecordedPrompt]] = (
            WeakKeyDictionary()
        )
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
        `contains` must stand in it. Waits up to `timeout` seconds for generations from such a
        prompt that are running when it is called: a streamed answer is seen before `generate`
        returns.
        """
        match = self.find_shown(response, prompt=prompt, contains=contains, timeout=timeout)
        return None if match is None else match.generation

    def find_shown(
        self,
        shown: str,
        *,
        prompt: str | None = None,
        contains: Sequence[str] = (),
        like: str | None = None,
        timeout: float = 0.0,
    ) -> Match | None:
        """As `match`, waiting up to `timeout` seconds."""
        future = self.match(shown, prompt=prompt, contains=contains, like=like)
        wait([future], timeout)
        return future.result() if future.done() else None

    def match(
        self,
        shown: str,
        *,
        prompt: str | None = None,
        contains: Sequence[str] = (),
        like: str | None = None,
    ) -> Future[Match | None]:
        """As `find`, with the character at which the response begins in the text that was shown.

        That is 0 unless the prompt was shown before it. Of several, the one with the prompt `like`
        this comes first, then one that was shown whole, then the latest; if none has that prompt
        and they differ in theirs, there is nothing to choose by, and the result is None.

        The future is done at once, unless the model is running with a prompt that fits: then when
        such a call has given the answer, or all of them have ended.
        """
        running = self._running()  # before the search, which finds what has ended since
        future: Future[Match | None] = Future()
        found = self._search(shown, prompt, contains, like)
        awaited = {call for call in running if found is None and self._fits(call, prompt, contains)}
        if not awaited:
            future.set_result(found)
        searching = threading.Lock()

        def search_again(call: RunningCall, _: Future[None]) -> None:
            with searching:
                awaited.discard(call)
                if future.done():
                    return
                try:
                    found = self._search(shown, prompt, contains, like)
                except Exception as error:  # who waits is told; this thread only generates
                    future.set_exception(error)
                else:
                    if found is not None or not awaited:
                        future.set_result(found)

        for call in tuple(awaited):
            call.ended.add_done_callback(partial(search_again, call))
        return future

    def _running(self) -> tuple[RunningCall, ...]:
        hook = self._hook
        if hook is None:
            return ()
        with hook.idle:
            return tuple(hook.running)

    def _fits(self, call: RunningCall, prompt: str | None, contains: Sequence[str]) -> bool:
        """Whether the call was given a prompt that fits, so that it may give the answer."""
        prompts = self._running_prompts.get(call)
        if prompts is None:
            prompts = [RecordedPrompt(ids, self._language_model) for ids in call.read_prompts()]
            self._running_prompts[call] = prompts
        return any(one.fits(prompt, contains) for one in prompts)

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
                hook.idle.wait_for(lambda: not hook.running, timeout)

    def _keep(self, generations: list[Generation]) -> None:
        new = [_Kept(generation, self._language_model) for generation in generations]
        with self._lock:
            self._kept = (self._kept + new)[-self._max_generations :]
            num_bytes = 0
            for kept in reversed(self._kept):
                num_bytes += kept.generation.num_bytes
                if num_bytes > self._max_cache_bytes:
                    kept.drop_tensors()

    def _search(
        self, shown: str, prompt: str | None, contains: Sequence[str], like: str | None
    ) -> Match | None:
        best: tuple[bool, ...] = (False, False, False)
        found: list[Match] = []
        with self._lock:
            latest = tuple(reversed(self._kept))
        for kept in latest:
            match = self._shown_part(kept, shown) if kept.prompt.fits(prompt, contains) else None
            if match is None:
                continue
            whole = match.generation.response_ids == kept.generation.response_ids
            known = bool(kept.generation.prompt_ids)
            rank = (known, like is not None and kept.prompt.equals(like), whole)
            if not found or rank > best:
                best, found = rank, [match]
            elif rank == best:
                found.append(match)
        different = {match.generation.prompt_ids for match in found}
        ambiguous = like is not None and not best[1] and len(different) > 1
        return found[0] if found and not ambiguous else None

    def _shown_part(self, kept: _Kept, shown: str) -> Match | None:
        """The generation as far as it was shown, perhaps behind its prompt."""
        for before in ("", *kept.prompt.texts):
            if shown.startswith(before):
                start = len(before)
                with suppress(InvalidInput):
                    part = shown_part(self._language_model, kept.generation, shown[start:])
                    return Match(part, start)
        return None


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
