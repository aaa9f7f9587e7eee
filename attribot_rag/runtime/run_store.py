"""Attributions of runs, how each ended, and a store for callers whose answers cannot carry them."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from attribot_rag.attribution import Attribution, Composition
from attribot_rag.attribution.offsets import Offsets
from attribot_rag.attribution.summary import (
    MAX_SUMMARY_BYTES,
    Shown,
    summarize,
    summarize_composition,
    without_attribution,
)
from attribot_rag.errors import DocumentsNotLocated, InvalidInput, UnsupportedModel

if TYPE_CHECKING:
    from opentelemetry.trace import Span

_MIN_CALL_BYTES = 900  # of an earlier answer's summary
_EMPTY = "The answer is empty, so there is nothing to attribute."
_TEXT_LENGTHS = (400, 100, 30, 0)  # characters of a query and of an answer in a summary


@dataclass(frozen=True)
class RunOutcome:
    """An attribution, or the error that took its place; never both.

    It is neither for an answer that is empty, or nothing but earlier answers, end to end.

    `start` is where the attributed response begins in the text that the caller was given, which
    may hold the prompt too.
    """

    attribution: Attribution | None = None
    error: BaseException | None = None
    start: int = 0


@dataclass(frozen=True, eq=False)
class AttributedRun:
    """One answer: the model's run, the root run that it was a part of, and what came of it.

    `documents` are the framework's own that `text`, the answer, was attributed to; `outcome` is
    None while it is pending. `shown` is the text that something made of the answer and the caller
    was given, None if that is the answer itself, '' if it was given no text. `query` is what was
    asked, if the framework tells. `earlier` are the runs of answers that `text` was made of: they
    stood in its prompt, as documents with these runs' ids; or `text` is these answers end to end,
    each at its place [start, end) of `places`. `span` is the OpenTelemetry span of the model's
    call, or the one that was current, None without any.
    """

    run_id: str
    root_id: str
    documents: Sequence[Any]
    text: str = ""
    outcome: RunOutcome | None = None
    shown: str | None = None
    query: str | None = None
    earlier: tuple[AttributedRun, ...] = ()
    places: tuple[tuple[int, int], ...] = ()
    span: Span | None = None

    @property
    def attribution(self) -> Attribution | None:
        """The whole result.

        None while it is pending, if there is an `error`, with `places`, and of an empty answer.
        """
        return None if self.outcome is None else self.outcome.attribution

    @property
    def error(self) -> BaseException | None:
        return None if self.outcome is None else self.outcome.error

    @property
    def composition(self) -> Composition | None:
        """The attribution with those of the earlier answers; None without an attribution."""
        return None if self.attribution is None else self._composed(self.attribution, {})

    def compositions(self) -> list[tuple[int, Composition]]:
        """The composition, or those of its parts, with where each begins in the text.

        Documents have the same number in all of them. Raises the run's error if there is one.
        """
        if self.error is not None:
            raise self.error
        if self.attribution is not None:
            return [(0, self._composed(self.attribution, {}))]
        found: list[tuple[int, Composition]] = []
        numbers: Mapping[str, int] = {}
        for (start, _), run in zip(self.places, self.earlier, strict=False):
            if run.attribution is not None:
                composition = run._composed(run.attribution, numbers)
                numbers = composition.numbers
                found.append((start, composition))
        return found

    def to_cited_text(self, *, remarks: bool = True, markers: bool = True) -> str:
        """The answer with the numbers of what it cites; as Attribution.to_cited_text.

        Where it was made of earlier answers, the numbers are of what these cite. Raises the run's
        error if there is one.
        """
        found = self.compositions()
        if self.attribution is not None and not self.earlier:
            return self.attribution.to_cited_text(remarks=remarks, markers=markers)
        if self.attribution is not None:
            return found[0][1].to_cited_text(remarks=remarks, markers=markers)
        ends = dict(self.places)
        text, end = "", 0
        for start, composition in found:
            # They are joined without the white space around them.
            cited = composition.to_cited_text(remarks=remarks, markers=markers).strip()
            text, end = f"{text}{self.text[end:start]}{cited}", ends[start]
        return text + self.text[end:]

    def _composed(self, attribution: Attribution, numbers: Mapping[str, int]) -> Composition:
        earlier = {one.run_id: one.attribution for one in self._all_earlier()}
        known = {run_id: one for run_id, one in earlier.items() if one is not None}
        return Composition(attribution, known, numbers)

    def _all_earlier(self) -> Iterator[AttributedRun]:
        for run in self.earlier:
            yield from run._all_earlier()
            yield run

    @cached_property
    def summary(self) -> dict[str, Any]:
        """What is attached to the answer: plain data of at most 16 KB, with its `status`."""
        return self.summary_of(MAX_SUMMARY_BYTES)

    def summary_of(self, max_bytes: int) -> dict[str, Any]:
        """The same in fewer bytes of JSON."""
        shared = 2 * max_bytes // 3 if self.earlier else 0
        told = self.earlier[: shared // _MIN_CALL_BYTES]
        room = max_bytes - shared
        texts = self._texts(room // 4)
        own = self._own_summary(room - len(json.dumps(texts))) | texts
        own["omitted"]["calls"] = len(self.earlier) - len(told)
        if not told:
            return own
        calls = [run.summary_of(shared // len(told)) for run in told]
        if self.places and self.outcome is not None:
            whole = all(call["status"] == "complete" for call in calls)
            own["status"] = "complete" if whole else "partial"
        return {
            **own,
            "calls": calls,
            "places": [list(place) for place in self.places[: len(told)]],
        }

    def _texts(self, max_bytes: int) -> dict[str, str | None]:
        for length in _TEXT_LENGTHS:
            query, answer = (self.query or "")[:length], self.text[:length]
            texts = {"query": query or None, "answer": answer or None}
            if len(json.dumps(texts)) <= max_bytes:
                break
        return texts

    def _own_summary(self, max_bytes: int) -> dict[str, Any]:
        composition = self.composition
        if self.outcome is not None and composition is not None:
            offsets = None if self.shown is None else Offsets.between(self.text, self.shown)
            is_lost = self.shown is not None and offsets is None
            shown = Shown(self.outcome.start, offsets, is_lost)
            if self.earlier:
                return summarize_composition(
                    composition, shown=shown, run_id=self.run_id, max_bytes=max_bytes
                )
            return summarize(
                composition.attribution, shown=shown, run_id=self.run_id, max_bytes=max_bytes
            )
        empty = self.outcome is not None and self.error is None and not self.earlier
        if empty:
            return without_attribution(
                "complete", notes=[_EMPTY], run_id=self.run_id, max_bytes=max_bytes
            )
        failure: Literal["error", "unsupported"] = (
            "unsupported" if isinstance(self.error, UnsupportedModel) else "error"
        )
        return without_attribution(
            "pending" if self.outcome is None else failure,
            error=self.error,
            length=len(self.text if self.shown is None else self.shown),
            run_id=self.run_id,
            max_bytes=max_bytes,
        )


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

    def add(self, run: AttributedRun) -> AttributedRun:
        """Keep the run in place of what was known of it, but for the text that was shown."""
        with self._lock:
            known = self._runs.get(run.run_id)
            if known is not None and run.shown is None:
                run = replace(run, shown=known.shown)
            if run.run_id not in self._runs and not self._is_beside_the_answer(run):
                self._roots[run.root_id] = run.run_id
            self._runs[run.run_id] = run
            while len(self._runs) > self._max_results:
                forgotten, old = self._runs.popitem(last=False)
                if self._roots.get(old.root_id) == forgotten:
                    del self._roots[old.root_id]
            if run.outcome is not None:
                self.last = self._runs.get(self._roots.get(run.root_id, ""), run)
            return run

    def expect(self, run: AttributedRun, start: Callable[[], Future[AttributedRun]]) -> None:
        """Keep a pending run, and the future that `start` gives, which is done when the run is."""
        with self._lock:  # so that a run that ends at once is added after the pending one
            future = self._futures[run.run_id] = start()
            self.add(run)
        future.add_done_callback(lambda _: self._futures.pop(run.run_id, None))

    def future(self, run_id: object) -> Future[AttributedRun]:
        """The finished run of this id or with this root, as soon as it is finished.

        Cancelled before its turn, the run has the error AttributionCancelled. Raises InvalidInput
        for a run without attribution.
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
        return self._latest(self.future(run_id).result(timeout))

    async def wait_async(self, run_id: object, timeout: float | None = None) -> AttributedRun:
        """The same, without blocking the event loop."""
        future = asyncio.wrap_future(self.future(run_id))
        return self._latest(await asyncio.wait_for(asyncio.shield(future), timeout))

    def _latest(self, run: AttributedRun) -> AttributedRun:
        """The run with what has been told of its shown text since it finished."""
        return self._runs.get(run.run_id, run)

    def set_answer(self, root_id: object, texts: Sequence[str]) -> AttributedRun | None:
        """Let the root's id name the last of its answers that is one of these texts.

        Answers to prompts with documents come before others. `texts` are what the root gave its
        caller. If none is an answer, one of them may be made of an answer, the one that is most
        like it; else it stays the last answer, and no text was shown. The run is None for a root
        without answers.
        """
        with self._lock:
            runs = [run for run in reversed(self._runs.values()) if run.root_id == str(root_id)]
            runs.sort(key=lambda run: isinstance(run.error, DocumentsNotLocated))
            answer = next((run for run in runs if run.text in texts), None)
            if answer is None and runs:
                last = self._runs.get(self._key(root_id), runs[0])
                answer = self._made_of(runs, texts) or replace(last, shown="")
                self._runs[answer.run_id] = answer
            if answer is not None:
                self._roots[answer.root_id] = answer.run_id
                if self.last is not None and self.last.root_id == answer.root_id:
                    self.last = answer
            return answer

    @staticmethod
    def _made_of(runs: Sequence[AttributedRun], texts: Sequence[str]) -> AttributedRun | None:
        """The run whose answer is most like a text, with that text; the first of several."""
        made = [(run, Offsets.between(run.text, text)) for run in runs for text in texts]
        alike = [(run, offsets) for run, offsets in made if offsets is not None]
        if not alike:
            return None
        run, offsets = max(alike, key=lambda one: one[1].similarity)
        return replace(run, shown=offsets.shown)

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
