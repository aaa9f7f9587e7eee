"""A log by the actors of a local Ray: the outcomes of `run_batch`, even if an actor is killed.

`tasks/ray` installs Ray beside the other packages.
"""

import json
import logging
import os
import sys
from collections.abc import Iterator
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet
from support.actors import killed_once, local, served
from support.model_server import model_server
from support.scorers import RECORD
from support.tiny_models import byte_level

from attribot_batch import Statistics, run_batch
from attribot_batch.tables import outcome_schema, results_in
from attribot_rag.errors import InvalidInput, ServerFailed

ray = pytest.importorskip("ray", reason="tasks/ray installs Ray")
pytest.importorskip("ray.data")

from attribot_batch.distributed import AttributeBatch, attribute_dataset  # noqa: E402

# Warnings of Ray's own modules.
pytestmark = pytest.mark.filterwarnings(r"ignore::DeprecationWarning:ray\.")

EXAMPLE = Path(__file__).parents[4] / "examples" / "ray_batch.py"
BAD = ["{", "[1]", json.dumps({**RECORD, "response": ""}), '{"id": "\\ud83d"}']


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """Three logical CPUs and a logical GPU, and actors that find the tests' modules."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        ray.init(num_cpus=3, num_gpus=1, include_dashboard=False, logging_level=logging.WARNING)
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield
    ray.shutdown()


def records(count: int) -> list[str]:
    """Lines of JSON, each fifth of them bad."""
    return [
        BAD[index // 5 % len(BAD)] if index % 5 == 2 else json.dumps({**RECORD, "id": index})
        for index in range(count)
    ]


def rows_of(lines: list[str]) -> list[dict[str, Any]]:
    return [{"number": number, "text": line} for number, line in enumerate(lines)]


def by_a_batch(lines: list[str], folder: Path) -> list[dict[str, Any]]:
    """The outcomes of the same records on one machine."""
    folder.mkdir()
    (folder / "log.jsonl").write_text("".join(f"{line}\n" for line in lines))
    run_batch(local(), folder / "log.jsonl", folder / "out", parquet=True)
    rows: list[dict[str, Any]] = parquet.read_table(folder / "out/outcomes.parquet").to_pylist()
    return rows


def assert_same(outcomes: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    """In any order; the scores to 1e-3 nats."""
    outcomes = sorted(outcomes, key=itemgetter("number"))
    assert [row["number"] for row in outcomes] == [row["number"] for row in expected]
    for row, other in zip(outcomes, expected, strict=True):
        assert row.keys() == other.keys()
        for name in ("id", "response", "error"):
            assert row[name] == other[name]
        assert scores(row) == pytest.approx(scores(other), abs=1e-3)
        assert summary_of(row) == summary_of(other)


def scores(row: dict[str, Any]) -> dict[str, float]:
    return dict(row["document_scores"] or {})


def summary_of(row: dict[str, Any]) -> Any:
    if row["summary"] is None:
        return None
    kept = ("status", "sentences", "documents", "method", "model", "notes")
    return {name: row["summary"][name] for name in kept}


def test_a_killed_actor_costs_no_record(cluster: None, tmp_path: Path) -> None:
    lines, processes = records(60), tmp_path / "processes"
    processes.mkdir()
    dataset = ray.data.from_items(rows_of(lines))
    outcomes = attribute_dataset(
        dataset, partial(killed_once, processes), concurrency=2, num_gpus=0.5, batch_size=4
    )
    outcomes.write_parquet(str(tmp_path / "out"))
    table = parquet.read_table(tmp_path / "out")
    assert (processes / "killed").exists()
    assert len(list(processes.glob("[0-9]*"))) == 3
    assert table.schema.equals(outcome_schema())
    assert_same(table.to_pylist(), by_a_batch(lines, tmp_path / "batch"))


def test_answers_of_a_served_model(cluster: None, tmp_path: Path) -> None:
    lines = records(10)
    with model_server(byte_level()) as server:
        make = partial(served, server.url)
        outcomes = attribute_dataset(ray.data.from_items(rows_of(lines)), make).take_all()
        server.failures.append((503, {}))
        with pytest.raises(ServerFailed, match="503"):
            AttributeBatch(make)(pyarrow.Table.from_pylist(rows_of(lines)))
    outcomes.sort(key=itemgetter("number"))
    for row, other in zip(outcomes, by_a_batch(lines, tmp_path / "batch"), strict=True):
        for name in ("number", "id", "error"):
            assert row[name] == other[name]
        assert scores(row) == pytest.approx(scores(other), abs=1e-2)


def test_the_page_s_code_prints_statistics(
    cluster: None,
    tiny_model: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = EXAMPLE.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    log = tmp_path / "answers.jsonl"
    log.write_text("\n".join(records(5)))
    for text, other in {
        "load_model()": f"load_model({tiny_model!r})",
        "examples/answers.jsonl": str(log),
        "    ray.init(num_cpus=3, include_dashboard=False)  # on a cluster: ray.init()\n": "",
    }.items():
        assert text in code
        code = code.replace(text, other)
    exec(code, {"__name__": "__main__"})
    printed = capsys.readouterr().out  # Ray's own warnings may stand before it
    assert "4 answers\n" in printed
    assert parquet.read_table("batch/ray").num_rows == 5


def batch_of(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    outcomes: list[dict[str, Any]] = AttributeBatch(local)(
        pyarrow.Table.from_pylist(rows)
    ).to_pylist()
    return outcomes


def test_a_bad_record_is_an_outcome(tmp_path: Path) -> None:
    lines = records(20)
    assert_same(batch_of(rows_of(lines)), by_a_batch(lines, tmp_path / "batch"))


def test_fields_may_be_columns() -> None:
    record = {**RECORD, "id": 7, "prompt": None, "question": None, "other": "column"}
    question = {**record, "messages": None, "question": "who signed it?"}
    outcomes = batch_of([record, {**record, "documents": None}, question])
    assert [row["error"] is None for row in outcomes] == [True, False, True]
    assert [(row["number"], row["id"]) for row in outcomes] == [(None, "7")] * 3
    (line,) = batch_of([{"text": json.dumps({**RECORD, "id": 7})}])
    assert scores(line) == scores(outcomes[0])
    assert Statistics.of(results_in(outcomes)).answers == 2


def test_impossible_options_are_refused() -> None:
    with pytest.raises(InvalidInput, match="pass a function"):
        attribute_dataset(None, local())  # type: ignore[arg-type]
    for concurrency in (0, (2, 1)):
        with pytest.raises(InvalidInput, match="use 1 or more"):
            attribute_dataset(None, local, concurrency=concurrency)
