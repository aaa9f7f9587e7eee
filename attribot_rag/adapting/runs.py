"""Attributions of runs, for the callers whose answers cannot carry them."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from attribot_rag.adapting.outcome import MAX_SUMMARY_BYTES, Outcome
from attribot_rag.attribution import Attribution
from attribot_rag.errors import DocumentsNotLocated, InvalidInput


@dataclass(frozen=True, eq=False)
class AttributedRun:
    """One answer: the model's run, the root run that it was a part of, and what came of it.

    `documents` are the framework's own that `text`, the answer, was attributed to; `outcome` is
    None while it is under way.
    """

    run_id: str
    root_id: str
    documents: Sequence[Any]
    text: str = ""
    outcome: Outcome | None = None

    @property
    def attribution(self) -> Attribution | None:
        """The whole result, None while it is under way and if there is an `error`."""
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


class Results(Mapping[str, AttributedRun]):
    """The last runs, by the id of the model's run and by that of its root, as text or not.

    A root stands for the last of its answers to a prompt with documents, unless it `stands_for`
    another one. The oldest runs are forgotten.
    """

    def __init__(self, max_results: int) -> None:
        self._max_results = max_results
        self._runs: OrderedDict[str, AttributedRun] = OrderedDict()
        self._roots: dict[str, str] = {}
        self._futures: dict[str, Future[AttributedRun]] = {}
        self._lock = threading.Lock()
        self.last: AttributedRun | None = None

    def __getitem__(self, run_id: object) -> AttributedRun:
        return self._runs[self._roots.get(str(run_id), str(run_id))]

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._runs))

    def __len__(self) -> int:
        return len(self._runs)

    def add(self, run: AttributedRun) -> None:
        """Keep it in place of what was known of the run."""
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

    def _is_beside_the_answer(self, run: AttributedRun) -> bool:
        """Whether it read no documents, and another run of its root did."""
        known = self._runs.get(self._roots.get(run.root_id, ""))
        without = isinstance(run.error, DocumentsNotLocated)
        return without and known is not None and known.attribution is not None

    def stands_for(self, root_id: object, texts: Collection[str]) -> None:
        """Let a root stand for the last of its answers that is one of these texts, if any is."""
        wanted = {text.strip() for text in texts}
        for run in reversed(tuple(self._runs.values())):
            if run.root_id == str(root_id) and run.text.strip() in wanted:
                self._roots[run.root_id] = run.run_id
                if self.last is not None and self.last.root_id == run.root_id:
                    self.last = run
                return

    def expect(self, run: AttributedRun, future: Future[AttributedRun]) -> None:
        """Let callers wait for what is under way."""
        with self._lock:
            self._futures[run.run_id] = future
        self.add(run)
        future.add_done_callback(lambda _: self._futures.pop(run.run_id, None))

    def under_way(self, run_id: object) -> Future[AttributedRun] | None:
        return self._futures.get(self._roots.get(str(run_id), str(run_id)))

    @property
    def num_under_way(self) -> int:
        return len(self._futures)

    def wait(self, run_id: object, timeout: float | None = None) -> AttributedRun:
        """The finished run of this id or with this root, waited for while it is under way.

        Raises TimeoutError after `timeout` seconds, InvalidInput for a run without attribution.
        """
        future = self.under_way(run_id)
        return self._finished(run_id) if future is None else future.result(timeout)

    async def await_(self, run_id: object, timeout: float | None = None) -> AttributedRun:
        """The same, without blocking the event loop."""
        future = self.under_way(run_id)
        if future is None:
            return self._finished(run_id)
        return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(future)), timeout)

    def _finished(self, run_id: object) -> AttributedRun:
        try:
            run = self[run_id]
            if run.outcome is None:
                raise InvalidInput(
                    f"the answer of the run {run_id} has not ended: read its stream to the end, or "
                    "close it"
                )
            return run
        except KeyError:
            raise InvalidInput(
                f"no attribution of the run {run_id}: it retrieved nothing, its model was not "
                "called, or max_results others came after it"
            ) from None

    def known(self, root_id: str, answer: str, documents: Sequence[Any]) -> Outcome | None:
        """What came of this answer from these documents within the same root, if anything."""
        for run in reversed(tuple(self._runs.values())):
            found = run.attribution
            if found is None or run.root_id != root_id or list(run.documents) != list(documents):
                continue
            if found.response.strip() == answer.strip():
                return run.outcome
        return None
