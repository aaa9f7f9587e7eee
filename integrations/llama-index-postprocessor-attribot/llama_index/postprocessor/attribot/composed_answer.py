"""The attribution of a response that calls of a model gave, perhaps of earlier answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as futures_wait
from dataclasses import dataclass, replace

from llama_index.postprocessor.attribot.tracked_query import ModelCall, TrackedQuery

from attribot_rag.runtime import AttributedRun, RunStore

Attribute = Callable[[ModelCall, str, Sequence[AttributedRun]], AttributedRun]


@dataclass(eq=False)
class ComposedAnswer:
    """Attributes each call to what stands in its own prompt: nodes, and the answers before it.

    So a response is the last call's answer, attributed to nodes and to the answers that it was made
    of, which have attributions of their own; `earlier` are those of other engines. Where it is the
    calls' answers end to end (accumulate), so are the attributions. `attach` is told what is known
    of the whole, and again when that is all.
    """

    _query: TrackedQuery
    _calls: Sequence[ModelCall]
    _earlier: Sequence[TrackedQuery]
    _text: str
    _store: RunStore
    _attach: Callable[[AttributedRun], None]

    def __post_init__(self) -> None:
        answers = [str(call.answer).strip() for call in self._calls]
        self._places = _places(answers, self._text)
        if len(answers) == 1 or self._places is None:
            self._places = None
            if self._text.strip() in answers:
                self._calls = self._calls[: answers.index(self._text.strip()) + 1]
        self._runs: list[AttributedRun] = []
        self._lock = threading.Lock()
        self._ended: Future[AttributedRun] = Future()

    def attribute(self, attribute: Attribute, *, wait: bool) -> None:
        """Attribute the calls in their order, each under an id of its own.

        The whole ends when the last of all answers has; with `wait`, here.
        """
        runs = [self._store.get(part.run_id, part.run) for part in self._earlier]
        self._runs = [run for run in runs if run is not None]
        for index, call in enumerate(self._calls):
            call_id = f"{self._query.run_id}/{index + 1}"
            self._runs.append(attribute(call, call_id, () if self._places else tuple(self._runs)))
        futures = list(map(self._store.ended, self._runs))
        pending = [future for future in futures if not future.done()]
        if wait:
            futures_wait(pending)
        if wait or not pending:
            self._end(futures)
            return
        self._num_pending = len(pending)
        self._store.expect(self._run(is_pending=True), lambda: self._ended)
        self._attach(self._run(is_pending=True))
        for future in pending:
            future.add_done_callback(lambda _: self._known(futures))

    def _known(self, futures: Sequence[Future[AttributedRun]]) -> None:
        with self._lock:
            self._num_pending -= 1
            ended = not self._num_pending
        if ended:
            self._end(futures)

    def _end(self, futures: Sequence[Future[AttributedRun]]) -> None:
        self._runs = [
            self._store.latest(run if future.cancelled() else future.result())
            for run, future in zip(self._runs, futures, strict=True)
        ]
        run = self._store.add(self._run())
        self._attach(run)
        self._ended.set_result(run)

    def _run(self, *, is_pending: bool = False) -> AttributedRun:
        """The whole: what the last call's answer is made of, and how that was attributed."""
        query, (*before, last) = self._query, self._runs
        run = query.run_of(self._text, is_pending=is_pending)
        run = replace(run, answer=replace(run.answer, span=last.answer.span))
        if self._places is not None:
            return replace(run, earlier=(*before, last), places=tuple(self._places))
        shown = None
        start = last.answer.start
        if last.text.strip() != self._text.strip():
            start = self._text.find(last.text.strip())
            if start < 0 or is_pending:
                start, shown = last.answer.start, self._text
            else:
                start = max(0, start - len(last.text) + len(last.text.lstrip()))
        return replace(
            run,
            answer=replace(run.answer, text=last.text, start=start),
            attribution=last.attribution,
            error=last.error,
            shown=shown,
            earlier=tuple(_used(before, last)),
        )


def _used(before: Sequence[AttributedRun], last: AttributedRun) -> list[AttributedRun]:
    """The answers that stood in a later prompt; all of them where the last was not attributed."""
    if last.attribution is None:
        return [] if last.is_pending else list(before)
    attributions = [part.attribution for part in (*before, last) if part.attribution is not None]
    used = {document.id for attribution in attributions for document in attribution.documents}
    return [part for part in before if part.run_id in used]


def _places(answers: list[str], text: str) -> list[tuple[int, int]] | None:
    """The place of each answer in the text, one after the other; None if they do not."""
    places, end = [], 0
    for answer in answers:
        start = text.find(answer, end)
        if start < 0:
            return None
        end = start + len(answer)
        places.append((start, end))
    return places
