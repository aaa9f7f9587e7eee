"""The files of a batch, from which a stopped batch continues."""

from __future__ import annotations

import heapq
import json
from array import array
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import takewhile
from operator import itemgetter
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from attribot_batch.records import Log
from attribot_batch.workers import Outcome
from attribot_rag.errors import InvalidInput


class BatchFolder:
    """Results and rejects, one line for each record, written as soon as it is finished.

    Both files are only appended to, and each line has its record's number and digest. So the lines
    show which records are done, in any order. A last line that was cut short, for example by a
    kill, is removed when the batch begins. Any other line that no batch wrote, and a record that is
    there twice, raise InvalidInput, and nothing is changed.
    """

    def __init__(self, folder: Path) -> None:
        self.results = folder / "results.jsonl"
        self.rejects = folder / "rejects.jsonl"
        self._setting = folder / "batch.json"
        self._found = self._read_setting()
        self._digests = array("Q")  # by the numbers of the records; 0 for one that is not done
        self._unsorted = set[Path]()
        paths = [path for path in (self.results, self.rejects) if path.exists()]
        self._ends = {path: self._read(path) for path in paths}

    @classmethod
    @contextmanager
    def locked(cls, folder: Path) -> Iterator[BatchFolder]:
        """The folder, for this batch alone. It is made if it does not exist.

        Raises InvalidInput if another batch uses it, or if it cannot be written.
        """
        with ExitStack() as held:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                held.enter_context(FileLock(folder / "batch.lock", timeout=0))
                opened = cls(folder)
            except Timeout as error:
                raise InvalidInput(
                    f"another batch writes to {folder}; wait until it has ended, or pass another "
                    "--output"
                ) from error
            except OSError as error:
                path = error.filename or folder
                raise InvalidInput(f"{path} cannot be written: {error.strerror}") from error
            yield opened

    @property
    def num_done(self) -> int:
        return sum(map(bool, self._digests))

    def is_done(self, number: int) -> bool:
        return number < len(self._digests) and bool(self._digests[number])

    def begin(self, setting: Mapping[str, Any], log: Log, *, anyway: bool) -> None:
        """Write down the settings, and compare them with those of the results in the folder.

        Raises InvalidInput for a difference, and for a record that was changed since it was done.
        With `anyway`, the batch goes on, and keeps the earlier settings as `earlier`.
        """
        found = dict(self._found)
        history = found.pop("earlier", [])
        names = {**found, **setting} if any(path.stat().st_size for path in self._ends) else ()
        differences = [
            f"{name} was {found.get(name)!r}, now it is {setting.get(name)!r}"
            for name in names
            if found.get(name) != setting.get(name)
        ]
        if differences and not anyway:
            told = "; ".join(differences) if found else "it is not there"
            raise InvalidInput(
                f"{self._setting} does not say that these settings made the results beside it: "
                f"{told}; pass another --output, or go on with both by --anyway"
            )
        if not anyway:
            self._compare(log)
        if differences:
            history = [*history, {**found, "records": self.num_done}]
        text = json.dumps({**setting, **({"earlier": history} if history else {})}, indent=2)
        beside = self._setting.with_suffix(".new")
        beside.write_text(f"{text}\n", encoding="utf-8")
        beside.replace(self._setting)
        for path, end in self._ends.items():
            with path.open("rb+") as file:
                file.truncate(end)

    def add(self, outcome: Outcome, digest: str) -> None:
        """Append the outcome of a record. It is in its file when this returns."""
        line = {"number": outcome.number, "digest": digest, **outcome.content}
        self._note(outcome.number, digest)
        with (self.rejects if outcome.rejected else self.results).open("ab") as file:
            file.write(_line(line))

    def finish(self) -> None:
        """Check the files, and sort their lines in the order of the input.

        Raises InvalidInput if a record is there twice, or is missing.
        """
        written, self._digests, self._unsorted = self._digests, array("Q"), set()
        for path in (self.results, self.rejects):
            if path.exists():
                self._read(path)
        if self._digests != written:
            raise InvalidInput(
                f"{self.results} and {self.rejects} do not have the records that were written to "
                "them; has something else changed them?"
            )
        for path in self._unsorted:
            beside = path.with_suffix(".new")
            with beside.open("wb") as file:
                for outcome in self.outcomes():
                    if ("error" in outcome) == (path == self.rejects):
                        file.write(_line(outcome))
            beside.replace(path)

    def outcomes(self) -> Iterator[dict[str, Any]]:
        """Results and rejects in the order of the input. Only a few are in memory at a time."""
        number, ahead = 0, dict[int, dict[str, Any]]()
        for outcome in heapq.merge(
            lines(self.results), lines(self.rejects), key=itemgetter("number")
        ):
            ahead[outcome["number"]] = outcome
            while number < len(self._digests) and (number in ahead or not self.is_done(number)):
                if number in ahead:
                    yield ahead.pop(number)
                number += 1

    def _read_setting(self) -> dict[str, Any]:
        """The settings of the results in the folder; empty if there are none."""
        if not self._setting.exists():
            return {}
        try:
            return dict(json.loads(self._setting.read_bytes()).items())
        except (ValueError, AttributeError) as error:
            line = getattr(error, "lineno", 1)
            raise InvalidInput(
                f"{self._setting}, line {line}, is not what a batch wrote: {error}; nothing was "
                "changed. Restore the file, or remove it and go on by --anyway"
            ) from error

    def _compare(self, log: Log) -> None:
        """Raises InvalidInput if finished records of the log have changed."""
        number = -1
        for number, entry in takewhile(lambda item: item[0] < len(self._digests), enumerate(log)):
            if self.is_done(number) and self._digests[number] != _value(entry.digest):
                raise InvalidInput(
                    f"record {number} of {log.path} (from 0) was changed since it was attributed: "
                    f"{self.results.parent} has the digest {self._digests[number]:016x}, the file "
                    f"now {entry.digest}; pass another --output, or keep what is there by --anyway"
                )
        if number + 1 < len(self._digests):
            raise InvalidInput(
                f"{log.path} has {number + 1} records, {self.results.parent} has outcomes of "
                f"{len(self._digests)}; pass another --output, or keep what is there by --anyway"
            )

    def _note(self, number: int, digest: str) -> None:
        """Note that a record is done. Raises ValueError if it was done already."""
        if self.is_done(number):
            raise ValueError(f"it repeats record {number}")
        self._digests.extend([0] * (number + 1 - len(self._digests)))
        self._digests[number] = _value(digest)

    def _read(self, path: Path) -> int:
        """Note the records of a file. Returns where its last whole line ends."""
        end, last = 0, -1
        with path.open("rb") as file:
            for place, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    break
                try:
                    content = json.loads(line)
                    number = content["number"]
                    if not isinstance(number, int) or number < 0:
                        raise ValueError(f"number is {number!r}")
                    content["summary" if path == self.results else "error"]
                    self._note(number, content["digest"])
                except (ValueError, TypeError, LookupError, OverflowError, MemoryError) as error:
                    raise InvalidInput(
                        f"{path}, line {place}, is no line that a batch wrote: {error}; nothing "
                        "was changed. Restore the file, or remove the line: the same command then "
                        "attributes its record again"
                    ) from error
                if number < last:
                    self._unsorted.add(path)
                end, last = end + len(line), number
        return end


def _line(outcome: Mapping[str, Any]) -> bytes:
    return f"{json.dumps(outcome)}\n".encode()


def _value(digest: str) -> int:
    return int(digest, 16) or 1


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file, one at a time; none if there is no file."""
    if path.exists():
        with path.open("rb") as file:
            yield from map(json.loads, file)
