"""Answers of several calls of a model, or whose text is not that of their call."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

from llama_index.postprocessor.attribot.tracked_query import ModelCall, TrackedQuery

from attribot_rag.errors import UnsupportedModel
from attribot_rag.runtime import MAX_SUMMARY_BYTES, AttributedRun, RunOutcome, RunStore

_MAX_CALLS = 12

Attribute = Callable[[ModelCall, str, str, Callable[[AttributedRun], None]], None]


class MultiCallAnswer:
    """Each call is attributed to the nodes in its own prompt.

    Where the response is their answers put end to end (accumulate), so are the attributions. Where
    later calls built on earlier ones (refine, a tree), no call's scores are the whole answer's,
    which is said. The whole has a run of its own, which ends when the last call's has.
    """

    def __init__(
        self, calls: list[ModelCall], text: str, query: TrackedQuery, store: RunStore
    ) -> None:
        self._calls = calls
        self._text = text
        self._query = query
        self._store = store
        self._places = _places([str(call.answer) for call in calls], text)
        self._known: dict[int, AttributedRun] = {}
        self._ended: Future[AttributedRun] = Future()
        self._awaited = False
        self._telling = threading.Lock()

    def attribute(self, attribute: Attribute) -> None:
        for index, call in enumerate(self._calls):
            run_id = f"{self._query.run_id}/{index + 1}"
            attribute(call, run_id, str(call.answer), partial(self._add, index))
        self._store.expect(self._run(None), lambda: self._ended)
        with self._telling:
            self._awaited = True
            self._tell()

    def unsupported(self) -> UnsupportedModel:
        """Why there is no attribution of the whole."""
        if len(self._calls) == 1:
            return UnsupportedModel(
                "the response is made from the model's answer and is not its text, so that no "
                "score is the response's"
            )
        return UnsupportedModel(
            f"the answer took {len(self._calls)} calls that build on each other, so that no "
            "call's scores are those of the whole answer; see each under 'calls', or use the "
            "response mode 'compact'"
        )

    def _run(self, outcome: RunOutcome | None) -> AttributedRun:
        run_id = self._query.run_id
        return AttributedRun(run_id, run_id, self._query.nodes, self._text, outcome)

    def _add(self, index: int, run: AttributedRun) -> None:
        with self._telling:
            self._known[index] = run
            self._tell()

    def _tell(self) -> None:
        if not self._awaited or self._ended.done():
            return
        self._query.attach(self._merged())
        if all(run.outcome is not None for run in self._known.values()):
            run = self._run(RunOutcome(error=self._reason()))
            self._store.add(run)
            self._ended.set_result(run)
            self._query.done()

    def _reason(self) -> UnsupportedModel:
        if self._places is None:
            return self.unsupported()
        first = f"{self._query.run_id}/1"
        return UnsupportedModel(
            f"the response is {len(self._calls)} answers, each with an attribution of its own: "
            f"results[{first!r}] and so on, as 'calls' of the metadata names them"
        )

    def _merged(self) -> dict[str, Any]:
        told = range(min(len(self._calls), _MAX_CALLS))
        max_bytes = MAX_SUMMARY_BYTES // (len(told) + 1)
        summaries = [self._known[index].summary_of(max_bytes) for index in told]
        outcome = RunOutcome(error=self.unsupported()) if self._places is None else None
        whole = self._run(outcome).summary_of(max_bytes)
        return {
            **whole,
            "status": whole["status"] if self._places is None else self._status(),
            "calls": summaries,
            "places": (self._places or [])[: len(summaries)],
            "omitted": {**whole["omitted"], "calls": len(self._calls) - len(summaries)},
        }

    def _status(self) -> str:
        """The least that is true of each call; one without attribution makes it partial."""
        found = {run.summary["status"] for run in self._known.values()}
        if "pending" in found:
            return "pending"
        return "complete" if found == {"complete"} else "partial"


def _places(answers: list[str], text: str) -> list[list[int]] | None:
    """Where each answer stands in the text, one after the other; None if they do not."""
    places, end = [], 0
    for answer in answers:
        start = text.find(answer.strip(), end)
        if start < 0:
            return None
        end = start + len(answer.strip())
        places.append([start, end])
    return places
