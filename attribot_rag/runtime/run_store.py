"""The last runs of an application, for answers that cannot carry their attributions."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace

from attribot_rag.context import Document
from attribot_rag.errors import DocumentsNotLocated, InvalidInput, UnknownRun
from attribot_rag.result.offsets import Offsets
from attribot_rag.runtime.attributed_run import AttributedRun

_LONGEST_WAIT = 1.0  # seconds until a run is looked at again, notified or not


class RunStore(Mapping[str, AttributedRun]):
    """The last `max_results` runs, by the ids of the model's run and of its root.

    Ids may be given as text or not; one that is not kept raises UnknownRun, a KeyError. A root's id
    names the last of its answers to a prompt with documents, unless `set_answer` chooses another.
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
        return len(self._futures)

    def add(self, run: AttributedRun) -> AttributedRun:
        """Keep the run in place of its earlier state; the displayed text stays."""
        with self._lock:
            before = self._runs.get(run.run_id)
            if before is not None and run.shown is None:
                run = replace(run, shown=before.shown)
            if before is None and not self._is_beside_the_answer(run):
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
        """Keep a pending run and the future of its attribution, made by `start`."""
        with self._lock:  # so that a run that ends at once is added after the pending one
            future = self._futures[run.run_id] = start()
            self.add(run)
        future.add_done_callback(lambda _: self._ended(run.run_id))

    def _ended(self, run_id: str) -> None:
        with self._lock:
            self._futures.pop(run_id, None)
            self._lock.notify_all()

    def future(self, run_id: object) -> Future[AttributedRun]:
        """The finished run of this id or with this root, as soon as it is finished.

        Cancelled before its turn, the run has the error AttributionCancelled. Raises UnknownRun for
        a run without attribution, InvalidInput for one whose stream was not read to its end.
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
        """Done when the run is; at once for one that does not wait for its attribution."""
        if run.is_pending:
            with suppress(InvalidInput):  # a stream that nobody has read to its end
                return self.future(run.run_id)
        return _done(run)

    def wait(self, run_id: object, timeout: float | None = None) -> AttributedRun:
        """The finished run of this id or with this root, waited for while it is pending.

        Raises TimeoutError after `timeout` seconds, InvalidInput for a run without attribution.
        """
        return self.latest(self.future(run_id).result(timeout))

    def follow(self, run_id: object) -> Iterator[AttributedRun]:
        """The pending run each time that a sentence of it was judged, then the finished run.

        Waits between them, and raises as `wait`. What is read slowly may miss some.
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
        """The same, without blocking the event loop."""
        future = asyncio.wrap_future(self.future(run_id))
        return self.latest(await asyncio.wait_for(asyncio.shield(future), timeout))

    def latest(self, run: AttributedRun) -> AttributedRun:
        """The latest state of the run."""
        return self._runs.get(run.run_id, run)

    def of_root(self, root_id: object) -> tuple[AttributedRun, ...]:
        """The runs within a root that are kept, in their order; empty if there are none."""
        with self._lock:
            return tuple(run for run in self._runs.values() if run.root_id == str(root_id))

    def by_key(
        self, texts: Mapping[str, str], branches: Mapping[str, Collection[str]]
    ) -> dict[str, AttributedRun]:
        """The run of each of these texts that is an answer, by its key.

        `branches` are the ids of the runs that may have given them. Left out are answers that
        others of these were made of, and those without their documents.
        """
        found: dict[str, AttributedRun] = {}
        for key, text in texts.items():
            runs = [self._runs[run_id] for run_id in self if run_id in branches[key]]
            free = [run for run in runs if run.text == text and run not in found.values()]
            if free and not isinstance(free[-1].error, DocumentsNotLocated):
                found[key] = free[-1]
        read = {Document.of(part).id for run in found.values() for part in run.answer.read}
        return {key: run for key, run in found.items() if run.run_id not in read}

    def set_answer(self, root_id: object, texts: Sequence[str]) -> AttributedRun | None:
        """Map the root's id to its last answer with one of these texts.

        Answers to prompts with documents come before others. `texts` are what the root gave its
        caller. If none is an answer, one of them may be made of an answer, the one that is most
        like it; else it stays the last answer, and no text was shown. The run is None for a root
        without answers.
        """
        with self._lock:
            runs = list(reversed(self.of_root(root_id)))
            runs.sort(key=lambda run: isinstance(run.error, DocumentsNotLocated))
            answer = next((run for run in runs if run.text in texts), None)
            if answer is None and runs:
                last = self._runs.get(self._key(root_id), runs[0])
                answer = self._made_of(runs, texts) or replace(last, shown="")
                self._runs[answer.run_id] = answer
            if answer is not None:
                self._names[answer.root_id] = answer.run_id
                if self.last is not None and self.last.root_id == answer.root_id:
                    self.last = answer
            return answer

    def name_answer(
        self, step_id: object, texts: Sequence[str], run_ids: Collection[str]
    ) -> AttributedRun | None:
        """Map a step's id to the last of these runs, of those with one of these texts if any."""
        with self._lock:
            runs = [self._runs[run_id] for run_id in self._runs if run_id in run_ids]
            answers = [run for run in runs if run.text in texts] or runs
            if not answers:
                return None
            self._names[str(step_id)] = answers[-1].run_id
            return answers[-1]

    @staticmethod
    def _made_of(runs: Sequence[AttributedRun], texts: Sequence[str]) -> AttributedRun | None:
        """The run with the answer most similar to one of the texts, and that text."""
        made = [(run, Offsets.between(run.text, text)) for run in runs for text in texts]
        alike = [(run, offsets) for run, offsets in made if offsets is not None]
        if not alike:
            return None
        run, offsets = max(alike, key=lambda pair: pair[1].similarity)
        return replace(run, shown=offsets.shown)

    def same_answer(self, run: AttributedRun) -> AttributedRun | None:
        """The attributed run within the root with the same answer and documents."""
        with self._lock:
            for other in reversed(self._runs.values()):
                attribution = other.attribution
                if attribution is None or other.is_pending or other.root_id != run.root_id:
                    continue
                same_documents = list(other.documents) == list(run.documents)
                if same_documents and attribution.response.strip() == run.text.strip():
                    return other
        return None

    def _key(self, run_id: object) -> str:
        return self._names.get(str(run_id), str(run_id))

    def _unknown(self, run_id: object) -> UnknownRun:
        return UnknownRun(
            f"no attribution of the run {run_id}: it retrieved nothing (what another run "
            "retrieved counts if it is named with the call), its model was not called or called "
            "tools instead of answering, "
            f"or others came after it, of which the last {self._max_results} are kept "
            "(max_results). Pass the id of the model's run, the `run_id` of its summary, or that "
            "of the root run (in LangChain, the config={'run_id': uuid4()} of the caller)"
        )

    def _is_beside_the_answer(self, run: AttributedRun) -> bool:
        """Whether it read no documents, and another run of its root did."""
        answer = self._runs.get(self._names.get(run.root_id, ""))
        without = isinstance(run.error, DocumentsNotLocated)
        return without and answer is not None and answer.attribution is not None


def _done(run: AttributedRun) -> Future[AttributedRun]:
    done: Future[AttributedRun] = Future()
    done.set_result(run)
    return done
