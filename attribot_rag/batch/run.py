"""Attributes the records of a file, one after the other or several at a server."""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

from tqdm import tqdm

from attribot_rag.attribution import Attribution
from attribot_rag.attribution.summary import summarize
from attribot_rag.attributor import Attributor
from attribot_rag.batch.folder import BatchFolder, Outcome
from attribot_rag.batch.records import Record, count, parsed, read
from attribot_rag.batch.statistics import Statistics
from attribot_rag.errors import AttributionError, InvalidInput, ServerFailed
from attribot_rag.served import ServedModel
from attribot_rag.served.client import Rejected


def run_batch(
    attributor: Attributor, source: Path, folder: Path, *, shown: bool = False
) -> Statistics:
    """Attribute what the folder lacks of the file's records, and count over all of them.

    Every record becomes one line of `results.jsonl` (a summary) or of `rejects.jsonl` (the reason);
    `statistics.json` follows. Memory does not grow with the number of records. Answers of a served
    model are attributed several at a time. Raises InvalidInput for files that cannot be used,
    ServerFailed if the server fails for good; the same call goes on from there.
    """
    output = BatchFolder(folder, _setting(attributor, source))
    total = count(source)
    values = enumerate(read(source, output.num_done), start=output.num_done)
    bar = tqdm(
        total=total, initial=output.num_done, unit="answer", disable=not shown, smoothing=0.05
    )
    with bar:
        for outcome in _outcomes(attributor, values):
            output.add([outcome])
            bar.update()
    statistics = Statistics.of(output.attributed())
    told = {"records": total, "rejected": output.num_rejected, **statistics.to_dict()}
    text = json.dumps(told, indent=2, ensure_ascii=False)
    (folder / "statistics.json").write_text(text + "\n", encoding="utf-8")
    return statistics


def _outcomes(attributor: Attributor, values: Iterator[tuple[int, object]]) -> Iterator[Outcome]:
    """The outcomes in the order of the values, of which only a few are read ahead."""
    model = attributor.language_model
    workers = model.client.options.concurrency if isinstance(model, ServedModel) else 1
    if workers == 1:
        yield from (_outcome(attributor, number, value) for number, value in values)
        return
    executor = ThreadPoolExecutor(workers)
    try:
        pending: deque[Future[Outcome]] = deque()
        for number, value in values:
            pending.append(executor.submit(_outcome, attributor, number, value))
            if len(pending) >= 2 * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        executor.shutdown(cancel_futures=True)


def _outcome(attributor: Attributor, number: int, value: object) -> Outcome:
    name: object = None
    try:
        content = parsed(value)
        name = content.get("id") if isinstance(content, dict) else None
        record = Record.of(content)
        chats = bool(attributor.language_model.tokenizer.chat_template)
        attribution = attributor.attribute(
            record.read_prompt(chats=chats), record.response, record.read_documents()
        )
    except AttributionError as error:
        if isinstance(error, ServerFailed) and not isinstance(error, Rejected):
            raise
        reason = {"type": type(error).__name__, "message": str(error)[:1000]}
        return Outcome(number, True, {"id": _plain(name), "error": reason})
    return Outcome(number, False, {"id": _plain(name), **_result(attribution)})


def _result(attribution: Attribution) -> dict[str, Any]:
    totals: dict[str, float] = {}
    for source in attribution.sources:
        score = attribution.score(source.id)
        for document in source.documents:
            totals[str(document)] = totals.get(str(document), 0.0) + (score or 0.0)
    return {
        "response": attribution.response,
        "summary": summarize(attribution),
        "document_scores": {document: round(total, 4) for document, total in totals.items()},
    }


def _plain(name: object) -> str | int | None:
    return name if isinstance(name, str | int) else None


def _setting(attributor: Attributor, source: Path) -> dict[str, Any]:
    """What must be the same when a batch goes on; the file may have grown meanwhile."""
    first = next(islice(read(source), 1), None)
    if first is None:
        raise InvalidInput(f"{source} has no records")
    digest = hashlib.sha256(first if isinstance(first, bytes) else repr(first).encode())
    return {
        "input": source.name,
        "first_record": digest.hexdigest(),
        "model": attributor.language_model.name,
        "method": attributor.method.name,
    }
