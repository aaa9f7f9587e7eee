"""Attributes the records of a file into a folder."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from attribot_batch.folder import BatchFolder, lines
from attribot_batch.records import MAX_BYTES, Given, Log
from attribot_batch.report import Statistics, render_report, worklist, write_pages
from attribot_batch.workers import MakeAttributor, workers_of
from attribot_rag import Attributor
from attribot_rag.errors import MissingExtra


def run_batch(
    attributor: Attributor | MakeAttributor,
    source: Path,
    folder: Path,
    *,
    workers: int = 1,
    max_bytes: int = MAX_BYTES,
    fields: Mapping[str, str] | None = None,
    anyway: bool = False,
    report: bool = False,
    parquet: bool = False,
    shown: bool = False,
) -> Statistics:
    """Attribute the file's records that are not in the folder yet, and count over all records.

    Each record becomes one line of `results.jsonl` (a summary) or `rejects.jsonl` (the reason) as
    soon as it is finished. At the end, these are sorted in the order of the input, and
    `statistics.json` is written. If the last line is incomplete, the next call attributes it.
    Memory grows by 8 bytes for each record. Several answers of a served model are attributed at a
    time.

    Raises InvalidInput for files that cannot be used, and for a folder that another batch uses or
    that has results of other settings or records. Raises MissingExtra for Parquet without pyarrow,
    ServerFailed if the server fails for good, and WorkerLost if a process ends. The same call
    continues from there.

    Args:
        attributor: The attributor. With several `workers`, a function that every worker imports and
            calls to make its own; the calling script then needs `if __name__ == "__main__"`.
        source: A JSON lines or Parquet file of records.
        folder: The folder for the results.
        workers: The number of processes, which share the cores.
        max_bytes: A record with more bytes is rejected before it is tokenized.
        fields: Where the fields of a record are, if the file has other names: {"documents":
            "retrieved_contexts", "response": "outputs.answer"}.
        anyway: Whether to go on in a folder that has results of other settings, or of records that
            were changed since.
        report: Whether to write a page, `report.html`, and in `answers` a page for each answer to
            review.
        parquet: Whether to write all records as `outcomes.parquet` too, by pyarrow.
        shown: Whether a bar shows the progress.
    """
    if parquet or source.suffix == ".parquet":
        MissingExtra.check("Parquet", "parquet", "pyarrow", folder="integrations/attribot-batch")
    log = Log(source, max_bytes, fields)
    with BatchFolder.locked(folder) as output:
        with workers_of(attributor, workers) as group:
            setting = {"input": source.name, **log.setting, **group.setting}
            output.begin(setting, log, anyway=anyway)
            digests = dict[int, str]()
            with tqdm(
                total=log.count(),
                initial=output.num_done,
                unit="answer",
                disable=not shown,
                smoothing=0.05,
            ) as bar:
                for outcome in group.outcomes(_remaining(log, output, digests)):
                    output.add(outcome, digests.pop(outcome.number))
                    bar.update()
        output.finish()
        return _written(folder, output, setting, log, report=report, parquet=parquet)


def _remaining(
    log: Log, output: BatchFolder, digests: dict[int, str]
) -> Iterator[tuple[int, Given]]:
    """The records that are not done. Their digests are noted."""
    for number, entry in enumerate(log):
        if not output.is_done(number):
            digests[number] = entry.digest
            yield number, entry.given


def _written(
    folder: Path,
    output: BatchFolder,
    setting: Mapping[str, Any],
    log: Log,
    *,
    report: bool,
    parquet: bool,
) -> Statistics:
    """Write the statistics and the other files that were asked for."""
    statistics = Statistics.of(lines(output.results))
    rejects = Counter(reject["error"]["type"] for reject in lines(output.rejects))
    statistics.rejected, statistics.waits = rejects.total(), log.waits
    statistics.reason = next((line["error"]["message"] for line in lines(output.rejects)), "")
    counts = {"records": output.num_done, "rejected": statistics.rejected, "waits": log.waits}
    text = json.dumps({**counts, **statistics.to_dict()}, indent=2, ensure_ascii=False)
    (folder / "statistics.json").write_text(text + "\n", encoding="utf-8")
    if report:
        items = worklist(lines(output.results))
        write_pages(folder, lines(output.results), items)
        page = render_report(
            statistics, setting, records=output.num_done, rejects=rejects, items=items
        )
        (folder / "report.html").write_text(page, encoding="utf-8")
    if parquet:
        from attribot_batch.tables import write_outcomes

        write_outcomes(folder / "outcomes.parquet", output.outcomes())
    return statistics
