"""Logged answers from a file into a folder: every record once, also after a failure."""

import json
import os
import random
import re
import signal
import sys
import time
from collections.abc import Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from support.actors import OPTIONS
from support.actors import local as attributor
from support.model_server import ModelServer, model_server
from support.processes import forked
from support.scorers import ANSWER, RECORD, TREATY, chat
from support.tiny_models import byte_level

from attribot_batch import Statistics, WorkerLost, run_batch
from attribot_batch.records import Record
from attribot_rag import Attributor, ServerOptions
from attribot_rag.cli import main
from attribot_rag.display import YOUR_FILES, digest, words_for
from attribot_rag.errors import InvalidInput, ServerFailed

LOCAL = byte_level()
GOOD = {**RECORD, "id": "a"}
BAD: list[tuple[str, str]] = [
    ("{", "not JSON"),
    ("[1]", "a record is an object with fields"),
    (json.dumps({**GOOD, "id": "cut in an emoji: \ud83d"}), "not JSON"),
    (json.dumps({**GOOD, "response": ""}), "response"),
    (json.dumps({**GOOD, "messages": None}), "neither a prompt"),
    (json.dumps({**GOOD, "documents": ["stands nowhere"]}), "documents"),
    (json.dumps({**GOOD, "prompt": [10**9], "messages": None}), "token id"),
]


def served_by(server: ModelServer, *, concurrency: int) -> Attributor:
    options = ServerOptions(concurrency=concurrency, attempts=1)
    return Attributor.for_server(server.url, tokenizer=LOCAL.tokenizer, server=options, **OPTIONS)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def written(path: Path, values: Sequence[object]) -> Path:
    texts = (value if isinstance(value, str) else json.dumps(value) for value in values)
    path.write_text("".join(f"{text}\n" for text in texts))
    return path


def test_records_in_every_form_are_attributed(tmp_path: Path) -> None:
    ids = LOCAL.encode_prompt(GOOD["messages"])
    ids_of_answer = list(LOCAL.encode(ANSWER))
    question = {"question": "who signed it?", "documents": list(TREATY[:2]), "response": ANSWER}
    parts = [
        {**message, "content": [{"type": "text", "text": message["content"]}]}
        for message in GOOD["messages"]
    ]
    records = [
        GOOD,
        {**GOOD, "messages": None, "prompt": LOCAL.decode(ids)},
        {**GOOD, "messages": None, "prompt": list(ids), "response": ids_of_answer},
        {**question, "id": 7},
        {**GOOD, "messages": parts},
    ]
    statistics = run_batch(attributor(), written(tmp_path / "log.jsonl", records), tmp_path / "out")
    results = lines(tmp_path / "out/results.jsonl")
    assert [result["number"] for result in results] == [0, 1, 2, 3, 4]
    assert [result["id"] for result in results] == ["a", "a", "a", 7, "a"]
    expected = attributor().attribute(chat(TREATY[:2]), ANSWER, TREATY[:2])
    best = expected.top(1)[0]
    for result in (results[0], results[2], results[4]):
        assert result["response"] == result["summary"]["answer"] == expected.response
        assert result["summary"]["cited_text"] == expected.to_cited_text()
        assert result["summary"]["sources"][0]["id"] == best.source.id
        assert result["summary"]["sources"][0]["score"] == pytest.approx(best.score, abs=1e-3)
    retokenized = [result["summary"]["retokenized"] for result in results]
    assert retokenized == [True, True, False, True, True]
    assert statistics.answers == 5
    assert not (tmp_path / "out/rejects.jsonl").exists()


