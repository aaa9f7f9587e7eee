"""Attributes logged answers by the actors of a Ray cluster, with Ray Data."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from attribot_batch.records import MAX_BYTES, Given
from attribot_batch.tables import outcome_table
from attribot_batch.workers import MakeAttributor, workers_of
from attribot_rag import Attributor
from attribot_rag.errors import InvalidInput, MissingExtra

MissingExtra.check(
    "attribute_dataset", "ray", "ray", "pyarrow", folder="integrations/attribot-batch"
)

import pyarrow  # noqa: E402
import ray  # noqa: E402
from ray.data import ActorPoolStrategy, Dataset  # noqa: E402

logger = logging.getLogger(__name__)


def attribute_dataset(
    dataset: Dataset,
    make_attributor: MakeAttributor,
    *,
    concurrency: int | tuple[int, int] = 1,
    num_cpus: float = 1,
    num_gpus: float = 0,
    batch_size: int = 16,
    max_bytes: int = MAX_BYTES,
) -> Dataset:
    """The outcome of each record, as rows of `attribot_batch.tables.outcome_schema`.

    A row is a record, with its fields as columns, or a line of JSON in the column `text`, as from
    `ray.data.read_text`. A `number` is copied to the outcome, or is null there. A row that is no
    record, or cannot be attributed, has an `error`. Outcomes come in any order.

    If an actor ends, it is started again, and its batch is attributed again. Nothing runs before
    the outcomes are read. Errors of an attributor, such as ServerFailed, are then Ray's
    RayTaskError. Raises InvalidInput for an attributor instead of a function that makes one, and
    for no actors.

    Args:
        dataset: The records.
        make_attributor: Called once by each actor, which keeps the attributor. With a served model,
            it attributes `ServerOptions.concurrency` answers at a time.
        concurrency: The number of actors, or the least and the most.
        num_cpus: CPUs that Ray reserves for an actor, perhaps a fraction. PyTorch gets as many
            threads. Reading also needs a CPU.
        num_gpus: GPUs that Ray reserves for an actor, perhaps a fraction.
        batch_size: How many records an actor gets at a time.
        max_bytes: A record with more bytes has an error, and is not tokenized.
    """
    if isinstance(make_attributor, Attributor):
        raise InvalidInput("actors make their own attributors; pass a function for that")
    least, most = (concurrency,) * 2 if isinstance(concurrency, int) else concurrency
    if not 1 <= least <= most:
        raise InvalidInput(f"concurrency={concurrency!r}; use 1 or more, or (least, most)")
    free = ray.cluster_resources().get("CPU", 0.0) - least * num_cpus
    if free < 1:
        logger.warning(
            "%s actors leave %g CPUs for reading, which needs 1: nothing is attributed until a "
            "machine joins; use fewer actors or a smaller num_cpus",
            *(least, max(free, 0.0)),
        )
    # An actor gets one block at a time. A file may be a single block with all records.
    return dataset.repartition(target_num_rows_per_block=batch_size).map_batches(
        AttributeBatch,
        fn_constructor_args=(make_attributor, max_bytes),
        batch_format="pyarrow",
        batch_size=batch_size,
        compute=ActorPoolStrategy(min_size=least, max_size=most),
        num_cpus=num_cpus,
        num_gpus=num_gpus,
    )


class AttributeBatch:
    """Attributes one batch: a callable class for `Dataset.map_batches` with other options.

    It takes and returns Arrow tables (`batch_format="pyarrow"`), row by row in the same order.
    """

    def __init__(self, make_attributor: MakeAttributor, max_bytes: int = MAX_BYTES) -> None:
        self._attributor = make_attributor()
        self._max_bytes = max_bytes

    def __call__(self, batch: pyarrow.Table) -> pyarrow.Table:
        rows = batch.to_pylist()
        with workers_of(self._attributor, 1) as workers:
            records = (_record(row, self._max_bytes) for row in rows)
            outcomes = sorted(workers.outcomes(enumerate(records)))
        return outcome_table(
            {"number": _number(row), **outcome.content}
            for row, outcome in zip(rows, outcomes, strict=True)
        )


def _record(row: Mapping[str, Any], max_bytes: int) -> Given:
    text = row.get("text")
    if isinstance(text, str) and row.get("documents") is None:
        line = text.encode("utf-8", "surrogatepass")
        return Given.bounded(line, len(line), max_bytes)
    value = {name: value for name, value in row.items() if value is not None}
    return Given.bounded(value, sum(map(len, map(repr, value.values()))), max_bytes)


def _number(row: Mapping[str, Any]) -> int | None:
    number = row.get("number")
    return number if isinstance(number, int) else None
