"""What an evaluation found, as numbers without texts, in a file that is only appended to."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

from attribot_rag.errors import InvalidInput


@dataclass(frozen=True)
class Answered:
    """One example's answer.

    `question` is the digest of what was asked, `digest` that of the answer too. `documents` is the
    first document that holds each source, `evidence` are the sources that people marked. Seconds
    are by the `clock` on the `hardware`, and None for an answer that was given. Its linear
    datamodeling scores are over `num_random` random ablations.
    """

    kind: ClassVar[str] = "answer"

    key: str
    question: str
    digest: str
    prompt_tokens: int
    context_tokens: int
    response_tokens: int
    documents: list[int]
    evidence: list[int]
    seconds: float | None
    clock: str = "wall"
    hardware: str = ""
    num_random: int = 16

    @property
    def data_set(self) -> str:
        return self.key.split("/", 1)[0]


@dataclass(frozen=True)
class Scored:
    """What one method made of one answer, by its name and options.

    `scores` [num_sources] are for the whole response, None for a source that was not scored.
    `tokens` and `flops` are what went through models, the expected ones by the cost model.
    `seconds` are by the `clock` on the `hardware`. `extrapolated` says that only some rows were
    run, and the rest reckoned.
    """

    kind: ClassVar[str] = "scores"

    key: str
    digest: str
    method: str
    options: str
    scores: list[float | None]
    tokens: int
    flops: float
    expected_tokens: float
    expected_flops: float
    seconds: float
    clock: str = "wall"
    agreement: float | None = None
    extrapolated: bool = False
    hardware: str = ""


@dataclass(frozen=True)
class Ablated:
    """The exact score of some sources removed together."""

    kind: ClassVar[str] = "ablation"

    key: str
    digest: str
    removed: list[int]
    score: float


@dataclass(frozen=True)
class Setting:
    """What a run was made with. `weights` tells checkpoints of one name apart."""

    kind: ClassVar[str] = "setting"

    model: str
    weights: str
    device: str
    clock: str
    hardware: str
    versions: str

    def differences(self, other: Setting) -> list[str]:
        """What makes figures of the two different things."""
        names = ("model", "weights", "device", "clock")
        pairs = ((name, getattr(self, name), getattr(other, name)) for name in names)
        return [f"{name} {mine!r}, not {its!r}" for name, mine, its in pairs if mine != its]


Record = Answered | Scored | Ablated | Setting
_BEGINNING = '{"kind": "'
_KINDS: dict[str, type[Record]] = {one.kind: one for one in (Answered, Scored, Ablated, Setting)}


class Results:
    """The records of a file; what is in it is not computed again.

    A line that was cut short, by a kill say, is left out. Raises InvalidInput, naming the line, for
    one that is none of ours.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.answers: dict[str, Answered] = {}
        self.scores: dict[tuple[str, str, str], Scored] = {}
        self.ablations: dict[tuple[str, str], dict[frozenset[int], Ablated]] = {}
        self.settings: list[Setting] = []
        for record in self._read():
            self._keep(record)

    def add(self, *records: Record) -> None:
        """Append to the file, in one write that has reached the disk when this returns."""
        lines = [json.dumps({"kind": one.kind, **asdict(one)}) + "\n" for one in records]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab+") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - 1))
            cut_short = file.read() not in (b"", b"\n")
            file.write(("\n" * cut_short + "".join(lines)).encode())
            file.flush()
            os.fsync(file.fileno())
        for record in records:
            self._keep(record)

    def begin(self, setting: Setting) -> None:
        """Keep what a run is made with.

        Raises InvalidInput if what is known was measured with another model, device or clock.
        """
        for known in self.settings:
            if differences := known.differences(setting):
                raise InvalidInput(
                    f"{self.path} was measured with {', '.join(differences)}; pass another --output"
                )
        if setting not in self.settings:
            self.add(setting)

    def scored(self, key: str, digest: str, method: str, options: str) -> Scored | None:
        """What the method, with just these options, made of the answer, if that is known."""
        found = self.scores.get((key, digest, method))
        return found if found is not None and found.options == options else None

    def ablated(self, key: str, digest: str) -> dict[frozenset[int], Ablated]:
        """All that is known of the answer's ablations."""
        return self.ablations.get((key, digest), {})

    def only(self, keys: Collection[str], methods: Mapping[str, str]) -> Results:
        """The same with no other examples and methods, with just these options; not to add to.

        Methods are in the order in which they are given here.
        """
        view = Results.__new__(Results)
        view.path = self.path
        view.answers = {key: one for key, one in self.answers.items() if key in keys}
        order = {method: place for place, method in enumerate(methods)}
        wanted = (
            one for one in self.scores.items() if methods.get(one[1].method) == one[1].options
        )
        view.scores = dict(sorted(wanted, key=lambda one: order[one[1].method]))
        view.ablations = self.ablations
        view.settings = self.settings
        return view

    def data_sets(self) -> list[str]:
        """In the order in which they were first asked."""
        return list(dict.fromkeys(one.data_set for one in self.answers.values()))

    def methods(self) -> list[str]:
        """In the order in which they were first run, or are wanted."""
        return list(dict.fromkeys(method for _, _, method in self.scores))

    def of_method(self, method: str) -> dict[str, Scored]:
        """By example, for the answers that are known."""
        return {
            answer.key: found
            for answer in self.answers.values()
            if (found := self.scores.get((answer.key, answer.digest, method))) is not None
        }

    def _keep(self, record: Record) -> None:
        if isinstance(record, Answered):
            self.answers[record.key] = record
        elif isinstance(record, Scored):
            self.scores[record.key, record.digest, record.method] = record
        elif isinstance(record, Setting):
            self.settings.append(record)
        else:
            known = self.ablations.setdefault((record.key, record.digest), {})
            known[frozenset(record.removed)] = record

    def _read(self) -> Iterator[Record]:
        try:
            lines = self.path.read_text(encoding="utf-8").splitlines(keepends=True)
        except FileNotFoundError:
            return
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(f"{self.path} holds no results: {error}") from error
        for number, line in enumerate(lines, start=1):
            if line.startswith(_BEGINNING[: len(line) - 1]) and not line.rstrip().endswith("}"):
                continue  # cut short, and perhaps appended to later
            record = _parsed(line)
            if record is None:
                raise InvalidInput(
                    f"{self.path}:{number} is no result of an evaluation; name another file or "
                    "folder, or remove the line"
                )
            yield record


def _parsed(line: str) -> Record | None:
    try:
        content: Any = json.loads(line)
        kind = _KINDS[content.pop("kind")]
        known = {one.name for one in fields(kind)}
        return kind(**content) if set(content) <= known else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