def test_parquet_gives_the_results_of_json_lines(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    records = [{**GOOD, "id": name} for name in "abc"]
    path = tmp_path / "log.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(records), path)
    run_batch(attributor(), path, tmp_path / "out")
    run_batch(attributor(), written(tmp_path / "log.jsonl", records), tmp_path / "other")

    def ids_and_scores(folder: str) -> list[Any]:
        results = lines(tmp_path / folder / "results.jsonl")
        return [(result["id"], result["document_scores"]) for result in results]

    assert ids_and_scores("out") == ids_and_scores("other")


def test_the_standings_of_an_answer_are_a_map_in_parquet(tmp_path: Path) -> None:
    from attribot_batch.tables import outcome_table

    told = "The treaty was signed in Oslo in 1887. It has nine articles."
    judging = Attributor(LOCAL, progress=False)
    run_batch(judging, written(tmp_path / "log.jsonl", [{**GOOD, "response": told}]), tmp_path)
    results = lines(tmp_path / "results.jsonl")
    (row,) = outcome_table(results).to_pylist()
    trust = results[0]["summary"]["trust"]
    assert dict(row["summary"]["trust"]["standings"]) == trust["standings"] != {}


def test_a_record_with_other_fields_is_told_how_they_are_named() -> None:
    with pytest.raises(InvalidInput, match="it has 'inputs', 'outputs'; --fields NAME=PLACE"):
        Record.of({"inputs": "Who?", "outputs": "Ann."})


def test_bad_records_are_rejected_with_the_reason(tmp_path: Path) -> None:
    path = written(tmp_path / "log.jsonl", [GOOD, *(text for text, _ in BAD), GOOD])
    told = run_batch(attributor(), path, tmp_path / "out").to_text()
    assert f"{len(BAD)} rejected: rejects.jsonl has the reasons, the first is: " in told
    rejects = lines(tmp_path / "out/rejects.jsonl")
    assert [reject["number"] for reject in rejects] == list(range(1, len(BAD) + 1))
    for reject, (_, reason) in zip(rejects, BAD, strict=True):
        assert reason in reject["error"]["message"]
    numbers = [line["number"] for line in lines(tmp_path / "out/results.jsonl")]
    assert numbers == [0, len(BAD) + 1]
    statistics = json.loads((tmp_path / "out/statistics.json").read_text())
    assert (statistics["records"], statistics["answers"], statistics["rejected"]) == (9, 2, 7)


def test_the_report_shows_the_documents_and_runs_nothing(tmp_path: Path) -> None:
    name = "<script>alert(1)</script>"
    first, second = GOOD["documents"]
    record = {**GOOD, "documents": [{**first, "id": name}, second]}
    path = written(tmp_path / "log.jsonl", [record, "{", "{"])
    statistics = run_batch(attributor(), path, tmp_path / "out", report=True)
    page = (tmp_path / "out/report.html").read_text()
    assert set(statistics.documents) == {name, "d1"}
    assert name not in page and "&lt;script&gt;alert(1)" in page and ">d1<" in page
    assert "3 records, 1 checked" in page and "InvalidInput: 2" in page
    assert "src=" not in page and "<script" not in page
    for link in re.findall(r'href="(.*?)"', page):
        assert ANSWER in (tmp_path / "out" / link).read_text()
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    assert f"style-src &#39;{digest(style)}&#39;" in page or f"style-src '{digest(style)}'" in page


ABSENT, UNCITED = ({"key": key, "text": "12.90"} for key in ("in_no_document", "not_cited"))


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"verdict": "grounded"}, "grounded"),
        ({"verdict": "redundant", "remarks": [UNCITED]}, "grounded"),
        ({"verdict": "grounded", "remarks": [ABSENT]}, "in_no_document"),
        ({"verdict": "unsupported"}, "unsupported"),
        ({"verdict": "follows"}, "follows"),
        ({"verdict": "conversation", "origin": "turn"}, "conversation"),
        ({"verdict": "conversation", "origin": "question"}, "question"),
        ({"verdict": "open", "reason": "scattered"}, "open"),
        ({"verdict": "open", "reason": "limit"}, "budget"),
        ({"verdict": "trivial"}, None),
    ],
)
def test_sentences_are_counted_by_what_readers_are_told(
    fields: dict[str, Any], key: str | None
) -> None:
    support = {"kind": "full"} if key else None
    sentence = {"reason": None, "origin": None, "remarks": [], "support": support, **fields}
    summary = {"status": "complete", "sentences": [sentence], "documents": []}
    statistics = Statistics.of([{"summary": summary, "document_scores": {}}])
    said = words_for(key, YOUR_FILES, value="a value") if key else ""
    assert statistics.states == ({said: 1} if key else {})
    assert said in statistics.to_text()
    assert statistics.to_dict()["sentences"] == {fields["verdict"]: 1}
    assert statistics.to_dict()["support"] == ({"full": 1.0} if key else {})
    assert statistics.to_check == ("remarks" in fields)


def test_a_line_that_was_cut_short_is_written_again(tmp_path: Path) -> None:
    path = written(tmp_path / "log.jsonl", [GOOD, "{", GOOD])
    run_batch(attributor(), path, tmp_path / "out")
    results = tmp_path / "out/results.jsonl"
    whole = lines(results)
    results.write_bytes(results.read_bytes()[:-400])
    run_batch(attributor(), path, tmp_path / "out")
    assert [line["number"] for line in lines(results)] == [line["number"] for line in whole]
    assert len(lines(tmp_path / "out/rejects.jsonl")) == 1


def test_a_batch_that_a_failed_server_stopped_goes_on_later(tmp_path: Path) -> None:
    path = written(tmp_path / "log.jsonl", [{**GOOD, "id": index} for index in range(6)])
    with model_server(LOCAL) as server:
        served = served_by(server, concurrency=2)
        server.failures.append((503, {}))
        with pytest.raises(ServerFailed):
            run_batch(served, path, tmp_path / "out")
        run_batch(served, path, tmp_path / "out")
    results = lines(tmp_path / "out/results.jsonl")
    assert [(result["number"], result["id"]) for result in results] == [(i, i) for i in range(6)]
    local = tmp_path / "local"
    run_batch(attributor(), path, local)
    for result, other in zip(results, lines(local / "results.jsonl"), strict=True):
        assert result["document_scores"] == pytest.approx(other["document_scores"], abs=1e-2)


