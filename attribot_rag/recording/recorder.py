"""The last generations of a model, found again by their texts, and caches of prompts."""

from __future__ import annotations

import logging
import threading
from bisect import bisect_left
from collections.abc import Sequence
from concurrent.futures import Future, wait
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType

from attribot_rag.context.text import shared_length
from attribot_rag.errors import InvalidInput
from attribot_rag.model.generation import Generation, PromptCache, cache_size
from attribot_rag.model.language_model import LanguageModel, Prompt
from attribot_rag.model.local_model import model_here
from attribot_rag.recording.hook import GenerateHook, RunningCall
from attribot_rag.recording.transcript import Answer, PromptText, Transcript
from attribot_rag.scoring.memory import free_memory

logger = logging.getLogger(__name__)
_LEAST_SHARED = 32  # tokens; reading fewer takes almost no time
_MAX_READ = 4  # prompts of answers that were attributed
_WORDS = 6
_LONGEST = 60  # characters of words that are shown
_MODEL = "pass the model that answers, before it answers, or a local copy of it as language_model="
_ELSEWHERE = f"another model or a cache gave it, or something changed its text; {_MODEL}"


@dataclass(frozen=True, eq=False)
class _ReadPrompt:
    """A prompt that was attributed, with its cache and the state of the model that read it."""

    ids: tuple[int, ...]
    cache: PromptCache
    model_version: int


