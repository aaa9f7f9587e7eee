"""What a batch leaves behind, so that it goes on where it was stopped."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from attribot_rag.errors import InvalidInput

_TAIL = 1 << 16


class Outcome(NamedTuple):
    """What became of the record with this number: a line of the results, or of the rejects."""

    number: int
    rejected: bool
    content: Mapping[str, Any]


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
        known = json.loads(self._setting.read_text(encoding="utf-8"))
        other = [name for name in {**known, **setting} if known.get(name) != setting.get(name)]
        if other:
            told = ", ".join(f"{name} {known.get(name)!r}" for name in other)
            raise InvalidInput(
                f"{self._setting} is of a batch with {told}; pass another --output, or remove it"
            )

    def add(self, outcomes: Sequence[Outcome]) -> None:
        """Append outcomes, in order; they are in the files when this returns."""
        for outcome in outcomes:
            line = json.dumps({"number": outcome.number, **outcome.content}) + "\n"
            with (self.rejects if outcome.rejected else self.results).open("ab") as file:
                file.write(line.encode())

    def attributed(self) -> Iterator[dict[str, Any]]:
        """The lines of the results, each read when it is wanted."""
        if self.results.exists():
            with self.results.open("rb") as file:
                yield from map(json.loads, file)

    @property
    def num_rejected(self) -> int:
        if not self.rejects.exists():
            return 0
        with self.rejects.open("rb") as file:
            return sum(1 for _ in file)


def _last_number(path: Path) -> int:
    """The number in the last whole line, after what follows it is removed; -1 without any."""
    if not path.exists():
        return -1
    with path.open("rb+") as file:
        end = _after_last_line(file, file.seek(0, os.SEEK_END))
        file.truncate(end)
        start = _after_last_line(file, end - 1) if end else 0
        file.seek(start)
        line = file.read(end - start)
    return int(json.loads(line)["number"]) if line else -1


def _after_last_line(file: Any, end: int) -> int:
    """The place behind the last line feed before `end`; 0 without one."""
    while end > 0:
        start = max(0, end - _TAIL)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        if found >= 0:
            return int(start + found + 1)
        end = start
    return 0
