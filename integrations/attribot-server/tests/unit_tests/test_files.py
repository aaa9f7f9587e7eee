"""The names that the service gives to the files that it answers from."""

from pathlib import Path

import pytest

from attribot_rag.corpus import read_chunks
from attribot_server.command import without_folders


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a/same.txt", "b/same.txt", "b/other.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"This is {name}.", "utf-8")
    return tmp_path


def test_files_of_one_name_keep_the_folders_that_differ(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    for paths in ([folder], [Path()], [Path("a"), folder / "b"]):
        chunks = without_folders(read_chunks(paths))
        ids = {chunk.text: chunk.id for chunk in chunks}
        assert ids == {
            "This is a/same.txt.": "a/same.txt#1",
            "This is b/same.txt.": "b/same.txt#1",
            "This is b/other.txt.": "other.txt#1",
        }
        assert {chunk.metadata["file"] for chunk in chunks} == {"same.txt", "other.txt"}
