"""The answers of models, matched to their recorded generations and attributed."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal, get_args

from typing_extensions import Unpack

from attribot_rag.attributor import Attributor, AttributorOptions, Documents
from attribot_rag.errors import (
    AttributionCancelled,
    AttributionError,
    DocumentsNotLocated,
    InvalidInput,
    NotRecorded,
    UnknownOption,
)
from attribot_rag.methods import make_method
from attribot_rag.model.language_model import LanguageModel, Prompt
from attribot_rag.recording import GenerationRecorder, Match
from attribot_rag.recording.telemetry import current_span
from attribot_rag.runtime.run_store import AttributedRun, RunOutcome, RunStore
from attribot_rag.runtime.tracing import trace_run

if TYPE_CHECKING:
    from opentelemetry.trace import Span

Mode = Literal["inline", "background"]

logger = logging.getLogger(__name__)

_MATCH_TIMEOUT = 30.0  # seconds for a generation that runs, while the user's code waits
_MAX_GENERATIONS = 256  # a large batch has been generated before its first answer is observed
_MAX_CACHE_BYTES = 512 * 2**20  # of answers that have not been observed yet


@dataclass(frozen=True)
class ObservedAnswer:
    """What a framework knows of an answer.

    `text` is what its caller was given: the answer or its beginning, perhaps with the prompt before
    it. `prompt_texts` all stand in the prompt and tell it from other prompts; `prompt` is the whole
    of it, if it is known. `notes` become the attribution's, `warning` one of an attribution that
    finds no source of some sentence. `query` is what was asked. `elsewhere` says that another copy
    of the model gave it, which nobody recorded: its prompt and its text are tokenized.
    `beside_others` says that the application calls models several times, so that documents that do
    not stand in this prompt are no cause for a warning. `span` is the OpenTelemetry span of the
    model's call, where the framework tells it.
    """

    text: str
    documents: Documents
    prompt_texts: Sequence[str]
    prompt: Prompt | None = None
    notes: Sequence[str] = ()
    warning: str = ""
    query: str | None = None
    elsewhere: bool = False
    beside_others: bool = False
    span: Span | None = None


class ServiceOptions(AttributorOptions, total=False):
    """Options of AttributionService, for integrations that pass them on."""

    mode: Mode
    max_pending: int
    max_results: int
    on_result: Callable[[AttributedRun], None] | None
    raise_error: bool


class AttributionService:
    """Attributes the answers of one model, and never breaks what asked for it.

    Records a local model's generations from the start until `close`; with `record_always` False
    only between `begin_recording` and `end_recording`. In mode 'background' at most `max_pending`
    answers may wait. `on_result` is told of every finished run; `store` keeps them, a new one the
    last `max_results`. Errors become outcomes, and are logged; with `raise_error` they are raised
    where the caller waits. `proxy` and `options` are those of Attributor.
    """

    def __init__(
        self,
        language_model: LanguageModel,
        *,
        mode: Mode = "inline",
        max_pending: int = 32,
        max_results: int = 128,
        on_result: Callable[[AttributedRun], None] | None = None,
        raise_error: bool = False,
        record_always: bool = True,
        store: RunStore | None = None,
        proxy: LanguageModel | None = None,
        **options: Unpack[AttributorOptions],
    ) -> None:
        _check_options("AttributionService", options, mode, max_pending)
        options.setdefault("progress", False)
        self.store = RunStore(max_results) if store is None else store
        self.in_background = mode == "background"
        self.recorder = GenerationRecorder(
            language_model, max_generations=_MAX_GENERATIONS, max_cache_bytes=_MAX_CACHE_BYTES
        )
        self.attributor = Attributor(
            language_model,
            recorder=self.recorder,
            proxy=proxy,
            **options,
        )
        self._max_pending = max_pending
        self._on_result = on_result
        self._raise_error = raise_error
        self._backend = language_model.backend
        self._counting = threading.Lock()
        self._num_recording = 0
        if record_always:
            self.begin_recording()

    def begin_recording(self) -> None:
        """Record until `end_recording` was called as often."""
        with self._counting:
            if not self._num_recording and self._backend.generates_here:
                self.recorder.attach()
            self._num_recording += 1

    def end_recording(self) -> None:
        """When nobody else records, stop and forget the generations that nobody asked for."""
        with self._counting:
            self._num_recording -= 1
            if not self._num_recording:
                self.recorder.detach()
                self.recorder.clear()

    @contextmanager
    def recording(self) -> Iterator[None]:
        self.begin_recording()
        try:
            yield
        finally:
            self.end_recording()

    def close(self) -> None:
        """Stop recording; the model gets its own `generate` back when nobody records it."""
        self.recorder.detach()

    def attribute(
        self, run_id: str, root_id: str, answer: ObservedAnswer, *, background: bool = False
    ) -> AttributedRun:
        """The finished run; in the background, asked for here or by the mode, a pending one.

        An empty answer has neither an attribution nor an error.

        `root_id` names the run of the application that the model's run is a part of. Where the
        model was not seen to give the answer, an attribution of the same answer within the same
        root stands for it: a framework's model may pass on what another of its models said. Runs
        that are asked for in the background here are not bounded in number.

        What came of it is told to the OpenTelemetry span of the model's call: the answer's, or the
        one that was current when the model generated, or is when this is called.
        """
        span = answer.span or current_span()
        run = AttributedRun(
            run_id, root_id, answer.documents, answer.text, query=answer.query, span=span
        )
        if not answer.text.strip():
            return self._finish(run, RunOutcome())
        try:
            match = self._match(answer)
            if background or self.in_background:
                self.store.expect(run, partial(self._submit, run, answer, match))
                return run
            wait([match], _MATCH_TIMEOUT)
            return self._attributed_run(run, answer, match)
        except Exception as error:  # the user's chain must not be lost to its attribution
            if self._raise_error:
                raise
            return self._finish(run, self._failed(error, answer))

    def _submit(
        self, run: AttributedRun, answer: ObservedAnswer, match: Future[Match | None]
    ) -> Future[AttributedRun]:
        """Attribute the answer in the background, as soon as its generation has ended."""
        self.begin_recording()
        match.add_done_callback(lambda _: self.end_recording())

        def task() -> AttributedRun:
            try:
                return self._attributed_run(run, answer, match)
            except Exception as error:  # there is nobody to raise it to
                return self._finish(run, self._failed(error, answer))

        max_pending = self._max_pending if self.in_background else sys.maxsize
        future = self._backend.background.submit(task, max_pending=max_pending, after=match)
        future.add_done_callback(partial(self._finish_cancelled, run))
        return future

    def _finish_cancelled(self, run: AttributedRun, future: Future[AttributedRun]) -> None:
        if future.cancelled():
            error = AttributionCancelled(f"the attribution of the run {run.run_id} was cancelled")
            self._finish(run, RunOutcome(error=error))

    def find(self, answer: ObservedAnswer) -> Future[Match | None]:
        """The recorded generation of the answer, when it has ended; None if there is none."""
        return self.recorder.match(
            answer.text, contains=answer.prompt_texts, like=self._rendered(answer.prompt)
        )

    def _match(self, answer: ObservedAnswer) -> Future[Match | None]:
        """The recorded generation of the answer, which nobody else is given from then on."""
        if self._answered_elsewhere(answer):
            match: Future[Match | None] = Future()
            match.set_result(None)
            return match
        match = self.find(answer)
        match.add_done_callback(self._claim)
        return match

    def _answered_elsewhere(self, answer: ObservedAnswer) -> bool:
        return answer.elsewhere or not self._backend.generates_here

    def _claim(self, found: Future[Match | None]) -> None:
        match = None if found.exception() else found.result()
        if match is not None:
            self.recorder.forget(match.generation)

    def _rendered(self, prompt: Prompt | None) -> str | None:
        """The prompt as the model most likely saw it; None if that cannot be told."""
        if prompt is None or isinstance(prompt, str):
            return prompt
        language_model = self.attributor.language_model
        try:
            return language_model.decode(language_model.encode_prompt(prompt))
        except Exception:  # of a chat template, which may raise anything for what it does not like
            logger.debug("the prompt could not be rendered", exc_info=True)
            return None

    def _attributed_run(
        self, run: AttributedRun, answer: ObservedAnswer, match: Future[Match | None]
    ) -> AttributedRun:
        found = match.result() if match.done() else None
        if answer.span is None and found is not None and found.generation.span is not None:
            run = replace(run, span=found.generation.span)
        return self._finish(run, self._outcome(run, answer, match))

    def _outcome(
        self, run: AttributedRun, answer: ObservedAnswer, match: Future[Match | None]
    ) -> RunOutcome:
        if answer.prompt is not None and self._answered_elsewhere(answer):
            text = answer.text
            return RunOutcome(self.attributor.attribute(answer.prompt, text, answer.documents))
        found = match.result() if match.done() else None
        outcome = self.store.outcome_of(run) if found is None else self._attributed(answer, found)
        if outcome is None:
            name = self.attributor.language_model.name
            raise NotRecorded(
                f"{name!r} was not seen to give the answer {answer.text[:60]!r} to this prompt: "
                "another model or a cache gave it, or something changed its text; pass the model "
                "that answers, before it answers, or a local copy of it as language_model="
            )
        return outcome

    def _attributed(self, answer: ObservedAnswer, match: Match) -> RunOutcome:
        attribution = self.attributor.attribute_generation(
            match.generation, answer.documents, answer.prompt, response=answer.text[match.start :]
        )
        kinds = {verdict.kind for verdict in attribution.verdicts}
        warned = answer.warning and kinds & {"unsupported", "open"}
        notes = (*attribution.notes, *answer.notes, *([answer.warning] if warned else ()))
        return RunOutcome(replace(attribution, notes=notes), start=match.start)

    def _failed(self, error: Exception, answer: ObservedAnswer) -> RunOutcome:
        if not self._raise_error:
            expected = answer.beside_others and isinstance(error, DocumentsNotLocated)
            unexpected = None if isinstance(error, AttributionError) else error
            level = logging.INFO if expected else logging.WARNING
            logger.log(level, "no attribution: %s", error, exc_info=unexpected)
        return RunOutcome(error=error)

    def _finish(self, pending: AttributedRun, outcome: RunOutcome) -> AttributedRun:
        run = self.store.add(replace(pending, outcome=outcome))
        if run.span is not None:
            try:
                trace_run(run, run.span)
            except Exception:
                logger.exception("the trace was not told of the run %s", run.run_id)
        if self._on_result is not None:
            try:
                self._on_result(run)
            except Exception:
                logger.exception("on_result failed for the run %s", run.run_id)
        return run


def service_that_saw(
    services: Sequence[AttributionService], answer: ObservedAnswer
) -> AttributionService:
    """The service of the model that gave the answer; the first if none was seen to give it.

    Waits only where several models are answering such a prompt.
    """
    if len(services) == 1 or not answer.text.strip():
        return services[0]
    found = {service.find(answer): service for service in services}
    awaited, end = set(found), time.monotonic() + _MATCH_TIMEOUT
    while True:
        ended = {match for match in awaited if match.done()}
        for match in ended:
            if match.exception() is None and match.result() is not None:
                return found[match]
        awaited -= ended
        if len(awaited) == 1:
            return found[awaited.pop()]
        if not awaited or time.monotonic() > end:
            return services[0]
        wait(awaited, end - time.monotonic(), return_when=FIRST_COMPLETED)


class ServiceRegistry:
    """One service for each model, made when it is first asked for; all share one `store`.

    The services of the `max_models` models that were asked for last are kept, each with what was
    prepared for scoring. They record on demand only. `proxy` and `options` are those of
    AttributionService.
    """

    def __init__(
        self,
        store: RunStore,
        *,
        max_models: int = 4,
        proxy: LanguageModel | None = None,
        **options: Unpack[ServiceOptions],
    ) -> None:
        if max_models < 1:
            raise InvalidInput(f"max_models={max_models!r}; use at least 1")
        mode, max_pending = options.get("mode", "inline"), options.get("max_pending", 1)
        _check_options("ServiceRegistry", options, mode, max_pending)
        make_method(options.get("method", "auto"), proxy, options.get("keep"))
        self.store = store
        self._max_models = max_models
        self._proxy = proxy
        self._options = options
        self._services: OrderedDict[Hashable, AttributionService] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._services)

    @property
    def services(self) -> tuple[AttributionService, ...]:
        """Those that are kept."""
        with self._lock:
            return tuple(self._services.values())

    def service_for(self, language_model: LanguageModel) -> AttributionService:
        model = language_model.backend
        with self._lock:
            if model not in self._services:
                self._services[model] = AttributionService(
                    language_model,
                    store=self.store,
                    record_always=False,
                    proxy=self._proxy,
                    **self._options,
                )
            self._services.move_to_end(model)
            if len(self._services) > self._max_models:
                self._services.popitem(last=False)
            return self._services[model]

    def close(self) -> None:
        """Stop recording all models, and let go of what was prepared for them."""
        with self._lock:
            while self._services:
                self._services.popitem()[1].close()


def _check_options(owner: str, given: Iterable[str], mode: Mode, max_pending: int) -> None:
    """Raises InvalidInput for what is wrong with options, before a model answers."""
    UnknownOption.check(owner, given, {*ServiceOptions.__optional_keys__, "proxy"})
    if mode not in get_args(Mode):
        raise InvalidInput(f"mode={mode!r}; choose one of {', '.join(get_args(Mode))}")
    if max_pending < 1:
        raise InvalidInput(f"max_pending={max_pending!r}; use at least 1")
