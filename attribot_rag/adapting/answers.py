"""Answers that a framework's local model gave, and their attribution."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from attribot_rag.adapting.outcome import Outcome
from attribot_rag.adapting.worker import Worker
from attribot_rag.attributor import Attributor, Documents
from attribot_rag.errors import AttributionError, InvalidInput, NotRecorded
from attribot_rag.generation import Generation
from attribot_rag.language_model import LanguageModel, Prompt
from attribot_rag.recording import GenerationRecorder

Known = Callable[[], Outcome | None]
Captured = tuple[Generation, int]

logger = logging.getLogger(__name__)

_WAIT = 30.0  # for a generation under way, while the user's code waits
_WAIT_IN_BACKGROUND = 600.0
_MAX_GENERATIONS = 256  # a large batch has been generated before the first answer is told
_MAX_CACHE_BYTES = 512 * 2**20  # of answers that nobody has asked about as yet


@dataclass(frozen=True)
class Answer:
    """What a framework knows of an answer.

    `text` is what its caller was given: the answer or its beginning, perhaps with the prompt before
    it. `said` are texts that all stand in the prompt, which tell it from other prompts. `caveat` is
    a note for an attribution that finds no source of some sentence.
    """

    text: str
    documents: Documents
    said: Sequence[str]
    prompt: Prompt | None = None
    caveat: str = ""


class AnswerAttributor:
    """Attributes the answers of one local model, and never breaks what asked for it.

    Records the model's generations from the start, until `close`; with `always` False only between
    `begin` and `end`. `options` are those of Attributor. Errors become outcomes, and are logged,
    unless `raise_error` is set.
    """

    def __init__(
        self,
        language_model: LanguageModel,
        *,
        max_pending: int = 32,
        raise_error: bool = False,
        always: bool = True,
        **options: Any,
    ) -> None:
        if max_pending < 1:
            raise InvalidInput(f"max_pending={max_pending!r}; use at least 1")
        self.attributor = Attributor(
            language_model.model, language_model.tokenizer, **{"progress": False, **options}
        )
        self.attributor.recorder = GenerationRecorder(
            self.attributor.language_model,
            max_generations=_MAX_GENERATIONS,
            max_cache_bytes=_MAX_CACHE_BYTES,
        )
        self.max_pending = max_pending
        self.raise_error = raise_error
        self._worker = Worker.of(language_model.model)
        self._counting = threading.Lock()
        self._num_begun = 0
        if always:
            self.begin()

    @property
    def language_model(self) -> LanguageModel:
        return self.attributor.language_model

    def begin(self) -> None:
        """Record from here on, until there were as many `end`s."""
        with self._counting:
            self._num_begun += 1
            self.attributor.recorder.attach()

    def end(self) -> None:
        """When nobody is left who began, stop recording and forget what nobody asked for."""
        with self._counting:
            self._num_begun -= 1
            if not self._num_begun:
                self.attributor.recorder.detach()
                self.attributor.recorder.clear()

    def close(self) -> None:
        """Stop recording; the model gets its own `generate` back when nobody records it."""
        self.attributor.recorder.detach()

    def attribute(self, answer: Answer, known: Known = lambda: None) -> Outcome:
        """Attribute it here and now, as soon as no other attribution of the model runs.

        `known` is asked where the model was not seen to give the answer: a framework's model may
        pass on what another one of its models, which was attributed already, has answered.
        """
        return self._outcome(answer, known, None, _WAIT)

    def submit(
        self,
        answer: Answer,
        then: Callable[[Outcome], None],
        known: Known = lambda: None,
        *,
        bounded: bool = True,
    ) -> Future[Outcome]:
        """Attribute it in the background, and tell `then` before the future is done.

        Raises QueueFull if `max_pending` answers wait already, unless it is not `bounded`: for
        callers who wait for each themselves.
        """
        captured = None
        if answer.text.strip():
            with suppress(NotRecorded):  # as yet: a stream is seen before its generation ends
                captured = self._captured(answer, timeout=0)

        def task() -> Outcome:
            try:
                outcome = self._outcome(answer, known, captured, _WAIT_IN_BACKGROUND)
            except Exception as error:  # as asked for; `then` may have others waiting
                then(Outcome(error=error))
                raise
            then(outcome)
            return outcome

        return self._worker.submit(task, max_pending=self.max_pending if bounded else sys.maxsize)

    def _outcome(
        self, answer: Answer, known: Known, captured: Captured | None, timeout: float
    ) -> Outcome:
        try:
            try:
                generation, start = captured or self._captured(answer, timeout)
            except NotRecorded:
                outcome = known()
                if outcome is None:
                    raise
                return outcome
            return self._worker.run(lambda: self._attributed(answer, generation, start))
        except Exception as error:  # the user's chain must not be lost to its attribution
            return self.failed(error)

    def failed(self, error: Exception) -> Outcome:
        """The outcome of what could not be attributed; raises it if that was asked for."""
        if self.raise_error:
            raise error
        unexpected = None if isinstance(error, AttributionError) else error
        logger.warning("no attribution: %s", error, exc_info=unexpected)
        return Outcome(error=error)

    def _captured(self, answer: Answer, timeout: float) -> tuple[Generation, int]:
        """The recorded generation, and where its response begins in the answer's text.

        While it is still under way, as a streamed one may be, it is waited for.
        """
        if not answer.text.strip():
            raise InvalidInput(f"the answer {answer.text!r} is empty, nothing can be attributed")
        recorder = self.attributor.recorder
        found = recorder.find_shown(
            answer.text, contains=answer.said, like=self._rendered(answer.prompt), timeout=timeout
        )
        if found is None:
            raise NotRecorded(
                f"the answer {answer.text[:60]!r} is none that {self.language_model.name!r} was "
                "seen to give to this prompt: another model gave it, a cache, or something changed "
                "its text; pass the model that answers, and do so before it answers"
            )
        recorder.forget(found[0])
        return found

    def _rendered(self, prompt: Prompt | None) -> str | None:
        """The prompt as the model most likely saw it; None if that cannot be told."""
        if prompt is None or isinstance(prompt, str):
            return prompt
        try:
            return self.language_model.decode(self.language_model.encode_prompt(prompt))
        except Exception:  # of a chat template, which may raise anything for what it does not like
            logger.debug("the prompt could not be rendered", exc_info=True)
            return None

    def _attributed(self, answer: Answer, generation: Generation, start: int) -> Outcome:
        attribution = self.attributor.attribute_generation(
            generation, answer.documents, answer.prompt, response=answer.text[start:]
        )
        kinds = {verdict.kind for verdict in attribution.verdicts}
        if answer.caveat and kinds & {"unsupported", "open"}:
            attribution = replace(attribution, notes=(*attribution.notes, answer.caveat))
        return Outcome(attribution, start=start)
