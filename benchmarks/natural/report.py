"""The table of judged answers, and their wrong sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from benchmarks.experiment.tables import markdown_table
from benchmarks.halves import share
from benchmarks.natural.truth import MIN_RELIANCE, JudgedSentence


@dataclass(frozen=True)
class JudgedAnswer:
    """The sentences of an answer to the question with this key."""

    key: str
    sentences: tuple[JudgedSentence, ...]


_COUNTS: dict[str, Callable[[JudgedSentence], bool]] = {
    "cited": lambda sentence: bool(sentence.cited),
    "false citation": lambda sentence: sentence.truth.is_false,
    "reliance of 6 nats or more, not cited": lambda sentence: (
        not sentence.cited and sentence.truth.reliance >= MIN_RELIANCE
    ),
    "missed cause": lambda sentence: sentence.truth.is_missed,
    "  not cited, one source suffices": lambda sentence: sentence.truth.is_carried,
    "  not cited, one source has 4 nats or more": lambda sentence: sentence.truth.is_caused,
    "open": lambda sentence: sentence.verdict.kind == "open" and sentence.verdict.reason != "cut",
    "cut": lambda sentence: sentence.verdict.reason == "cut",
    "unsupported": lambda sentence: sentence.verdict.kind == "unsupported",
    "follows": lambda sentence: sentence.verdict.kind == "follows",
}


def table(judged: Sequence[JudgedAnswer]) -> str:
    """A column for all answers and for each data set, with shares of their sentences."""
    columns = {"all": list(judged)}
    for answer in judged:
        columns.setdefault(answer.key.split("/")[0], []).append(answer)
    sentences = [[*chain(*(answer.sentences for answer in half))] for half in columns.values()]
    rows = [["answers", *(str(len(column)) for column in columns.values())]]
    for name, count in _COUNTS.items():
        rows.append([name, *(share(sum(map(count, every)), len(every)) for every in sentences)])
    return markdown_table(["", *columns], rows)


def wrong_sentences(judged: Sequence[JudgedAnswer]) -> Iterator[str]:
    """False citations, missed causes and open sentences, with the truth about them."""
    for answer in judged:
        for sentence in answer.sentences:
            truth, verdict = sentence.truth, sentence.verdict
            if truth.is_false or truth.is_missed or verdict.kind == "open":
                outcome = f"{verdict.kind}, {verdict.reason or verdict.relation}; {truth}"
                lines = [f"{answer.key} {sentence.text!r}", outcome, *map(repr, sentence.cited)]
                yield "\n      ".join(lines)
