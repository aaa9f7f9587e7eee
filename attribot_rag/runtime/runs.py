"""Attributed answers, the last runs of an application, and summaries in its outputs."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import OrderedDict
from collections.abc import (
    Callable,
    Collection,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from attribot_rag.attribution import Attribution, Composition
from attribot_rag.attribution.composition import summarize_composition
from attribot_rag.cached_property import cached_property
from attribot_rag.context import Document
from attribot_rag.display.report import Markers
from attribot_rag.errors import DocumentsNotLocated, InvalidInput, UnknownRun, UnsupportedModel
from attribot_rag.recording import Answer
from attribot_rag.result.citations import Offsets, Shown
from attribot_rag.result.summary import MAX_SUMMARY_BYTES, summarize, without_attribution

if TYPE_CHECKING:
    from opentelemetry.trace import Span

_MIN_CALL_BYTES = 900  # of an earlier answer's summary
_EMPTY = "The answer is empty, so there is nothing to attribute."
_TEXT_LENGTHS = (400, 100, 30, 0)  # characters of a question and of an answer in a summary


@dataclass(frozen=True, eq=False, repr=False)
class AttributedRun:
    """One answer: the ids of the model's run and its root, and the attribution or the error.

    A run never has both an `attribution` and an `error`. If the answer is empty, both are None.
    While the run `is_pending`, it has no attribution yet, or one whose last sentences are not
    judged. `shown` is the text that the caller got if it differs from the answer, and '' if the
    caller got no text. `earlier` are the runs of the earlier answers that this one was made of, in
    the order in which they were made. The prompt had these answers as documents with their runs'
    ids.
    """

    run_id: str
    root_id: str
    answer: Answer
    attribution: Attribution | None = None
    error: BaseException | None = None
    is_pending: bool = False
    shown: str | None = None
    earlier: tuple[AttributedRun, ...] = ()

    def __repr__(self) -> str:
        state = "pending" if self.is_pending else type(self.error or self.attribution).__name__
        return f"AttributedRun({self.run_id!r}, {self.text[:60]!r}, {state})"

    @property
    def text(self) -> str:
        """The answer."""
        return self.answer.text

    @property
    def documents(self) -> Sequence[Any]:
        """The framework's own documents to which the answer was attributed."""
        return self.answer.documents

    @property
    def question(self) -> str | None:
        """The question, if the framework reports it."""
        return self.answer.question

    @property
    def span(self) -> Span | None:
        """The OpenTelemetry span of the model's call, or the one that was current then, or None."""
        return self.answer.span

    @property
    def composition(self) -> Composition | None:
        """The attribution with the attributions of earlier answers; None without an attribution."""
        if self.attribution is None:
            return None
        earlier = {
            run.run_id: run.attribution for run in self.all_earlier() if run.attribution is not None
        }
        retrieved = tuple(map(Document.of, self.answer.retrieved)) if self.earlier else ()
        return Composition(self.attribution, earlier, retrieved)

    def to_cited_text(
        self, *, remarks: bool = True, markers: Markers = "audited", sources: bool = False
    ) -> str:
        """The answer with the numbers of its citations, as by Attribution.to_cited_text.

        If the answer was made of earlier answers, it has the numbers of their citations. Raises the
        run's error if there is one.
        """
        if self.error is not None:
            raise self.error
        whole = self.composition if self.earlier else self.attribution
        if whole is None:
            return self.text
        return whole.to_cited_text(remarks=remarks, markers=markers, sources=sources)

    def all_earlier(self) -> tuple[AttributedRun, ...]:
        """The earlier runs, and their own earlier runs. Each run is listed once, after the runs
        whose answers it was made of."""
        runs: dict[str, AttributedRun] = {}
        for run in self.earlier:
            if run.run_id not in runs:
                runs.update((part.run_id, part) for part in run.all_earlier())
                runs[run.run_id] = run
        return tuple(runs.values())

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The data that is attached to the answer: plain, at most 16 KB, with its `status`."""
        return self.summary_of(MAX_SUMMARY_BYTES)

    def summary_of(self, max_bytes: int) -> dict[str, Any]:
        """The summary in at most `max_bytes` of JSON."""
        shared = 2 * max_bytes // 3 if self.earlier else 0
        kept = self.earlier[: shared // _MIN_CALL_BYTES]
        room = max_bytes - shared
        texts = self._texts(room // 4)
        own = self._own_summary(room - len(json.dumps(texts))) | texts
        own["omitted"]["calls"] = len(self.earlier) - len(kept)
        if not kept:
            return own
        listed = {run.run_id for run in self.earlier}
        calls = [run._without(listed).summary_of(shared // len(kept)) for run in kept]
        return {**own, "calls": calls}

    def _without(self, listed: set[str]) -> AttributedRun:
        """The run without the earlier runs that are listed already."""
        return replace(self, earlier=tuple(run for run in self.earlier if run.run_id not in listed))

    def _texts(self, max_bytes: int) -> dict[str, str | None]:
        for length in _TEXT_LENGTHS:
            question, answer = (self.question or "")[:length], self.text[:length]
            texts = {"question": question or None, "answer": answer or None}
            if len(json.dumps(texts)) <= max_bytes:
                break
        has_citations = self.error is None and self.attribution is not None
        whole = texts | {"cited_text": self.to_cited_text() if has_citations else None}
        return whole if len(json.dumps(whole)) <= max_bytes else texts

    def _own_summary(self, max_bytes: int) -> dict[str, Any]:
        bounds: dict[str, Any] = {"run_id": self.run_id, "max_bytes": max_bytes}
        composition = self.composition
        if composition is not None:
            offsets = None if self.shown is None else Offsets.between(self.text, self.shown)
            is_lost = self.shown is not None and offsets is None
            shown = Shown(self.answer.start, offsets, is_lost)
            if self.earlier:
                summary = summarize_composition(composition, shown=shown, **bounds)
            else:
                summary = summarize(composition.attribution, shown=shown, **bounds)
            return summary | ({"status": "pending"} if self.is_pending else {})
        if not (self.is_pending or self.error):
            return without_attribution("complete", notes=[_EMPTY], **bounds)
        length = len(self.text if self.shown is None else self.shown)
        if self.is_pending:
            return without_attribution("pending", error=self.error, length=length, **bounds)
        is_unsupported = isinstance(self.error, UnsupportedModel)
        status: Literal["error", "not_attributable"] = (
            "not_attributable" if is_unsupported else "error"
        )
        return without_attribution(status, error=self.error, length=length, **bounds)


_LONGEST_WAIT = 1.0  # seconds until a run is looked at again, notified or not


class RunStore(Mapping[str, AttributedRun]):
    """The last `max_results` runs, by the ids of the model's run and of its root.

    Ids may be text or other values. An unknown id raises UnknownRun, which is a KeyError. A root's
    id leads to the last answer in this root whose prompt contains documents, unless `set_answer`
    chooses another one.
    """

    def __init__(self, max_results: int = 128) -> None:
        if max_results < 1:
            raise InvalidInput(f"max_results={max_results!r}; use at least 1")
        self._max_results = max_results
        self._runs: OrderedDict[str, AttributedRun] = OrderedDict()
        self._names: dict[str, str] = {}
        self._futures: dict[str, Future[AttributedRun]] = {}
        self._lock = threading.Condition(threading.RLock())
        self.last: AttributedRun | None = None

    def __getitem__(self, run_id: object) -> AttributedRun:
        with self._lock:
            run = self._runs.get(self._key(run_id))
        if run is None:
            raise self._unknown(run_id)
        return run

    def __iter__(self) -> Iterator[str]:
        with self._lock:
            return iter(tuple(self._runs))

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def num_pending(self) -> int:
        with self._lock:
            return sum(not future.done() for future in self._futures.values())

    def add(self, run: AttributedRun) -> AttributedRun:
        """Keep the run in place of its earlier state. The text that was shown stays."""
        with self._lock:
            before = self._runs.get(run.run_id)
            if before is not None and run.shown is None:
                run = replace(run, shown=before.shown)
            answer = self._runs.get(self._names.get(run.root_id, ""))
            read_nothing = isinstance(run.error, DocumentsNotLocated)
            if before is None and not (read_nothing and answer and answer.attribution):
                self._names[run.root_id] = run.run_id
            self._runs[run.run_id] = run
            while len(self._runs) > self._max_results:
                forgotten, _ = self._runs.popitem(last=False)
                names = self._names.items()
                self._names = {name: run_id for name, run_id in names if run_id != forgotten}
            if not run.is_pending:
                self.last = self._runs.get(self._names.get(run.root_id, ""), run)
            self._lock.notify_all()
            return run

    def expect(self, run: AttributedRun, start: Callable[[], Future[AttributedRun]]) -> None:
        """Keep a pending run, and the future of its attribution, which `start` makes."""
        with self._lock:  # so that a run that ends at once is added after the pending one
            future = self._futures[run.run_id] = start()
            self.add(run)
        future.add_done_callback(lambda _: self._ended(run.run_id))

    def _ended(self, run_id: str) -> None:
        with self._lock:
            self._futures.pop(run_id, None)
            self._lock.notify_all()

    def future(self, run_id: object) -> Future[AttributedRun]:
        """The future of the finished run with this id or this root's id.

        If it is cancelled before its turn, the run has the error AttributionCancelled. Raises
        UnknownRun for a run without attribution, and InvalidInput if its stream was not read to the
        end.
        """
        with self._lock:
            key = self._key(run_id)
            pending, run = self._futures.get(key), self._runs.get(key)
        if pending is not None:
            return pending
        if run is None:
            raise self._unknown(run_id)
        if run.is_pending:
            raise InvalidInput(
                f"the answer of the run {run_id} has not ended: read its stream to the end, or "
                "close it"
            )
        return _done(run)

    def ended(self, run: AttributedRun) -> Future[AttributedRun]:
        """A future that is done when the run is finished."""
        if run.is_pending:
            with suppress(InvalidInput):  # a stream that nobody has read to its end
                return self.future(run.run_id)
        return _done(run)

    def wait(self, run_id: object, timeout: float | None = None) -> AttributedRun:
        """The finished run with this id or this root's id. Waits while it is pending.

        Raises TimeoutError after `timeout` seconds, and InvalidInput for a run without attribution.
        """
        return self.latest(self.future(run_id).result(timeout))

    def follow(self, run_id: object) -> Iterator[AttributedRun]:
        """Yield the pending run after each judged sentence, and at the end the finished run.

        With word comparison, only the finished run is yielded. This method waits in between, and
        raises the errors of `wait`. A slow caller may miss some states.
        """
        future = self.future(run_id)
        latest = None
        while not future.done():
            with self._lock:
                run = self._runs.get(self._key(run_id))
                if run is latest or run is None or run.attribution is None:
                    self._lock.wait(_LONGEST_WAIT)
                    continue
            latest = run
            if run.is_pending:
                yield run
        yield self.wait(run_id)

    async def wait_async(self, run_id: object, timeout: float | None = None) -> AttributedRun:
        """The finished run, as `wait` returns it, without blocking the event loop."""
        future = asyncio.wrap_future(self.future(run_id))
        return self.latest(await asyncio.wait_for(asyncio.shield(future), timeout))

    def latest(self, run: AttributedRun) -> AttributedRun:
        """The latest state of the run."""
        return self._runs.get(run.run_id, run)

    def of_root(self, root_id: object) -> tuple[AttributedRun, ...]:
        """The kept runs of a root, in their order; empty if there are none."""
        with self._lock:
            return tuple(run for run in self._runs.values() if run.root_id == str(root_id))

    def by_key(
        self, texts: Mapping[str, str], branches: Mapping[str, Collection[str]]
    ) -> dict[str, AttributedRun]:
        """For each key whose text is an answer, the run of that answer.

        `branches` has the ids of the runs that may have given it. An answer is left out if another
        of these answers was made of it, or if its prompt contains no documents.
        """
        found: dict[str, AttributedRun] = {}
        for key, text in texts.items():
            runs = [self._runs[run_id] for run_id in self if run_id in branches[key]]
            free = [run for run in runs if run.text == text and run not in found.values()]
            if free and not isinstance(free[-1].error, DocumentsNotLocated):
                found[key] = free[-1]
        read = {
            Document.of(part).id for run in found.values() for part in run.answer.prompt_documents
        }
        return {key: run for key, run in found.items() if run.run_id not in read}

    def set_answer(self, root_id: object, texts: Sequence[str]) -> AttributedRun | None:
        """Let the root's id lead to its last answer with one of these texts, and return this run.

        `texts` are what the root gave its caller. Answers to prompts with documents come first. If
        no text is an answer, it may be a changed answer: the most similar one is taken. If none is
        similar, the id still leads to the last answer, whose `shown` is then ''. Returns None for a
        root without answers.
        """
        with self._lock:
            runs = list(reversed(self.of_root(root_id)))
            runs.sort(key=lambda run: isinstance(run.error, DocumentsNotLocated))
            answer = next((run for run in runs if run.text in texts), None)
            if answer is None and runs:
                last = self._runs.get(self._key(root_id), runs[0])
                answer = self._most_similar(runs, texts) or replace(last, shown="")
                self._runs[answer.run_id] = answer
            if answer is not None:
                self._names[answer.root_id] = answer.run_id
                if self.last is not None and self.last.root_id == answer.root_id:
                    self.last = answer
            return answer

    def name_answer(
        self, step_id: object, texts: Sequence[str], run_ids: Collection[str]
    ) -> AttributedRun | None:
        """Let a step's id lead to the last of these runs, if possible to one with one of these
        texts."""
        with self._lock:
            runs = [self._runs[run_id] for run_id in self._runs if run_id in run_ids]
            answers = [run for run in runs if run.text in texts] or runs
            if not answers:
                return None
            self._names[str(step_id)] = answers[-1].run_id
            return answers[-1]

    @staticmethod
    def _most_similar(runs: Sequence[AttributedRun], texts: Sequence[str]) -> AttributedRun | None:
        """The run whose answer is most similar to one of the texts, with that text."""
        pairs = [(run, Offsets.between(run.text, text)) for run in runs for text in texts]
        alike = [(run, offsets) for run, offsets in pairs if offsets is not None]
        if not alike:
            return None
        run, offsets = max(alike, key=lambda pair: pair[1].similarity)
        return replace(run, shown=offsets.shown)

    def _key(self, run_id: object) -> str:
        return self._names.get(str(run_id), str(run_id))

    def _unknown(self, run_id: object) -> UnknownRun:
        return UnknownRun(
            f"no attribution of the run {run_id}: it retrieved nothing, its model was not "
            "called or called tools instead of answering, or it is older than the last "
            f"{self._max_results} runs (max_results). Documents of another run count only if you "
            "name them with the call. Pass the id of the model's run, the `run_id` of its summary, "
            "or the id of the root run (in LangChain, the caller's config={'run_id': uuid4()})"
        )


def _done(run: AttributedRun) -> Future[AttributedRun]:
    done: Future[AttributedRun] = Future()
    done.set_result(run)
    return done
