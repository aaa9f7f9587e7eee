"""Matches the answers of models to their recorded generations, and attributes them."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from typing_extensions import Unpack

from attribot_rag.attribution import Attribution, Counterfactual
from attribot_rag.errors import (
    AttributionCancelled,
    AttributionError,
    DocumentsNotLocated,
    NotRecorded,
)
from attribot_rag.model.language_model import LanguageModel
from attribot_rag.model.threads import Background
from attribot_rag.recording import Answer
from attribot_rag.recording.transcript import current_span
from attribot_rag.result.result import ByProvenance
from attribot_rag.runtime.documents import document_of, not_composed, with_earlier
from attribot_rag.runtime.options import (
    RunOptions,
    Scoring,
    ServiceOptions,
    check_words,
)
from attribot_rag.runtime.runs import AttributedRun, RunStore
from attribot_rag.runtime.tracing import trace_run

if TYPE_CHECKING:
    from attribot_rag.attributor import Attributor, WordsReader
    from attribot_rag.recording import GenerationRecorder

logger = logging.getLogger(__name__)

MATCH_TIMEOUT = 30.0  # seconds for a generation that runs, while the user's code waits
_MAX_MODELS = 4
_MAX_GENERATIONS = 256  # a large batch has been generated before its first answer is observed


class AttributionService:
    """Attributes the answers of one model. An error of an attribution does not break the
    application.

    Args:
        language_model: The model. Its generations are recorded if it is local. With 'words', a
            comparison of words reads the answers of any model, and needs no model itself.
        record_always: Whether to record from the start until `close`. Otherwise only between
            `begin_recording` and `end_recording`.
        store: Keeps the runs; by default a new one.
        proxy: As for Attributor.
        is_reader: Whether other models give the answers and this one only reads them. Then nothing
            is recorded.
        **options: Fields of RunOptions by name, or all at once as `options=RunOptions(...)`.
    """

    def __init__(
        self,
        language_model: Scoring,
        *,
        record_always: bool = True,
        store: RunStore | None = None,
        proxy: LanguageModel | None = None,
        is_reader: bool = False,
        **options: Unpack[ServiceOptions],
    ) -> None:
        arguments = ("record_always", "store", "proxy", "is_reader")
        run_options = RunOptions.of("AttributionService", options, beside=arguments)
        self.options = replace(run_options, progress=bool(run_options.progress))
        self.store = RunStore(self.options.max_results) if store is None else store
        self.in_background = self.options.mode == "background"
        self._recorder: GenerationRecorder | None = None
        self._records = False
        self._attributor, self._background = self._make_attributor(
            language_model, proxy, is_reader=is_reader
        )
        self._ask_by_run: dict[str, Callable[..., str]] = {}  # of runs that have not ended
        # By their provenance, which copies of an attribution share: a run holds no model.
        self._ask_by_provenance = ByProvenance[Callable[..., str] | None]()
        self._counting = threading.Lock()
        self._num_recording = 0
        if record_always:
            self.begin_recording()

    def _make_attributor(
        self, scoring: Scoring, proxy: LanguageModel | None, *, is_reader: bool
    ) -> tuple[Attributor | WordsReader, Background]:
        """What attributes the answers, and where they wait; makes the recorder of a model too."""
        if not isinstance(scoring, LanguageModel):
            from attribot_rag.attributor import WordsReader

            check_words(scoring, proxy)
            helper = None if isinstance(scoring, str) else scoring
            return WordsReader(helper=helper, options=self.options), Background()
        from attribot_rag.attributor import Attributor  # PyTorch, which takes seconds
        from attribot_rag.model.local_model import LocalModel
        from attribot_rag.recording import GenerationRecorder

        self._recorder = GenerationRecorder(
            scoring,
            max_generations=_MAX_GENERATIONS,
            max_cache_bytes=self.options.max_cache_bytes,
        )
        self._records = isinstance(scoring, LocalModel) and not is_reader
        attributor = Attributor(
            scoring,
            recorder=self._recorder,
            proxy=proxy,
            is_reader=is_reader,
            options=self.options,
        )
        return attributor, scoring.weights.background

    @property
    def name(self) -> str:
        """The name of the model, or of the reader in its place."""
        return self._attributor.name

    @property
    def attributor(self) -> Attributor:
        """The attributor of the model; raises NotRecorded without a model."""
        from attribot_rag.attributor import WordsReader

        if isinstance(self._attributor, WordsReader):
            raise NotRecorded("the reader without a model has no attributor")
        return self._attributor

    @property
    def recorder(self) -> GenerationRecorder:
        """The recorder of the model; raises NotRecorded without a model."""
        if self._recorder is None:
            raise NotRecorded("the reader without a model records nothing")
        return self._recorder

    def begin_recording(self) -> None:
        """Start to record. Each call needs its own call of `end_recording`."""
        with self._counting:
            if not self._num_recording and self._records:
                self.recorder.attach()
            self._num_recording += 1

    def end_recording(self) -> None:
        """Stop recording unless another service records, and forget unused generations."""
        with self._counting:
            self._num_recording -= 1
            if not self._num_recording and self._recorder is not None:
                self._recorder.detach()
                self._recorder.clear()

    @contextmanager
    def recording(self) -> Iterator[None]:
        self.begin_recording()
        try:
            yield
        finally:
            self.end_recording()

    def close(self) -> None:
        """Stop recording. The model gets its own `generate` back when nobody else records it."""
        if self._recorder is not None:
            self._recorder.detach()

    def attribute(
        self,
        run_id: str,
        root_id: str,
        answer: Answer,
        *,
        earlier: Sequence[AttributedRun] = (),
        background: bool = False,
    ) -> AttributedRun:
        """Attribute an answer. Returns the finished run, or a pending one in the background.

        An empty answer has neither an attribution nor an error.

        `root_id` names the application's run that contains the model's run. `background` attributes
        in the background whatever the mode; the number of such runs is not limited.

        `earlier` are the runs of the answers that this prompt contains, in the order in which they
        were made; an `Observer` finds them. They become documents with their runs' ids. The
        run lists them as `earlier`, together with the answers of the same root that they were made
        of, and ends after them.

        The result is also written into the OpenTelemetry span of the model's call. That is the
        answer's span, the span that was current when the model generated, or the current one.
        """
        if earlier:
            contents = (*answer.prompt_documents, *map(document_of, earlier))
            answer = replace(answer, contents=contents)
        kept = replace(answer, transcript=None, ask=None, span=answer.span or current_span())
        if answer.ask is not None:
            self._ask_by_run[run_id] = answer.ask
        run = AttributedRun(run_id, root_id, kept, is_pending=True)
        if not answer.text.strip():
            return self._finish(run)
        try:
            match = self._match(answer)
            if background or self.in_background:
                self.store.expect(run, partial(self._submit, run, match, earlier))
                return run
            wait(map(self.store.ended, earlier))
            wait([match], MATCH_TIMEOUT)
            return self._attribute(run, match, earlier)
        except Exception as error:  # the user's chain must not be lost to its attribution
            if self.options.raise_error:
                raise
            return self._fail(run, error)

    def answer_without(
        self, attribution: Attribution, *documents: int, **generate: Any
    ) -> Counterfactual:
        """As Attributor.answer_without, with the `ask` of the answer's call."""
        ask: Callable[..., str] | None = self._ask_by_provenance.get(attribution.provenance)
        return self._attributor.answer_without(attribution, *documents, ask=ask, **generate)

    def _match(self, answer: Answer) -> Future[Answer | None]:
        """The answer with its recorded generation, which is then reserved for it."""
        match: Future[Answer | None] = Future()
        if answer.transcript is not None:
            match.set_result(answer)
        elif self._answered_elsewhere(answer):
            match.set_result(None)
        else:
            match = self.recorder.match(answer)
        match.add_done_callback(self._claim)
        return match

    def _claim(self, future: Future[Answer | None]) -> None:
        match = None if future.exception() else future.result()
        if match is not None and match.transcript is not None:
            self.recorder.forget(match.transcript.generation)

    def _answered_elsewhere(self, answer: Answer) -> bool:
        return answer.elsewhere or not self._records

    def _submit(
        self, run: AttributedRun, match: Future[Answer | None], earlier: Sequence[AttributedRun]
    ) -> Future[AttributedRun]:
        """Attribute the answer in the background, after its generation has ended."""
        self.begin_recording()
        match.add_done_callback(lambda _: self.end_recording())

        def task() -> AttributedRun:
            try:
                return self._attribute(run, match, earlier)
            except Exception as error:  # there is nobody to raise it to
                return self._fail(run, error)

        max_pending = self.options.max_pending if self.in_background else sys.maxsize
        ready = _all_done([match, *map(self.store.ended, earlier)])
        future = self._background.submit(task, max_pending=max_pending, after=ready)
        future.add_done_callback(partial(self._finish_cancelled, run))
        return future

    def _finish_cancelled(self, run: AttributedRun, future: Future[AttributedRun]) -> None:
        if future.cancelled():
            error = AttributionCancelled(f"the attribution of the run {run.run_id} was cancelled")
            self._finish(replace(run, error=error))

    def _attribute(
        self, run: AttributedRun, match: Future[Answer | None], earlier: Sequence[AttributedRun]
    ) -> AttributedRun:
        run = with_earlier(run, map(self.store.latest, earlier))
        answer = run.answer
        if answer.prompt is not None and self._answered_elsewhere(answer):
            attribution = self._attributor.attribute(
                answer.prompt,
                answer.text,
                answer.prompt_documents,
                answered_by=answer.answered_by if self._attributor.is_reader else None,
                on_sentence=self._so_far(run),
            )
            self._ask_by_provenance[attribution.provenance] = self._ask_by_run.get(run.run_id)
            if run.earlier:  # whose notes no matched answer adds
                notes = (*attribution.notes, *answer.notes)
                attribution = replace(attribution, notes=notes)
            return self._finish(replace(run, attribution=attribution))
        matched = match.result() if match.done() else None
        if matched is None:
            raise NotRecorded(
                f"{self.name!r} was not seen to give the answer {answer.text[:60]!r} to "
                f"this prompt: {self.recorder.why_unmatched(answer)}"
            )
        matched = replace(matched, notes=answer.notes)
        attribution = self.attributor.attribute_answer(matched, self._so_far(run))
        kept = replace(matched, transcript=None, span=matched.span or answer.span)
        return self._finish(replace(run, answer=kept, attribution=attribution))

    def _so_far(self, run: AttributedRun) -> Callable[[Attribution], None] | None:
        if self.options.on_sentence is None and not self.in_background:
            return None

        def report(attribution: Attribution) -> None:
            so_far = self.store.add(replace(run, attribution=attribution))
            self.options.notify("on_sentence", so_far)

        return report

    def _fail(self, run: AttributedRun, error: Exception) -> AttributedRun:
        if isinstance(error, DocumentsNotLocated) and run.answer.num_before:
            error = not_composed(run.answer)
        if not self.options.raise_error:
            expected = run.answer.beside_others and isinstance(error, DocumentsNotLocated)
            unexpected = None if isinstance(error, AttributionError) else error
            level = logging.INFO if expected else logging.WARNING
            logger.log(level, "no attribution: %s", error, exc_info=unexpected)
        return self._finish(replace(run, error=error))

    def _finish(self, ended: AttributedRun) -> AttributedRun:
        self._ask_by_run.pop(ended.run_id, None)
        run = self.store.add(replace(ended, is_pending=False))
        if run.span is not None:
            try:
                trace_run(run, run.span)
            except Exception:
                logger.exception("the trace was not told of the run %s", run.run_id)
        self.options.notify("on_result", run)
        return run