class GenerationRecorder:
    """Keeps the last generations of a model, to attribute their answers.

    Attach the recorder, or use it as a context manager. It also keeps the caches of attributed
    prompts, so a second attribution of the answer, or the next prompt with the same beginning,
    reads fewer tokens.

    Raises InvalidInput for a negative limit.

    Args:
        language_model: The model whose `generate` is observed.
        max_generations: The most generations to keep.
        max_cache_bytes: The most bytes of caches; the oldest are dropped first. The newest answer's
            cache is kept even if it is larger, while there is free memory for it, until the next
            answer.
    """

    def __init__(
        self,
        language_model: LanguageModel,
        *,
        max_generations: int = 16,
        max_cache_bytes: int = 2 << 30,
    ) -> None:
        if max_cache_bytes < 0:
            raise InvalidInput(f"max_cache_bytes={max_cache_bytes!r}; use 0 or more")
        self._language_model = language_model
        self._max_generations = max_generations
        self._max_cache_bytes = max_cache_bytes
        self._hook: GenerateHook | None = None
        self._kept: list[Transcript] = []
        self._newest: list[tuple[int, ...]] = []  # prompts of the last call, by identity
        self._read: list[_ReadPrompt] = []  # attributed, newest last
        self._has_warned = False
        self._lock = threading.Lock()

    def attach(self) -> GenerationRecorder:
        """Start recording. Does nothing if it has started."""
        if self._hook is None:
            model = model_here(self._language_model)
            self._hook = GenerateHook.attach(model, self._keep, self._make_room)
        return self

    def detach(self) -> None:
        """Stop recording, and restore the model's own `generate`. Recorded generations stay."""
        if self._hook is not None:
            self._hook.detach(self._keep, self._make_room)
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
        """The recorded generations, oldest first."""
        return tuple(transcript.generation for transcript in self._latest()[::-1])

    def _latest(self) -> list[Transcript]:
        """The recorded transcripts, newest first."""
        with self._lock:
            return self._kept[::-1]

    def find(
        self,
        response: str,
        *,
        prompt: str | None = None,
        contains: Sequence[str] = (),
        timeout: float = 0.0,
    ) -> Generation | None:
        """The latest generation of this response, cut to the length of its text.

        Waits up to `timeout` seconds for running generations from such a prompt, because a streamed
        answer is seen before `generate` returns.

        Args:
            response: The generated text or its beginning, as after a stop or a stop string.
            prompt: The whole prompt, with or without special tokens.
            contains: Texts that the prompt must contain.
            timeout: How many seconds to wait.
        """
        match = self.find_answer(
            Answer(response, prompt_texts=contains), prompt=prompt, timeout=timeout
        )
        return None if match is None or match.transcript is None else match.transcript.generation

    def find_answer(
        self, answer: Answer, *, prompt: str | None = None, timeout: float = 0.0
    ) -> Answer | None:
        """As `match`, but waits up to `timeout` seconds."""
        future = self.match(answer, prompt=prompt)
        wait([future], timeout)
        return future.result() if future.done() else None

    def match(self, answer: Answer, *, prompt: str | None = None) -> Future[Answer | None]:
        """The answer with its generation, as `find` finds it, and its start in the text.

        The start is 0 unless the prompt was shown before the response. If there are several
        generations, the one with the answer's own prompt comes first, then one that was shown
        whole, then the latest. If none has that prompt, and their prompts differ, the result is
        None.

        The future has its result at once, unless calls of the model with a fitting prompt are
        running. Then it has its result when one of these calls has given the answer, or when all of
        them have ended.
        """
        hook = self._hook
        with hook.idle if hook else nullcontext():
            running = [*hook.running] if hook else []  # first: those that end later are found
        future: Future[Answer | None] = Future()
        match = self._search(answer, prompt)
        texts = answer.prompt_texts
        awaited = {call for call in running if match is None and self._fits(call, prompt, texts)}
        if not awaited:
            future.set_result(match)
        searching = threading.Lock()

        def search_again(call: RunningCall, _: Future[None]) -> None:
            with searching:
                awaited.discard(call)
                if future.done():
                    return
                try:
                    match = self._search(answer, prompt)
                except Exception as error:  # belongs to the waiting thread; this one only generates
                    future.set_exception(error)
                else:
                    if match is not None or not awaited:
                        future.set_result(match)

        for call in tuple(awaited):
            call.ended.add_done_callback(partial(search_again, call))
        return future

    def _fits(self, call: RunningCall, prompt: str | None, contains: Sequence[str]) -> bool:
        """Whether a running call has a matching prompt, so the answer may come from it."""
        prompts = (PromptText(ids, self._language_model) for ids in call.read_prompts())
        return any(running.fits(prompt, contains) for running in prompts)

    def why_unmatched(self, answer: Answer) -> str:
        """Why no generation matches the answer, and a fix."""
        return mismatch(answer, self._latest())

    def retire(
        self,
        generation: Generation,
        cache: PromptCache | None = None,
        model_version: int | None = None,
    ) -> None:
        """After the attribution of a generation, drop its cache, and keep the cache of its prompt.

        The ids of the generation stay. `cache` is the cache of its prompt, which a model of this
        version read. `with_earlier_cache` finds it until the model answers again, and after that
        within the limit.
        """
        with self._lock:
            for index, kept in enumerate(self._kept):
                if kept.holds(generation):
                    self._kept[index] = replace(kept, generation=kept.generation.without_cache())
            if cache and model_version is not None:
                read = _ReadPrompt(generation.prompt_ids, cache, model_version)
                others = [each for each in self._read if each.ids != read.ids]
                self._read = [*others, read][-_MAX_READ:]
            self._drop_beyond_limit(num_newly_read=1)

    def with_earlier_cache(self, generation: Generation) -> Generation:
        """The generation with the cache of the longest attributed beginning of its prompt.

        It also gets the version of the model that read it. Without such a cache, or if it has one,
        the generation is returned unchanged.
        """
        if generation.cache is not None:
            return generation

        def num_shared(read: _ReadPrompt) -> int:
            length = shared_length(read.ids, generation.prompt_ids)
            return min(length, read.cache[0].keys.shape[2])

        with self._lock:
            best = max(reversed(self._read), key=num_shared, default=None)
        if best is None or num_shared(best) < _LEAST_SHARED:
            return generation
        cache = tuple(layer.first(num_shared(best)) for layer in best.cache)
        return replace(generation, cache=cache, model_version=best.model_version)

    def forget(self, generation: Generation) -> None:
        """Forget this generation, and its shortened versions."""
        with self._lock:
            self._kept = [kept for kept in self._kept if not kept.holds(generation)]

    def clear(self) -> None:
        """Forget all generations, and caches of prompts."""
        with self._lock:
            self._kept, self._read = [], []

    def wait_until_idle(self, timeout: float) -> None:
        """Return when the model generates nothing, or after `timeout` seconds."""
        hook = self._hook
        if hook is not None:
            with hook.idle:
                hook.idle.wait_for(lambda: not hook.running, timeout)

    def _keep(self, generations: list[Generation]) -> None:
        new = [Transcript.of(generation, self._language_model) for generation in generations]
        with self._lock:
            self._kept = (self._kept + new)[-self._max_generations :]
            self._newest = [generation.prompt_ids for generation in generations]
            self._drop_beyond_limit()

    def _make_room(self) -> None:
        """Before the model answers, drop caches beyond the limit, kept only for the last answer."""
        with self._lock:
            self._drop_beyond_limit()

    def _drop_beyond_limit(self, *, num_newly_read: int = 0) -> None:
        """Drop the oldest caches beyond the limit, caches of attributed prompts first.

        The caches of the last answers are kept while as much memory is free.
        """
        num_bytes, beyond = 0, 0
        for index, kept in reversed(tuple(enumerate(self._kept))):
            size = kept.generation.num_bytes
            num_bytes += size
            if not size or num_bytes <= self._max_cache_bytes:
                continue
            beyond += size
            is_newest = any(kept.generation.prompt_ids is ids for ids in self._newest)
            if not (is_newest and self._has_room(beyond)):
                self._kept[index] = replace(
                    kept, generation=replace(kept.generation.without_cache(), dropped_bytes=size)
                )
                self._warn(size)
        for index, read in reversed(tuple(enumerate(self._read))):
            size = cache_size(read.cache)
            num_bytes += size
            is_newest = index >= len(self._read) - num_newly_read
            if num_bytes > self._max_cache_bytes and not (is_newest and self._has_room(size)):
                del self._read[index]

    def _warn(self, size: int) -> None:
        """Log the first dropped cache."""
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "the cache of an answer, %s MB, was dropped before it was attributed, so its "
                "prompt is read again: max_cache_bytes is %s MB. This is not logged again.",
                f"{size / 1e6:,.0f}",
                f"{self._max_cache_bytes / 1e6:,.0f}",
            )

    def _has_room(self, num_bytes: int) -> bool:
        free = free_memory(self._language_model.device)
        return free is None or free >= num_bytes

    def _search(self, answer: Answer, prompt: str | None) -> Answer | None:
        fitting = [kept for kept in self._latest() if kept.prompt.fits(prompt, answer.prompt_texts)]
        parts = [(kept, part) for kept in fitting if (part := kept.shown_part(answer.text))]
        if len(parts) > 1:
            like = self._rendered(answer.prompt)
            ranks = [
                (bool(kept.prompt.ids), like is not None and kept.prompt.equals(like), part is kept)
                for kept, (part, _) in parts
            ]
            best = max(ranks)
            parts = [match for match, rank in zip(parts, ranks, strict=True) if rank == best]
            different = {part.generation.prompt_ids for _, (part, _) in parts}
            if like is not None and not best[1] and len(different) > 1:
                return None
        if not parts:
            return None
        transcript, start = parts[0][1]
        span = answer.span or transcript.generation.span
        return replace(answer, transcript=transcript, start=start, span=span)

    def _rendered(self, prompt: Prompt | None) -> str | None:
        """The prompt as the model most likely saw it; None if unknown."""
        if prompt is None or isinstance(prompt, str):
            return prompt
        try:
            return self._language_model.decode(self._language_model.encode_prompt(prompt))
        except Exception:  # a chat template may raise anything
            logger.debug("the prompt could not be rendered", exc_info=True)
            return None