@pytest.mark.slow
def test_killed_at_any_moment_every_record_is_there_once(tmp_path: Path) -> None:
    short = {"documents": [TREATY[3]], "question": "who signed it?", "response": "The queen"}
    records = [{**short, "id": index} for index in range(100)]
    path = written(tmp_path / "log.jsonl", [*records[:20], "{", *records[20:]])
    out = tmp_path / "out"
    drawn = random.Random(0)

    def size() -> int:
        return sum(file.stat().st_size for file in out.glob("*.jsonl"))

    for _ in range(8):
        enough = size() + drawn.randint(0, 4000)
        process = forked(run_batch, attributor(), path, out)
        process.start()
        while size() < enough and process.is_alive():
            time.sleep(0.001)
        time.sleep(drawn.uniform(0, 0.02))
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL  # in the midst of its work
    begun = size()
    run_batch(attributor(), path, out)
    assert 0 < begun < size()
    results, rejects = lines(out / "results.jsonl"), lines(out / "rejects.jsonl")
    assert [result["id"] for result in results] == list(range(100))
    assert [reject["number"] for reject in rejects] == [20]


@pytest.mark.long
def test_two_processes_give_the_results_of_one(tmp_path: Path) -> None:
    path = written(tmp_path / "log.jsonl", [GOOD, "{", {**GOOD, "id": "b"}, GOOD])
    run_batch(attributor, path, tmp_path / "one")
    statistics = run_batch(attributor, path, tmp_path / "two", workers=2)
    assert statistics.answers == 3
    alone, parallel = (lines(tmp_path / name / "results.jsonl") for name in ("one", "two"))
    assert [r["number"] for r in parallel] == [r["number"] for r in alone] == [0, 2, 3]
    for expected, result in zip(alone, parallel, strict=True):
        assert result["id"] == expected["id"]
        assert result["document_scores"] == pytest.approx(expected["document_scores"], abs=1e-3)
    rejects = (lines(tmp_path / name / "rejects.jsonl") for name in ("one", "two"))
    assert next(rejects) == next(rejects)


@pytest.fixture
def forking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are forked: spawned ones import everything again, for many seconds."""
    monkeypatch.setattr("attribot_batch.workers.get_context", lambda _: get_context("fork"))


class Ends:
    """Makes an attributor whose first process ends at once."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __call__(self) -> Attributor:
        if not self.mark.exists():
            self.mark.touch()
            os._exit(1)
        return attributor()


@pytest.mark.usefixtures("forking")
def test_a_batch_that_a_lost_process_stopped_goes_on_later(tmp_path: Path) -> None:
    path = written(tmp_path / "log.jsonl", [GOOD, GOOD])
    make = Ends(tmp_path / "mark")
    with pytest.raises(WorkerLost, match="continues from there"):
        run_batch(make, path, tmp_path / "out", workers=2)
    run_batch(make, path, tmp_path / "out")
    assert [line["number"] for line in lines(tmp_path / "out/results.jsonl")] == [0, 1]


def test_processes_need_a_function(tmp_path: Path) -> None:
    path = written(tmp_path / "log.jsonl", [GOOD])
    with pytest.raises(InvalidInput, match="pass a function"):
        run_batch(attributor(), path, tmp_path / "out", workers=2)
    with pytest.raises(InvalidInput, match="use 1 or more"):
        run_batch(attributor, path, tmp_path / "out", workers=0)


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        run_batch(attributor(), tmp_path / "none.jsonl", tmp_path / "out")
    (tmp_path / "bad.parquet").write_text("no parquet")
    with pytest.raises(InvalidInput, match="cannot be read"):
        run_batch(attributor(), tmp_path / "bad.parquet", tmp_path / "out")
    with pytest.raises(InvalidInput, match="has no records"):
        run_batch(attributor(), written(tmp_path / "empty.jsonl", []), tmp_path / "out")


def reading() -> Attributor:
    return Attributor(LOCAL, is_reader=True, **OPTIONS)


