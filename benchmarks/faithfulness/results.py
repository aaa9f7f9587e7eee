"""One line of numbers for each answer and method, and the tables made of them."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Result:
    """What one method made of one answer.

    `average_precision` and `recall` are None where exact leave-one-out has no outliers; `tokens`
    went through the model, naive leave-one-out takes `naive_tokens`. `seconds` are None unless the
    machine was measured, `naive_seconds` then those of the reference with its head on the response.
    """

    key: str
    digest: str
    method: str
    num_sources: int
    average_precision: float | None
    recall: float | None
    pearson: float | None
    tokens: int
    naive_tokens: int
    agreement: float | None = None
    seconds: float | None = None
    naive_seconds: float | None = None

    @property
    def data_set(self) -> str:
        return self.key.split("/")[0]


class ResultStore:
    """A file of JSON lines; what is in it is not computed again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path.exists() else []
        known = [Result(**json.loads(line)) for line in lines if line.endswith("}")]
        self._known = {(one.key, one.digest, one.method): one for one in known}

    @property
    def results(self) -> list[Result]:
        return list(self._known.values())

    def get(self, key: str, digest: str, method: str, compute: Callable[[], Result]) -> Result:
        if (key, digest, method) not in self._known:
            result = compute()
            self._known[key, digest, method] = result
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a+") as file:
                file.seek(0)
                cut_short = not (file.read() or "\n").endswith("\n")
                file.write("\n" * cut_short + json.dumps(asdict(result)) + "\n")
        return self._known[key, digest, method]


def table(results: Iterable[Result], methods: Sequence[str]) -> str:
    """A Markdown table, one row for each method."""
    lines = [
        "| method | mAP | recall in top 5 | Pearson | tokens (median) | fewer tokens than naive "
        "| seconds (median) | times faster than naive |",
        "|---|---|---|---|---|---|---|---|",
    ]
    held = list(results)
    for method in methods:
        own = [one for one in held if one.method == method]
        if own:
            cells = [
                method,
                _mean(one.average_precision for one in own),
                _mean(one.recall for one in own),
                _mean(one.pearson for one in own),
                f"{statistics.median(one.tokens for one in own):,.0f}",
                f"{statistics.median(one.naive_tokens / one.tokens for one in own):.1f}",
                _median((one.seconds for one in own), ".2f"),
                _median(
                    (
                        one.naive_seconds / one.seconds
                        for one in own
                        if one.seconds and one.naive_seconds
                    ),
                    ".1f",
                ),
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _mean(values: Iterable[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{statistics.mean(known):.3f}" if known else "–"


def _median(values: Iterable[float | None], form: str) -> str:
    known = [value for value in values if value is not None]
    return f"{statistics.median(known):{form}}" if known else "–"
