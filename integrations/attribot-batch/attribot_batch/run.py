"""Attributes the records of a file into a folder."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from itertools import islice
from pathlib import Path

from tqdm.auto import tqdm

from attribot_batch.folder import BatchFolder, lines
from attribot_batch.records import count, read
from attribot_batch.report import render_report, worklist, write_pages
from attribot_batch.statistics import Statistics
from attribot_batch.workers import MakeAttributor, workers_of
from attribot_rag import Attributor
from attribot_rag.errors import InvalidInput, MissingExtra


def run_batch(
    attributor: Attributor | MakeAttributor,
    source: Path,
    folder: Path,
    *,
    workers: int = 1,
    report: bool = False,
    parquet: bool = False,
    shown: bool = False,
) -> Statistics:
    """Attribute the file's records that the folder lacks, and count over all records.

    Every record becomes one line of `results.jsonl` (a summary) or of `rejects.jsonl` (the reason);
    `statistics.json` follows. Memory does not grow with the number of records. Answers of a served
    model are attributed several at a time. Raises InvalidInput for files that cannot be used,
    MissingExtra for Parquet without pyarrow (both before an attributor is made), ServerFailed if
    the server fails for good, WorkerLost if a process ends; the same call goes on from there.

    Args:
        attributor: With several `workers` a function that each of them imports and calls to make
            its own; the calling script then needs `if __name__ == "__main__"`.
        source: A JSON lines or Parquet file of records.
        folder: The folder of the results.
        workers: The number of processes, which share the cores.
        report: Whether a page is written, too, `report.html`, and in `answers` a page for each
            answer to look at.
        parquet: Whether all records are written once more as `outcomes.parquet`, by pyarrow.
        shown: Whether a bar shows the progress.
    """
    if parquet or source.suffix == ".parquet":
        MissingExtra.check("Parquet", "parquet", "pyarrow", folder="integrations/attribot-batch")
    first = _first(source)
    with workers_of(attributor, workers) as group:
        setting = {**first, **group.setting}
        output = BatchFolder(folder, setting)
        total = count(source)
        values = enumerate(read(source, output.num_done), start=output.num_done)
        with tqdm(
            total=total, initial=output.num_done, unit="answer", disable=not shown, smoothing=0.05
        ) as bar:
            for outcome in group.outcomes(values):
                output.add(outcome)
                bar.update()
    statistics = Statistics.of(lines(output.results))
    rejects = Counter(reject["error"]["type"] for reject in lines(output.rejects))
    statistics.rejected = rejects.total()
    counts = {"records": total, "rejected": statistics.rejected, **statistics.to_dict()}
    text = json.dumps(counts, indent=2, ensure_ascii=False)
    (folder / "statistics.json").write_text(text + "\n", encoding="utf-8")
    if report:
        items = worklist(lines(output.results))
        write_pages(folder, lines(output.results), items)
        page = render_report(statistics, setting, records=total, rejects=rejects, items=items)
        (folder / "report.html").write_text(page, encoding="utf-8")
    if parquet:
        from attribot_batch.tables import write_outcomes

        write_outcomes(folder / "outcomes.parquet", output.outcomes())
    return statistics


def _first(source: Path) -> dict[str, str]:
    """The name and the first record of a file, which may grow before a batch goes on."""
    first = next(islice(read(source), 1), None)
    if first is None:
        raise InvalidInput(f"{source} has no records")
    digest = hashlib.sha256(first if isinstance(first, bytes) else repr(first).encode())
    return {"input": source.name, "first_record": digest.hexdigest()}
