"""Tables of outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from benchmarks.experiment.tables import markdown_table
from benchmarks.halves import share
from benchmarks.labelled.outcome import SentenceOutcome

_COUNTS: dict[str, Callable[[SentenceOutcome], bool]] = {
    "right": lambda outcome: outcome.is_right,
    "false citation": lambda outcome: outcome.has_false,
    "uncited cause": lambda outcome: outcome.has_missing,
}


def kinds_table(outcomes: Sequence[SentenceOutcome]) -> str:
    """A row for each kind; all counts but the first two are of applicable sentences."""
    rows = []
    for kind in dict.fromkeys(outcome.case.kind for outcome in outcomes):
        of_kind = [outcome for outcome in outcomes if outcome.case.kind == kind]
        applicable = [outcome for outcome in of_kind if outcome.is_applicable]
        counts = [sum(map(count, applicable)) for count in _COUNTS.values()]
        wrong = Counter(outcome.verdict_kind for outcome in applicable if not outcome.is_right)
        otherwise = ", ".join(f"{number} {verdict}" for verdict, number in wrong.items())
        numbers = [len(of_kind), len(of_kind) - len(applicable), *counts]
        rows.append([kind, *map(str, numbers), otherwise])
    header = ["kind", "sentences", "not applicable", *_COUNTS, "wrong are"]
    return markdown_table(header, rows)


def totals_table(outcomes: Sequence[SentenceOutcome]) -> str:
    """Shares of the applicable sentences, and the share of all that are not."""
    applicable = [outcome for outcome in outcomes if outcome.is_applicable]
    rows = [
        [name, share(sum(map(count, applicable)), len(applicable))]
        for name, count in _COUNTS.items()
    ]
    rows.append(["not applicable", share(len(outcomes) - len(applicable), len(outcomes))])
    return markdown_table(["all kinds", "sentences"], rows)


def wrong_cases(outcomes: Sequence[SentenceOutcome]) -> Iterator[str]:
    """The verdict on each wrong sentence, with the scores of sources, or why no label applies.

    `*` marks labelled sources, `>` cited sources; other sources are listed from 1 nat on.
    """
    for outcome in outcomes:
        label = f"{outcome.case.id} sentence {outcome.index}: {outcome.expected.verdict}"
        worth = f"the label is worth {outcome.worth.effect:.1f}"
        if not outcome.is_applicable:
            yield f"{label} does not apply, {worth}, {outcome.worth.reason}"
        elif not outcome.is_right:
            yield f"{label} got {outcome.verdict_kind}, {worth}\n      {outcome.details}"