def _all_done(futures: Sequence[Future[Any]]) -> Future[None]:
    """A future that is done, without a result, when all of these are."""
    done: Future[None] = Future()
    num_left = len(futures)
    counting = threading.Lock()

    def count(_: object) -> None:
        nonlocal num_left
        with counting:
            num_left -= 1
            is_last = not num_left
        if is_last:
            done.set_result(None)

    for future in futures:
        future.add_done_callback(count)
    return done


def service_that_saw(
    services: Sequence[AttributionService], answer: Answer
) -> tuple[AttributionService, Answer]:
    """The service whose model gave the answer, and the answer with its generation.

    If no model was seen to give it, the first service is returned. This waits only while several
    models answer such a prompt.
    """
    if len(services) == 1 or not answer.text.strip():
        return services[0], answer
    awaited = {service.recorder.match(answer): service for service in services}
    end = time.monotonic() + MATCH_TIMEOUT
    while awaited and time.monotonic() <= end:
        for future in [future for future in awaited if future.done()]:
            service = awaited.pop(future)
            match = None if future.exception() else future.result()
            if match is not None:
                return service, match
        if len(awaited) == 1:
            return awaited.popitem()[1], answer
        wait(awaited, end - time.monotonic(), return_when=FIRST_COMPLETED)
    return services[0], answer


