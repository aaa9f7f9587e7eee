"""The table of judged answers, and their wrong sentences."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from scipy.stats import binomtest

from attribot_rag.evaluation.tables import markdown_table
from benchmarks.natural.truth import MIN_RELIANCE, JudgedSentence


@dataclass(frozen=True)
class JudgedAnswer:
    """The sentences of an answer, and what it took to attribute it if that was measured.

    `tokens` went through the model for it; `price` is its CPU seconds over those of the answer.
    """

    key: str
    sentences: tuple[JudgedSentence, ...]
    tokens: int | None = None
    price: float | None = None


_COUNTS: dict[str, Callable[[JudgedSentence], bool]] = {
    "cited": lambda sentence: bool(sentence.cited),
    "false citation": lambda sentence: sentence.truth.is_false,
    "reliance of 6 nats or more, not cited": lambda sentence: (
        not sentence.cited and sentence.truth.reliance >= MIN_RELIANCE
    ),
    "missed cause": lambda sentence: sentence.truth.is_missed,
    "open": lambda sentence: sentence.verdict.kind == "open" and sentence.verdict.reason != "cut",
    "cut": lambda sentence: sentence.verdict.reason == "cut",
    "unsupported": lambda sentence: sentence.verdict.kind == "unsupported",
    "follows": lambda sentence: sentence.verdict.kind == "follows",
}


def table(judged: Sequence[JudgedAnswer]) -> str:
    """A column for all answers and for each data set; shares of sentences have Wilson intervals."""
    columns = {"all": list(judged)}
    for answer in judged:
        columns.setdefault(answer.key.split("/")[0], []).append(answer)
    cells = [_column(answers) for answers in columns.values()]
    rows = [[name, *(column[name] for column in cells)] for name in cells[0]]
    return markdown_table(["", *columns], rows)


def _column(judged: Sequence[JudgedAnswer]) -> dict[str, str]:
    sentences = [sentence for answer in judged for sentence in answer.sentences]
    tokens = [answer.tokens for answer in judged if answer.tokens is not None]
    prices = [answer.price for answer in judged if answer.price is not None]
    return {
        "answers": str(len(judged)),
        "sentences": str(len(sentences)),
        **{
            name: _share(sum(map(count, sentences)), len(sentences))
            for name, count in _COUNTS.items()
        },
        "sources of a citation": _averages([len(one.cited) for one in sentences if one.cited]),
        "tokens of an attribution": _averages(tokens),
        "attribution / generation": _averages(prices),
    }


def _share(count: int, total: int) -> str:
    if not total:
        return "–"
    interval = binomtest(count, total).proportion_ci(method="wilson")
    return f"{count} ({count / total:.1%}; {interval.low:.1%} to {interval.high:.1%})"


def _averages(values: Sequence[float]) -> str:
    if not values:
        return "–"
    form = ",.0f" if max(values) >= 100 else ".2f"
    return f"mean {statistics.fmean(values):{form}}, median {statistics.median(values):{form}}"


def wrong_sentences(judged: Sequence[JudgedAnswer]) -> Iterator[str]:
    """False citations, missed causes and open sentences, with the truth about them."""
    for answer in judged:
        for sentence in answer.sentences:
            truth, verdict = sentence.truth, sentence.verdict
            if truth.is_false or truth.is_missed or verdict.kind == "open":
                yield "\n      ".join(
                    [
                        f"{answer.key} {sentence.text!r}",
                        f"{verdict.kind}, {verdict.reason or verdict.relation}; {truth}",
                        *map(repr, sentence.cited),
                    ]
                )
