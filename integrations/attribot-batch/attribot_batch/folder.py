"""The files of a batch, from which a stopped batch resumes."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any

from attribot_batch.outcome import Outcome
from attribot_rag.errors import InvalidInput


class BatchFolder:
    """Results and rejects, one line for each record, in the order of the input.

    Both files are only appended to, and every line holds its record's number. So the last whole
    lines say how far the batch came; a line that was cut short, by a kill for example, is removed.
    Raises InvalidInput for a folder of another batch.
    """

    def __init__(self, folder: Path, setting: Mapping[str, Any]) -> None:
        self.results = folder / "results.jsonl"
        self.rejects = folder / "rejects.jsonl"
        self._setting = folder / "batch.json"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._begin(dict(setting))
            self.num_done = 1 + max(map(_last_number, (self.results, self.rejects)))
        except OSError as error:
            raise InvalidInput(f"{folder} cannot be written: {error.strerror}") from error

    def _begin(self, setting: dict[str, Any]) -> None:
        text = json.dumps(setting, indent=2)
        if not self._setting.exists():
            beside = self._setting.with_suffix(".new")
            beside.write_text(text, encoding="utf-8")
            beside.replace(self._setting)
            return
        earlier = json.loads(self._setting.read_text(encoding="utf-8"))
        differences = [
            f"{name} {earlier.get(name)!r}"
            for name in {**earlier, **setting}
            if earlier.get(name) != setting.get(name)
        ]
        if differences:
            raise InvalidInput(
                f"{self._setting} belongs to a batch with {', '.join(differences)}; pass another "
                "--output or remove it"
            )

    def add(self, outcome: Outcome) -> None:
        """Append the outcome of the next record; it is in its file when this returns."""
        line = json.dumps({"number": outcome.number, **outcome.content}) + "\n"
        with (self.rejects if outcome.rejected else self.results).open("ab") as file:
            file.write(line.encode())

    def outcomes(self) -> Iterator[dict[str, Any]]:
        """Results and rejects in the order of the input."""
        return heapq.merge(lines(self.results), lines(self.rejects), key=itemgetter("number"))


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file, read lazily; none without the file."""
    if path.exists():
        with path.open("rb") as file:
            yield from map(json.loads, file)


def _last_number(path: Path) -> int:
    """The number in the last whole line, after a cut line is removed; -1 without any."""
    if not path.exists():
        return -1
    last, end = b"", 0
    with path.open("rb+") as file:
        for line in file:
            if line.endswith(b"\n"):
                last, end = line, end + len(line)
        file.truncate(end)
    return int(json.loads(last)["number"]) if last else -1