def answer_without(
    services: Iterable[AttributionService], run: AttributedRun, *documents: int, **generate: Any
) -> Counterfactual:
    """The second answer of the run's model, by `Attributor.answer_without`.

    If the answer was only read here, the `ask` of its call asks the model that answered, once.
    Raises NotRecorded if the run has no attribution, or if none of the services made it. Other
    errors are as in that method.
    """
    if run.attribution is None:
        raise NotRecorded(f"the run {run.run_id} has no attribution: {run.error}")
    for service in services:
        with suppress(NotRecorded):
            return service.answer_without(run.attribution, *documents, **generate)
    raise NotRecorded(
        f"no answer without documents for the run {run.run_id}: none of the models that are "
        "recorded here gave its whole answer in one call"
    )


class KeepsRuns(Protocol):
    """Keeps the runs of its `services` as `results`, and lets their models answer again."""

    results: RunStore

    @property
    def services(self) -> Sequence[AttributionService]: ...

    def result(self, run_id: object, timeout: float | None = None) -> AttributedRun:
        """The finished run with this id or this root's id. Waits while it is pending.

        Raises TimeoutError after `timeout` seconds, and InvalidInput for a run without attribution.
        """
        return self.results.wait(run_id, timeout)

    async def aresult(self, run_id: object, timeout: float | None = None) -> AttributedRun:
        """The finished run, as `result` returns it, without blocking the event loop."""
        return await self.results.wait_async(run_id, timeout)

    def answer_without(self, run_id: object, *documents: int, **generate: Any) -> Counterfactual:
        """The model's answer without some documents of a run's attribution, by index.

        With a `reader`, this asks the model that answered once more. It waits for a pending run.
        `generate` and the errors are as in Attributor.answer_without.
        """
        return answer_without(self.services, self.result(run_id), *documents, **generate)