def test_answers_of_other_models_are_read(tmp_path: Path) -> None:
    records = [{**GOOD, "answered_by": "gpt-4o"}, {**GOOD, "answered_by": ""}, GOOD]
    path = written(tmp_path / "log.jsonl", records)
    mixed = run_batch(attributor(), path, tmp_path / "mixed", report=True)
    summaries = [line["summary"] for line in lines(tmp_path / "mixed/results.jsonl")]
    bases = [(summary["basis"], summary["answered_by"]) for summary in summaries]
    assert bases == [("reader", "gpt-4o"), ("reader", None), ("cause", None)]
    assert mixed.to_dict()["read"] == {summaries[0]["model"]: 2}
    page = (tmp_path / "mixed/report.html").read_text()
    assert "What supports 3 answers" in page and mixed.readers_line in mixed.to_text()
    all_read = run_batch(reading(), path, tmp_path / "read")
    assert all_read.read.total() == 3
    assert json.loads((tmp_path / "read/statistics.json").read_text())["read"] == all_read.read
    with pytest.raises(InvalidInput, match="basis"):
        run_batch(attributor(), path, tmp_path / "read")


def test_the_command_has_a_model_read_all_answers(
    tiny_model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path / "log.jsonl", [{**GOOD, "answered_by": "claude-x"}, GOOD])
    arguments = ["batch", str(path), "--output", str(tmp_path / "out"), "--model", tiny_model]
    assert main([*arguments, "--reader", "--method", "leave_one_out"]) == 0
    told = capsys.readouterr().out
    assert "2 answers" in told and "did not give them: 2 by" in told
    names = [line["summary"]["answered_by"] for line in lines(tmp_path / "out/results.jsonl")]
    assert names == ["claude-x", None]


def test_parquet_needs_pyarrow_before_anything_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    words = ["batch", "log.parquet", "--output", str(tmp_path), "--model", "./no-model"]
    assert main(words) == 2
    error = capsys.readouterr().err
    assert "needs pyarrow: pip install 'integrations/attribot-batch[parquet]'" in error
    assert "no-model" not in error


LOGS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "ragas": (
        {"user_input": "who?", "retrieved_contexts": list(TREATY[:2]), "response": ANSWER},
        {"question": "user_input", "documents": "retrieved_contexts"},
    ),
    "langsmith": (
        {
            "id": "a",
            "inputs": {"question": "who?"},
            "outputs": {
                "answer": ANSWER,
                "documents": [
                    {"page_content": text, "type": "Document", "id": None, "metadata": {"page": 1}}
                    for text in TREATY[:2]
                ],
            },
        },
        {
            "question": "inputs.question",
            "documents": "outputs.documents",
            "response": "outputs.answer",
        },
    ),
    "openai": (
        {
            "request": {"messages": chat(TREATY[:2], "who?")},
            "response": {
                "id": "a",
                "model": "gpt-x",
                "choices": [{"message": {"role": "assistant", "content": ANSWER}}],
            },
            "search": [{"text": text, "score": 0.5, "filename": "a.txt"} for text in TREATY[:2]],
        },
        {
            "id": "response.id",
            "messages": "request.messages",
            "documents": "search",
            "response": "response.choices.0.message.content",
            "answered_by": "response.model",
        },
    ),
}


@pytest.mark.parametrize("kind", LOGS)
def test_a_log_may_have_other_fields(kind: str, tmp_path: Path) -> None:
    record, fields = LOGS[kind]
    path = written(tmp_path / "log.jsonl", [record, {"id": "b"}])
    statistics = run_batch(attributor(), path, tmp_path / "out", fields=fields)
    assert (statistics.answers, statistics.rejected) == (1, 1)
    (result,) = lines(tmp_path / "out/results.jsonl")
    assert result["response"] == ANSWER
    assert result["id"] == (None if kind == "ragas" else "a")
    expected = {"question": "who?", "documents": list(TREATY[:2]), "response": ANSWER}
    if kind != "openai":
        run_batch(attributor(), written(tmp_path / "plain.jsonl", [expected]), tmp_path / "plain")
        (plain,) = lines(tmp_path / "plain/results.jsonl")
        assert result["document_scores"] == pytest.approx(plain["document_scores"], abs=1e-3)
    with pytest.raises(InvalidInput, match="fields was"):
        run_batch(attributor(), path, tmp_path / "out")


def test_the_command_tells_rejected_records_by_its_status(
    tiny_model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record, fields = LOGS["langsmith"]
    path = written(tmp_path / "log.jsonl", [record])
    arguments = ["batch", str(path), "--output", str(tmp_path / "out"), "--model", tiny_model]
    arguments += ["--method", "leave_one_out"]
    arguments += ["--fields", ",".join(f"{name}={place}" for name, place in fields.items())]
    assert main(arguments) == 0
    written(path, [record, "no record"])
    assert main(arguments) == 3
    with pytest.raises(SystemExit):
        main([*arguments[:-1], "documents"])
    assert "'documents' is not NAME=PLACE" in capsys.readouterr().err
    assert main([*arguments[:-1], "contexts=documents"]) == 2
    assert "a record has no option 'contexts'" in capsys.readouterr().err
