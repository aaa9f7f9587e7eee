"""The services of several models, and the service of a given answer."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from contextlib import suppress
from typing import Any, Protocol

from typing_extensions import Unpack

from attribot_rag.attribution import Counterfactual
from attribot_rag.errors import InvalidInput, NotRecorded
from attribot_rag.model.language_model import LanguageModel
from attribot_rag.recording import Answer
from attribot_rag.runtime.attributed_run import AttributedRun
from attribot_rag.runtime.options import RunOptions, Scoring, ServiceOptions
from attribot_rag.runtime.run_store import RunStore
from attribot_rag.runtime.service import MATCH_TIMEOUT, AttributionService


def service_that_saw(
    services: Sequence[AttributionService], answer: Answer
) -> tuple[AttributionService, Answer]:
    """The service of the model that gave the answer, and the answer as it matched it.

    The first service if none was seen to give it. Waits only where several models are answering
    such a prompt.
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

    One that was only read here is asked by the `ask` of its call: one call of that model.
    Raises NotRecorded for a run without attribution, and if none of the services made it, besides
    what that raises.
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
    """What keeps the runs of `services` as its `results`, and lets their models answer again."""

    @property
    def services(self) -> Sequence[AttributionService]: ...

    @property
    def results(self) -> RunStore: ...

    def result(self, run_id: object, timeout: float | None = None) -> AttributedRun:
        """The finished run of this id or with this root, waited for while it is pending.

        Raises TimeoutError after `timeout` seconds, InvalidInput for a run without attribution.
        """
        return self.results.wait(run_id, timeout)

    async def aresult(self, run_id: object, timeout: float | None = None) -> AttributedRun:
        """The same, without blocking the event loop."""
        return await self.results.wait_async(run_id, timeout)

    def answer_without(self, run_id: object, *documents: int, **generate: Any) -> Counterfactual:
        """The model's answer without some of the documents, by index, of a run's attribution.

        With a `reader`, the model that answered is asked again, once. Waits for a pending run.
        `generate` and the errors are those of Attributor.answer_without.
        """
        return answer_without(self.services, self.result(run_id), *documents, **generate)

    async def aanswer_without(
        self, run_id: object, *documents: int, **generate: Any
    ) -> Counterfactual:
        """The same, without blocking the event loop."""
        return await asyncio.to_thread(self.answer_without, run_id, *documents, **generate)


class ServiceRegistry:
    """One service for each model, made when it is first asked for; all share one `store`.

    The services record on demand only.

    Args:
        store: Keeps the runs of all services; by default a new one.
        max_models: The number of models, those asked for last, whose services are kept, each with
            what was prepared for scoring.
        proxy: As for AttributionService.
        is_reader: As for AttributionService.
        **options: As for AttributionService.
    """

    def __init__(
        self,
        store: RunStore | None = None,
        *,
        max_models: int = 4,
        proxy: LanguageModel | None = None,
        is_reader: bool = False,
        **options: Unpack[ServiceOptions],
    ) -> None:
        if max_models < 1:
            raise InvalidInput(f"max_models={max_models!r}; use at least 1")
        beside = ("max_models", "proxy", "is_reader")
        self._options = RunOptions.of("ServiceRegistry", options, beside=beside)
        method, keep = self._options.method, self._options.keep
        if (method, proxy, keep) != (RunOptions().method, None, None):
            from attribot_rag.methods import make_method  # PyTorch, which takes seconds

            make_method(method, proxy, keep)  # raises for one that is wrong
        self.store = RunStore(self._options.max_results) if store is None else store
        self._max_models = max_models
        self._proxy = proxy
        self._is_reader = is_reader
        self._services: OrderedDict[Hashable, AttributionService] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._services)

    @property
    def services(self) -> tuple[AttributionService, ...]:
        """The cached services."""
        with self._lock:
            return tuple(self._services.values())

    def service_for(self, language_model: Scoring) -> AttributionService:
        model = language_model if isinstance(language_model, str) else language_model.weights
        with self._lock:
            if model not in self._services:
                self._services[model] = AttributionService(
                    language_model,
                    store=self.store,
                    record_always=False,
                    proxy=self._proxy,
                    is_reader=self._is_reader,
                    options=self._options,
                )
            self._services.move_to_end(model)
            if len(self._services) > self._max_models:
                self._services.popitem(last=False)
            return self._services[model]

    def close(self) -> None:
        """Stop recording all models, and release their services."""
        with self._lock:
            while self._services:
                self._services.popitem()[1].close()