class ServiceRegistry:
    """One service for each model, made when it is first asked for. All share one `store`.

    The services record only on demand. Those of the last four models are kept.

    Args:
        store: Keeps the runs of all services; by default a new one.
        proxy: As for AttributionService.
        is_reader: As for AttributionService.
        **options: As for AttributionService.
    """

    def __init__(
        self,
        store: RunStore | None = None,
        *,
        proxy: LanguageModel | None = None,
        is_reader: bool = False,
        **options: Unpack[ServiceOptions],
    ) -> None:
        arguments = ("proxy", "is_reader")
        self._options = RunOptions.of("ServiceRegistry", options, beside=arguments)
        method, keep = self._options.method, self._options.keep
        if (method, proxy, keep) != (RunOptions().method, None, None):
            from attribot_rag.methods import make_method  # PyTorch, which takes seconds

            make_method(method, proxy, keep)  # raises for one that is wrong
        self.store = RunStore(self._options.max_results) if store is None else store
        self._proxy = proxy
        self._is_reader = is_reader
        self._services: OrderedDict[Hashable, AttributionService] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def services(self) -> tuple[AttributionService, ...]:
        """The services that are kept."""
        with self._lock:
            return tuple(self._services.values())

    def service_for(self, language_model: Scoring) -> AttributionService:
        key: Hashable = language_model
        if isinstance(language_model, LanguageModel):
            key = language_model.weights
        with self._lock:
            if key not in self._services:
                self._services[key] = AttributionService(
                    language_model,
                    store=self.store,
                    record_always=False,
                    proxy=self._proxy,
                    is_reader=self._is_reader,
                    options=self._options,
                )
            self._services.move_to_end(key)
            if len(self._services) > _MAX_MODELS:
                self._services.popitem(last=False)
            return self._services[key]

    def close(self) -> None:
        """Stop recording all models, and release their services."""
        with self._lock:
            while self._services:
                self._services.popitem()[1].close()
