import io
import json
import logging
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import pytest
from support.patience import scaled
from support.pdf_files import pdf

from attribot_rag import Attribution
from attribot_rag.attribution import SCHEMA_VERSION
from attribot_rag.cli import main
from attribot_rag.result.answer_text import visible

CORPUS = Path(__file__).parent.parent / "examples" / "corpus"
COMMAND = (sys.executable, "-m", "attribot_rag")
QUESTION = "How many passengers does the ferry Kittiwake carry?"
SHOUTING = """
from attribot_rag.cli import Command

SHOUT = Command(
    lambda parser: parser.add_argument("word"),
    lambda options, load, *, shown: print(f"{options.word.upper()}, {options.method}"),
    summary="say a word aloud",
    description="Say it aloud.",
)
"""


@pytest.fixture
def notes(tmp_path: Path) -> str:
    file = tmp_path / "notes.md"
    file.write_text("# Ferry\n\nThe ship is \x1b[31mred. It carries [bold]84[/bold] people.")
    return str(file)


def ask(notes: str, tiny_model: str, *more: str) -> list[str]:
    short = ["--max-new-tokens", "6", "--method", "thorough"]
    return ["ask", QUESTION, notes, "--model", tiny_model, *short, *more]


def test_answer_sources_and_times(
    notes: str, tiny_model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(ask(notes, tiny_model, "--top", "2", "--verbose")) == 0
    shown = capsys.readouterr()
    assert "Top 2 of 2 sources, in nats" in shown.out
    assert "notes.md#1" in shown.out
    assert "\x1b" not in shown.out
    assert "␛[31mred" in shown.out
    assert "[bold]84[/bold]" in shown.out
    assert shown.err == ""
    assert main(ask(notes, tiny_model, "--device", "toaster")) == 2
    assert "toaster" in capsys.readouterr().err


def test_an_annotator_is_named_by_its_place(
    notes: str, tiny_model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place = "attribot_rag.annotation:NumbersInDocuments"
    assert main(ask(notes, tiny_model, "--annotator", place)) == 0
    for place, reason in {
        "nowhere:Checks": "'nowhere:Checks' cannot be loaded: No module named 'nowhere'",
        "attribot_rag.annotation:Checks": "has no attribute 'Checks'",
        "attribot_rag:Document": "cannot be loaded: ",
        "json:dumps": "'json:dumps' has no method annotate(sentences)",
    }.items():
        with pytest.raises(SystemExit, match="2"):
            main(ask(notes, tiny_model, "--annotator", place))
        assert reason in capsys.readouterr().err


def test_an_annotator_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own_checks.py").write_text("class Checks:\n    def annotate(self, sentences): ...")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(filter(None, sys.path)))  # '' is the current folder
    with pytest.raises(SystemExit, match="2"):
        main(["ask", "--annotator", "own_checks:Checks"])
    assert "cannot be loaded" not in capsys.readouterr().err


def test_json_stands_alone_on_stdout(
    notes: str, tiny_model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(ask(notes, tiny_model, "--json")) == 0
    shown = capsys.readouterr()
    attribution = Attribution.from_json(shown.out)
    assert json.loads(shown.out)["schema_version"] == SCHEMA_VERSION
    assert [document.id for document in attribution.documents] == ["notes.md#1"]
    assert len(attribution.token_spans) == 6
    assert attribution.provenance.retokenized is False
    assert shown.err == ""


def test_a_folder_of_pdf_files_is_asked(
    tiny_model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pdf(tmp_path / "ferry.pdf", ["The ship is red.", "It carries 84 passengers."])
    assert main([*ask(str(tmp_path), tiny_model), "--json"]) == 0
    attribution = Attribution.from_json(capsys.readouterr().out)
    assert [document.id for document in attribution.documents] == ["ferry.pdf#1"]
    assert attribution.documents[0].metadata["page_label"] == "1–2"
    texts = [source.text.strip() for source in attribution.sources]
    assert texts == ["The ship is red.", "It carries 84 passengers."]
    assert main([*ask(str(tmp_path), tiny_model), "--without", "ferry.pdf"]) == 0
    assert "Without ferry.pdf, " in capsys.readouterr().out


def test_a_page_can_be_written_beside_the_output(
    notes: str, tiny_model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    assert main(ask(notes, tiny_model, "--html", str(page), "--json")) == 0
    attribution = Attribution.from_json(capsys.readouterr().out)
    assert page.read_text(encoding="utf-8") == attribution.to_html(question=QUESTION)
    assert main(ask(notes, tiny_model, "--html", str(tmp_path / "none" / "page.html"))) == 2
    shown = capsys.readouterr()
    assert "length limit" in shown.out  # what was computed is not lost
    assert "page.html cannot be written: No such file or directory" in shown.err


def test_the_answer_without_a_document(
    notes: str, tiny_model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.txt"
    other.write_text("The ferry carries \x1b[31m9 passengers.")
    both = ask(notes, tiny_model)
    both.insert(3, str(other))
    without = [
        "--without",
        "notes.md",
        "--without",
        "other.txt#1",
        "--without",
        "notes.md,other.txt",
    ]
    assert main([*both, *without]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    matches = re.findall(r"\nWithout (.+), the model [a-z ]+:\n.", shown)
    assert matches[:2] == ["notes.md", "other.txt"]
    assert {*matches[2].split(" and ")} == {*matches[:2]}
    assert main([*both, "--without", "7"]) == 2
    answered, message = capsys.readouterr()
    assert "notes.md" in answered  # the answer is told all the same
    assert message.startswith("attribot-rag: --without 7: no document in the prompt has this ")
    assert "notes.md#1" in message and "other.txt#1" in message
    assert main([*both, "--without", "1", "--json"]) == 2
    assert "--json prints only an attribution" in capsys.readouterr().err


def test_a_terminal_sees_the_answer_while_it_is_written(notes: str, tiny_model: str) -> None:
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    command = [*COMMAND, *ask(notes, tiny_model, "--json")]
    with subprocess.Popen(command, stderr=theirs, stdout=subprocess.PIPE) as process:
        os.close(theirs)
        output = b""
        with suppress(OSError):  # the other end was closed
            while piece := os.read(ours, 1000):
                output += piece
        assert process.stdout
        response = Attribution.from_json(process.stdout.read().decode()).response
    assert response.strip()
    assert "Starting …" in output[:200].decode()  # at once, for imports take their time
    assert visible(response).strip() in output.decode().replace("\r\n", "\n")


def test_characters_that_the_output_cannot_encode_are_replaced(
    notes: str, tiny_model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", out)
    assert main(ask(notes, tiny_model)) == 0
    out.seek(0)
    assert "?" in out.read()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ask", QUESTION, "nowhere.txt"], "there is no file nowhere.txt"),
        (["ask", QUESTION, "paper.pdf", "\x1b[2J"], "there is no file paper.pdf"),
        (["ask", "zebra?", str(CORPUS)], "none of the 20 chunks has a word of the question"),
        (["ask", QUESTION, str(CORPUS), "--model", "./nowhere"], "the model './nowhere' cannot"),
    ],
)
def test_an_error_is_one_line_and_status_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(f"attribot-rag: {message}")
    assert shown.err.count("\n") == 1


def test_a_typing_error_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["ask", "How?"], ["ask", "How?", "notes.md", "--chunk", "3"], ["show"]):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "--help" in line


def test_nothing_in_the_name_of_a_file_reaches_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a\x1b]0;owned\x07\u202e.md").write_text(" ")
    for name in ("b.md", "c.md"):
        (tmp_path / name).write_text("The ship is red.")
    monkeypatch.setattr(logging.root, "handlers", [])  # as outside of pytest
    assert main(["ask", "zebra?", str(tmp_path), "--passages", "1"]) == 2
    said = capsys.readouterr().err
    assert "Skipped: " in said and "a␛]0;owned␇<U+202E>.md is empty" in said
    assert not {"\x1b", "\x07", "\u202e"} & set(said)


@pytest.mark.parametrize("value", ["0", "many"])
def test_counts_are_whole_numbers_from_1(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--top", "--passages", "--max-new-tokens"):
        with pytest.raises(SystemExit) as raised:
            main(["ask", QUESTION, str(CORPUS), f"{option}={value}"])
        assert raised.value.code == 2
        assert f"'{value}' is not a whole number from 1" in capsys.readouterr().err
    with pytest.raises(SystemExit) as raised:
        main(["--version"])
    assert raised.value.code == 0
    assert capsys.readouterr().out == f"{version('attribot-rag')}\n"


def test_a_missing_package_is_named_before_anything_is_loaded(
    notes: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "bm25s", None)
    assert main(["ask", QUESTION, notes, "--model", "./no-model"]) == 2
    error = capsys.readouterr().err
    assert "needs bm25s: pip install '.[cli]' in a clone of attribot-rag" in error
    assert "no-model" not in error


def _install(folder: Path, module: str) -> None:
    """A package with a command of its own."""
    (folder / "shouting.py").write_text(module)
    metadata = folder / "shouting-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: shouting\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[attribot_rag.commands]\nshout = shouting:SHOUT\n")


def test_a_package_that_is_installed_brings_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _install(tmp_path, SHOUTING)
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["shout", "ferry", "--method", "masked"]) == 0
    assert capsys.readouterr().out == "FERRY, masked\n"
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    assert re.search(r"\n +ask +.*\n(.*\n)* +shout +say a word aloud\n", capsys.readouterr().out)


def test_a_package_that_is_broken_hides_no_other_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _install(tmp_path, "import no_such_module\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "shouting", raising=False)
    assert main(["shout", "ferry"]) == 2
    assert "'shout' cannot be imported from shouting:SHOUT" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    shown = capsys.readouterr()
    assert " ask " in shown.out
    assert shown.err.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "package"), [("batch", "attribot-batch"), ("serve", "attribot-server")]
)
def test_a_command_without_its_package_says_what_to_install(
    command: str,
    package: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "path", [])  # where no package is installed
    assert main([command, "log.jsonl", "--port", "8"]) == 2
    shown = capsys.readouterr()
    assert f"pip install {package}" in shown.err
    assert (shown.out, shown.err.count("\n")) == ("", 1)


@pytest.mark.long
@pytest.mark.slow
def test_interrupt_ends_quietly_with_status_130(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.txt"
    os.mkfifo(pipe)
    with (
        subprocess.Popen(
            [*COMMAND, "ask", QUESTION, str(pipe)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=heed_interrupts,
        ) as process,
        pipe.open("w"),
    ):  # opens once the command reads, and keeps it waiting
        time.sleep(1)  # a signal between opening and reading would not interrupt the read
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=scaled(60))
    assert (process.returncode, out, err) == (130, b"", b"")


def heed_interrupts() -> None:
    """Tests in the background of a script inherit that interrupts are ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.long
@pytest.mark.slow
def test_a_reader_that_leaves_early_is_no_error(notes: str, tiny_model: str) -> None:
    with subprocess.Popen(
        [*COMMAND, *ask(notes, tiny_model)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0
