"""Workers for the attribution of records: a thread, threads for a server, or processes."""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cache, partial
from multiprocessing import get_context, parent_process
from typing import NamedTuple

import torch

from attribot_batch.outcome import Outcome
from attribot_rag import Attributor
from attribot_rag.errors import AttributionError, InvalidInput

MakeAttributor = Callable[[], Attributor]
Values = Iterator[tuple[int, object]]


class WorkerLost(AttributionError):
    """A process of a batch that ended before its work was done."""


class Workers(NamedTuple):
    """The setting that identifies their results, and the outcomes of values, in order."""

    setting: dict[str, str]
    outcomes: Callable[[Values], Iterator[Outcome]]


@contextmanager
def workers_of(attributor: Attributor | MakeAttributor, count: int) -> Iterator[Workers]:
    """One worker, or as many processes, each with its own attributor.

    A single worker attributes as many answers of a served model at a time as its server takes.
    Only a few values are read ahead. Raises InvalidInput for processes without a function, which
    they can import and call, WorkerLost if one of them ends.
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
    with _shut_down(ThreadPoolExecutor(concurrency)) as executor:
        yield Workers(setting, lambda values: _in_order(executor, task, values, 2 * concurrency))


@contextmanager
def _processes(attributor: Attributor | MakeAttributor, count: int) -> Iterator[Workers]:
    if isinstance(attributor, Attributor):
        raise InvalidInput(f"workers={count} make their own attributors; pass a function for that")
    num_threads = max(1, torch.get_num_threads() // count)
    pool = ProcessPoolExecutor(count, get_context("spawn"), _begin, (attributor, num_threads))
    try:
        with _shut_down(pool) as executor:
            setting = executor.submit(_worker_setting).result()
            yield Workers(
                setting, lambda values: _in_order(executor, _worker_outcome, values, 2 * count)
            )
    except BrokenProcessPool as error:
        raise WorkerLost(
            "a process that attributes answers has ended, perhaps for lack of memory; the same "
            "call continues from there, if necessary with fewer workers"
        ) from error


@contextmanager
def _shut_down(executor: Executor) -> Iterator[Executor]:
    try:
        yield executor
    finally:
        executor.shutdown(cancel_futures=True)


def _in_order(
    executor: Executor, task: Callable[[int, object], Outcome], values: Values, ahead: int
) -> Iterator[Outcome]:
    pending: deque[Future[Outcome]] = deque()
    for number, value in values:
        pending.append(executor.submit(task, number, value))
        if len(pending) >= ahead:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()


def _setting(attributor: Attributor) -> dict[str, str]:
    setting = {"model": attributor.language_model.name, "method": attributor.method.name}
    return {**setting, "basis": "reader"} if attributor.is_reader else setting


_make: MakeAttributor


def _begin(make: MakeAttributor, num_threads: int) -> None:
    """Begin a process: it ignores Ctrl-C, and ends with its parent."""
    global _make
    _make = make
    torch.set_num_threads(num_threads)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@cache
def _worker_attributor() -> Attributor:
    """This process's attributor, made by the first task, whose caller gets the errors."""
    return _make()


def _worker_setting() -> dict[str, str]:
    return _setting(_worker_attributor())


def _worker_outcome(number: int, value: object) -> Outcome:
    return Outcome.of(_worker_attributor(), number, value)
