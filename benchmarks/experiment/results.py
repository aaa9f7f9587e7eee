"""The results of an evaluation: numbers without texts, in a file that is only appended to."""

from __future__ import annotations

import json
import os
import random
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from copy import copy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from attribot_rag.errors import InvalidInput

SourceSet = frozenset[int]


@dataclass(frozen=True)
class AnswerRecord:
    """The answer to an example.

    `question` is the digest of the question, `digest` of question and answer. `documents`
    [num_sources] is the first document of each source, `evidence` are the sources that annotators
    marked. `seconds` of generation are by the `clock` on the `hardware`, None for a recorded
    answer. Its linear datamodeling scores are over `num_random` random ablations.
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

    @property
    def groups(self) -> list[SourceSet]:
        """The sources of each document."""
        groups: dict[int, set[int]] = defaultdict(set)
        for source_id, document in enumerate(self.documents):
            groups[document].add(source_id)
        return list(map(frozenset, groups.values()))

    @property
    def random_ablations(self) -> list[SourceSet]:
        """Random halves of the sources, seeded by the example's key; more begin with fewer."""
        generator = random.Random(self.key)
        return [
            frozenset(i for i in range(len(self.documents)) if generator.random() < 0.5)
            for _ in range(self.num_random)
        ]


@dataclass(frozen=True)
class ScoreRecord:
    """The scores of a method, with these options, for an answer.

    `scores` [num_sources] are for the whole response in the method's unit, None for a source that
    was not scored. `tokens` and `flops` are measured, `expected_tokens` and `expected_flops` from
    the method's formula. `seconds` are by the `clock` on the `hardware`. `extrapolated`: measured
    on some rows only.
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
    extrapolated: bool = False
    hardware: str = ""


@dataclass(frozen=True)
class AblationRecord:
    """The exact score, in nats, of sources removed together."""

    kind: ClassVar[str] = "ablation"

    key: str
    digest: str
    removed: list[int]
    score: float


@dataclass(frozen=True)
class Setting:
    """The setting of a run. `weights` is a digest that tells checkpoints of one name apart."""

    kind: ClassVar[str] = "setting"

    model: str
    weights: str
    device: str
    clock: str
    hardware: str
    versions: str


Record = AnswerRecord | ScoreRecord | AblationRecord | Setting
_BEGINNING = '{"kind": "'
_KINDS: dict[str, type[Record]] = {
    kind.kind: kind for kind in (AnswerRecord, ScoreRecord, AblationRecord, Setting)
}


class ResultStore:
    """The records of a file, which a resumed run does not compute again.

    A line that was cut short, by a kill for example, is left out. Raises InvalidInput with the
    number of a line that is no record.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.answers: dict[str, AnswerRecord] = {}
        self.scores: dict[tuple[str, str, str], ScoreRecord] = {}
        self.ablations: dict[tuple[str, str], dict[SourceSet, float]] = {}
        self.settings: list[Setting] = []
        for record in self._read():
            self._keep(record)

    def add(self, *records: Record) -> None:
        """Append the records to the file in one write; they are on the disk when this returns."""
        lines = [json.dumps({"kind": record.kind, **asdict(record)}) + "\n" for record in records]
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
        """Add the setting of a run.

        Raises InvalidInput if earlier records were measured with another model, device or clock.
        """
        for earlier in self.settings:
            differences = [
                f"{name} {getattr(earlier, name)!r}, not {getattr(setting, name)!r}"
                for name in ("model", "weights", "device", "clock")
                if getattr(earlier, name) != getattr(setting, name)
            ]
            if differences:
                raise InvalidInput(
                    f"{self.path} was measured with {', '.join(differences)}; pass another --output"
                )
        if setting not in self.settings:
            self.add(setting)

    def scored(self, answered: AnswerRecord, method: str, options: str) -> ScoreRecord | None:
        """The scores of the method with exactly these options for the answer, None if unknown."""
        record = self.scores.get((answered.key, answered.digest, method))
        return record if record is not None and record.options == options else None

    def ablated(self, answered: AnswerRecord) -> dict[SourceSet, float]:
        """The exact scores of the answer's known ablations, by the removed sources."""
        return self.ablations.get((answered.key, answered.digest), {})

    def only(self, keys: Collection[str], methods: Mapping[str, str]) -> ResultStore:
        """A read-only view of these examples and of these methods (options by name), in order."""
        view = copy(self)
        view.answers = {key: answer for key, answer in self.answers.items() if key in keys}
        view.scores = {
            key: record
            for method, options in methods.items()
            for key, record in self.scores.items()
            if (record.method, record.options) == (method, options)
        }
        return view

    def data_sets(self) -> list[str]:
        """The names of the data sets, in the order of their first answers."""
        return list(dict.fromkeys(answer.data_set for answer in self.answers.values()))

    def methods(self) -> list[str]:
        """The names of the methods, in the order of their first scores, or of the view."""
        return list(dict.fromkeys(method for _, _, method in self.scores))

    def of_method(self, method: str) -> dict[str, ScoreRecord]:
        """The method's scores by example."""
        return {
            answer.key: record
            for answer in self.answers.values()
            if (record := self.scores.get((answer.key, answer.digest, method))) is not None
        }

    def _keep(self, record: Record) -> None:
        if isinstance(record, AnswerRecord):
            self.answers[record.key] = record
        elif isinstance(record, ScoreRecord):
            self.scores[record.key, record.digest, record.method] = record
        elif isinstance(record, Setting):
            self.settings.append(record)
        else:
            scores = self.ablations.setdefault((record.key, record.digest), {})
            scores[frozenset(record.removed)] = record.score

    def _read(self) -> Iterator[Record]:
        try:
            lines = self.path.read_text(encoding="utf-8").splitlines(keepends=True)
        except FileNotFoundError:
            return
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(f"{self.path} holds no results: {error}") from error
        for number, line in enumerate(lines, start=1):
            if line.startswith(_BEGINNING[: len(line) - 1]) and not line.rstrip().endswith("}"):
                continue  # cut short
            record = _parsed(line)
            if record is None:
                raise InvalidInput(
                    f"{self.path}:{number} is not a result of an evaluation; name another file or "
                    "folder, or remove the line"
                )
            yield record


def _parsed(line: str) -> Record | None:
    try:
        content: Any = json.loads(line)
        return _KINDS[content.pop("kind")](**content)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