def mismatch(answer: Answer, kept: Sequence[Transcript]) -> str:
    """How the answer and its prompt differ from these generations, latest first.

    It names the first words that differ: of the prompt if the model gave this text, of the text if
    the model was given this prompt.
    """
    same_text = [transcript for transcript in kept if transcript.shown_part(answer.text)]
    if same_text:
        return _other_prompt(answer, same_text)
    same_prompt = [
        transcript
        for transcript in kept
        if transcript.prompt.ids and transcript.prompt.fits(None, answer.prompt_texts)
    ]
    if not same_prompt or not answer.prompt_texts:
        return _ELSEWHERE
    said, shown = same_prompt[0].response.text.strip(), answer.text.strip()
    place = shared_length(said, shown)
    return (
        f"to this prompt it answered {_words(said, place)} where this answer has "
        f"{_words(shown, place)}: another model gave that, or something changed the text before it "
        f"was observed; {_MODEL}"
    )


def _other_prompt(answer: Answer, kept: Sequence[Transcript]) -> str:
    prompt = kept[0].prompt.tokens.text
    missing = next((text for text in answer.prompt_texts if text.strip() not in prompt), None)
    if missing is None:
        return (
            f"it gave this text to {len(kept)} prompts, which differ, and none of them is the one "
            "that was observed; have a single model answer each prompt once"
        )
    text = missing.strip()
    place = bisect_left(range(1, len(text) + 1), True, key=lambda n: text[:n] not in prompt)
    if place < min(len(text), _LONGEST // 4):
        place, read = 0, "no such text"
    else:
        read = f"{_words(prompt, prompt.find(text[:place]) + place)} there"
    return (
        f"it gave this text to another prompt: where the observed prompt has {_words(text, place)},"
        f" the model read {read}; something between changed the prompt, such as a wrapper that "
        f"drops a system message. Observe what comes behind it, or {_MODEL}"
    )


def _words(text: str, place: int) -> str:
    """The first words from the word at this position on, or 'nothing more'."""
    while 0 < place < len(text) and not text[place].isspace() and not text[place - 1].isspace():
        place -= 1
    words = " ".join(text[place : place + 4 * _LONGEST].split()[:_WORDS])
    return repr(words[:_LONGEST]) if words else "nothing more"
