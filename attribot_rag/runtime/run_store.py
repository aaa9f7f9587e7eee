"""Attributions of runs, how each ended, and a store for callers whose answers cannot carry them."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from attribot_rag.attribution import Attribution
from attribot_rag.attribution.serialization import SCHEMA_VERSION
from attribot_rag.attribution.summary import MAX_SUMMARY_BYTES, summarize
from attribot_rag.errors import DocumentsNotLocated, InvalidInput

_MAX_MESSAGE = 1000


@dataclass(frozen=True)
class RunOutcome:
    """An attribution, or the error that took its place; never both.

    `start` is where the attributed response begins in the text that the caller was given, which
    may hold the prompt too.
    """

    attribution: Attribution | None = None
    error: BaseException | None = None
    start: int = 0

    def summary(self, max_bytes: int = MAX_SUMMARY_BYTES) -> dict[str, Any]:
        """Plain data of at most 16 KB as JSON: `to_summary`, or `status` 'error' and the reason."""
        if self.attribution is not None:
            return summarize(self.attribution, start=self.start, max_bytes=max_bytes)
        kind, message = type(self.error).__name__, str(self.error)[:_MAX_MESSAGE]
        return {
            "schema_version": SCHEMA_VERSION,
            "status": "error",
            "error": {"type": kind, "message": message},
        }


@dataclass(frozen=True, eq=False)
class AttributedRun:
    """One answer: the model's run, the root run that it was a part of, and what came of it.

    `documents` are the framework's own that `text`, the answer, was attributed to; `outcome` is
    None while it is pending.
    """

    run_id: str
    root_id: str
    documents: Sequence[Any]
    text: str = ""
    outcome: RunOutcome | None = None

    @property
    def attribution(self) -> Attribution | None:
        """The whole result, None while it is pending and if there is an `error`."""
        return None if self.outcome is None else self.outcome.attribution

    @property
    def error(self) -> BaseException | None:
        return None if self.outcome is None else self.outcome.error

    @cached_property
    def summary(self) -> dict[str, Any]:
        """What is attached to the answer: plain data of at most 16 KB, with its `status`."""
        return self.summary_of(MAX_SUMMARY_BYTES)

    def summary_of(self, max_bytes: int) -> dict[str, Any]:
        """The same in fewer bytes of JSON."""
        own = {"run_id": self.run_id}
        if self.outcome is None:
            return {"status": "pending", **own}
        return {**self.outcome.summary(max_bytes - len(json.dumps(own))), **own}


class RunStore(Mapping[str, AttributedRun]):
    """The last `max_results` runs, by the id of the model's run and by that of its root.

    Ids may be given as text or not. A root's id names the last of its answers to a prompt with
    documents, unless `set_answer` chooses another.
    """

    def __init__(self, max_results: int = 128) -> None:
        if max_results < 1:
            raise InvalidInput(f"max_results={max_results!r}; use at least 1")
        self._max_results = max_results
        self._runs: OrderedDict[str, AttributedRun] = OrderedDict()
        self._roots: dict[str, str] = {}
        self._futures: dict[str, Future[AttributedRun]] = {}
        self._lock = threading.RLock()
        self.last: AttributedRun | None = None

    def __getitem__(self, run_id: object) -> AttributedRun:
        with self._lock:
            return self._runs[self._key(run_id)]

    def __iter__(self) -> Iterator[str]:
        with self._lock:
            return iter(tuple(self._runs))

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def num_pending(self) -> int:
        return len(self._futures)

    def add(self, run: AttributedRun) -> None:
        """Keep the run in place of what was known of it."""
        with self._lock:
            if run.run_id not in self._runs and not self._is_beside_the_answer(run):
                self._roots[run.root_id] = run.run_id
            self._runs[run.run_id] = run
            while len(self._runs) > self._max_results:
                forgotten, old = self._runs.popitem(last=False)
                if self._roots.get(old.root_id) == forgotten:
                    del self._roots[old.root_id]
            if run.outcome is not None:
                self.last = self._runs.get(self._roots.get(run.root_id, ""), run)

    def expect(self, run: AttributedRun, start: Callable[[], Future[AttributedRun]]) -> None:
        """Keep a pending run, and the future that `start` gives, which is done when the run is."""
        with self._lock:  # so that a run that ends at once is added after the pending one
            future = self._futures[run.run_id] = start()
            self.add(run)
        future.add_done_callback(lambda _: self._futures.pop(run.run_id, None))

    def future(self, run_id: object) -> Future[AttributedRun]:
        """The finished run of this id or with this root, as soon as it is finished.

        Raises InvalidInput for a run without attribution.
        """
        with self._lock:
            key = self._key(run_id)
            pending, run = self._futures.get(key), self._runs.get(key)
        if pending is not None:
            return pending
        if run is None:
            raise InvalidInput(
                f"no attribution of the run {run_id}: it retrieved nothing, its model was not "
                "called, or max_results others came after it"
            )
        if run.outcome is None:
            raise InvalidInput(
                f"the answer of the run {run_id} has not ended: read its stream to the end, or "
                "close it"
            )
        finished: Future[AttributedRun] = Future()
        finished.set_result(run)
        return finished

    def wait(self, run_id: object, timeout: float | None = None) -> AttributedRun:
        """The finished run of this id or with this root, waited for while it is pending.

        Raises TimeoutError after `timeout` seconds, InvalidInput for a run without attribution.
        """
        return self.future(run_id).result(timeout)

    async def wait_async(self, run_id: object, timeout: float | None = None) -> AttributedRun:
        """The same, without blocking the event loop."""
        future = asyncio.wrap_future(self.future(run_id))
        return await asyncio.wait_for(asyncio.shield(future), timeout)

    def set_answer(self, root_id: object, texts: Collection[str]) -> None:
        """Let the root's id name the last of its answers that is one of these texts, if any is."""
        wanted = {text.strip() for text in texts}
        with self._lock:
            runs = (run for run in reversed(self._runs.values()) if run.root_id == str(root_id))
            answer = next((run for run in runs if run.text.strip() in wanted), None)
            if answer is not None:
                self._roots[answer.root_id] = answer.run_id
                if self.last is not None and self.last.root_id == answer.root_id:
                    self.last = answer

    def outcome_of(self, run: AttributedRun) -> RunOutcome | None:
        """How the attribution of the same answer to the same documents within the root ended."""
        with self._lock:
            for other in reversed(self._runs.values()):
                attribution = other.attribution
                if attribution is None or other.root_id != run.root_id:
                    continue
                same_documents = list(other.documents) == list(run.documents)
                if same_documents and attribution.response.strip() == run.text.strip():
                    return other.outcome
        return None

    def _key(self, run_id: object) -> str:
        return self._roots.get(str(run_id), str(run_id))

    def _is_beside_the_answer(self, run: AttributedRun) -> bool:
        """Whether it read no documents, and another run of its root did."""
        known = self._runs.get(self._roots.get(run.root_id, ""))
        without = isinstance(run.error, DocumentsNotLocated)
        return without and known is not None and known.attribution is not None
