"""Attributes records: one by one, in threads for a server, or in processes."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import (
    FIRST_COMPLETED,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cache, partial
from itertools import islice
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as ready
from typing import Any, NamedTuple

import torch

from attribot_batch.records import Given, Record
from attribot_rag import Attribution, AttributionError, Attributor, Budget, __version__
from attribot_rag.errors import InvalidInput, Rejected, ServerFailed
from attribot_rag.result import summarize


class Outcome(NamedTuple):
    """A line of the results or the rejects, for the record with this number."""

    number: int
    rejected: bool
    content: Mapping[str, Any]

    @classmethod
    def of(cls, attributor: Attributor, number: int, given: Given) -> Outcome:
        """Attribute a record, or give the reason for its refusal.

        Raises ServerFailed if the server fails for good, because that is not the record's fault.
        """
        name: object = None
        try:
            content = given.parsed()
            name = content.get("id") if isinstance(content, Mapping) else None
            record = Record.of(content)
            chats = bool(attributor.language_model.tokenizer.chat_template)
            attribution = attributor.attribute(
                record.read_prompt(chats=chats),
                record.response,
                record.read_documents(),
                answered_by=record.answered_by,
            )
        except AttributionError as error:
            if isinstance(error, ServerFailed) and not isinstance(error, Rejected):
                raise
            reason = {"type": type(error).__name__, "message": str(error)[:1000]}
            return cls(number, True, {"id": _plain(name), "error": reason})
        return cls(number, False, {"id": _plain(name), **_result(attribution, record.asked)})


def _result(attribution: Attribution, question: str | None) -> dict[str, Any]:
    totals: dict[str, float] = {}
    for source in attribution.sources:
        score = attribution.score(source.id)
        for document in source.documents:
            totals[str(document)] = totals.get(str(document), 0.0) + (score or 0.0)
    return {
        "response": attribution.response,
        "summary": {
            **summarize(attribution),
            "question": question,
            "answer": attribution.response,
            "cited_text": attribution.to_cited_text(),
        },
        "document_scores": {document: round(total, 4) for document, total in totals.items()},
    }


def _plain(name: object) -> str | int | None:
    return name if isinstance(name, str | int) else None


MakeAttributor = Callable[[], Attributor]
Values = Iterator[tuple[int, Given]]


class WorkerLost(AttributionError):
    """A process of a batch ended before its work was done."""


class Workers(NamedTuple):
    """The settings that change results, and the outcomes of values as they are finished."""

    setting: dict[str, Any]
    outcomes: Callable[[Values], Iterator[Outcome]]


@contextmanager
def workers_of(attributor: Attributor | MakeAttributor, count: int) -> Iterator[Workers]:
    """One worker, or several processes, each with its own attributor.

    A single worker attributes as many answers of a served model at a time as the server takes. Only
    a few values are read ahead. Raises InvalidInput for several processes without a function that
    they can import and call, and WorkerLost if one of them ends.
    """
    if count < 1:
        raise InvalidInput(f"workers={count}; use 1 or more")
    if count > 1:
        with _processes(attributor, count) as workers:
            yield workers
        return
    worker = attributor if isinstance(attributor, Attributor) else attributor()
    task = partial(Outcome.of, worker)
    setting = _setting(worker)
    concurrency = worker.language_model.weights.concurrency
    if concurrency == 1:
        yield Workers(setting, lambda values: (task(*value) for value in values))
        return
    executor = ThreadPoolExecutor(concurrency)
    try:
        yield Workers(setting, lambda values: _as_finished(executor, task, values, 2 * concurrency))
    except BaseException:
        executor.shutdown(wait=False, cancel_futures=True)  # Ctrl-C must not wait for a server
        raise
    executor.shutdown()


@contextmanager
def _processes(attributor: Attributor | MakeAttributor, count: int) -> Iterator[Workers]:
    if isinstance(attributor, Attributor):
        raise InvalidInput(f"workers={count} make their own attributors; pass a function for that")
    context = get_context("spawn")
    stopped, stop = context.Pipe(duplex=False)
    begin = (attributor, max(1, torch.get_num_threads() // count), stopped, stop)
    executor = ProcessPoolExecutor(count, context, _begin, begin)
    try:
        setting = executor.submit(_worker_setting).result()
        yield Workers(
            setting, lambda values: _as_finished(executor, _worker_outcome, values, 2 * count)
        )
    except BaseException as error:
        stop.close()  # ends the processes, whatever they are doing
        if not isinstance(error, BrokenProcessPool):
            raise
        raise WorkerLost(
            "a process that attributes answers has ended, perhaps for lack of memory; what was "
            "finished is written, and the same call continues from there, if necessary with fewer "
            "workers"
        ) from error
    finally:
        executor.shutdown(cancel_futures=True)


def _as_finished(
    executor: Executor, task: Callable[[int, Given], Outcome], values: Values, ahead: int
) -> Iterator[Outcome]:
    """The outcomes of values, each as soon as it is finished. `ahead` values are read ahead.

    After an error, nothing else begins. It is raised when everything that has begun has ended.
    """
    running = set[Future[Outcome]]()
    failure: BaseException | None = None
    while True:
        try:
            for value in islice(values, 0 if failure else ahead - len(running)):
                running.add(executor.submit(task, *value))
        except Exception as error:
            failure = error
        running -= {future for future in running if failure and future.cancel()}
        if not running:
            break
        finished, running = wait(running, return_when=FIRST_COMPLETED)
        for future in finished:
            failure = failure or future.exception()
            if future.exception() is None:
                yield future.result()
    if failure is not None:
        raise failure


def _setting(attributor: Attributor) -> dict[str, Any]:
    """The options of an attributor that change its results, to compare."""
    options = attributor.options
    budget = options.budget or Budget()
    return {
        "version": __version__,
        "model": attributor.language_model.name,
        "basis": "reader" if attributor.is_reader else "cause",
        "method": attributor.method.name,
        "keep": options.keep,
        "seconds": budget.seconds,
        "tokens": budget.tokens,
        "numbering": options.numbering,
        **{name: _told(getattr(options, name)) for name in ("annotator", "verdicts", "context")},
    }


def _told(value: object) -> str | None:
    """The options of an object, without its address."""
    return None if value is None else re.sub(" at 0x[0-9a-fA-F]+", "", repr(value))


_make: MakeAttributor


def _begin(make: MakeAttributor, num_threads: int, stopped: Connection, stop: Connection) -> None:
    """Begin a process. It ignores Ctrl-C, and ends with its parent or when that closes `stop`."""
    global _make
    _make = make
    stop.close()
    torch.set_num_threads(num_threads)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, args=[stopped], daemon=True).start()


def _end_with_parent(stopped: Connection) -> None:
    parent = parent_process()
    if parent is not None:
        ready([parent.sentinel, stopped])
        os._exit(1)


@cache
def _worker_attributor() -> Attributor:
    """This process's attributor. The first task makes it, so its caller gets the errors."""
    return _make()


def _worker_setting() -> dict[str, Any]:
    return _setting(_worker_attributor())


def _worker_outcome(number: int, given: Given) -> Outcome:
    return Outcome.of(_worker_attributor(), number, given)
