"""Tables of outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from scipy.stats import binomtest

from benchmarks.labelled.outcome import SentenceOutcome

_COUNTS: dict[str, Callable[[SentenceOutcome], bool]] = {
    "right": lambda one: one.is_right,
    "false citation": lambda one: one.has_false,
    "uncited cause": lambda one: one.has_missing,
    "wide citation": lambda one: one.has_wide,
}


def kinds_table(judged: Sequence[SentenceOutcome]) -> str:
    """A row for each kind; all counts but the first two are of applicable sentences."""
    names = ["kind", "sentences", "not applicable", *_COUNTS]
    lines = [_line(names), _line(["---"] * len(names))]
    for kind in dict.fromkeys(one.case.kind for one in judged):
        held = [one for one in judged if one.case.kind == kind]
        applicable = [one for one in held if one.is_applicable]
        counts = [sum(map(count, applicable)) for count in _COUNTS.values()]
        lines.append(_line([kind, len(held), len(held) - len(applicable), *counts]))
    return "\n".join(lines)


def totals_table(judged: Sequence[SentenceOutcome]) -> str:
    """Shares of the applicable sentences, with Wilson intervals."""
    applicable = [one for one in judged if one.is_applicable]
    lines = [_line(["all kinds", "sentences", "share", "95 %"]), _line(["---"] * 4)]
    for name, count in _COUNTS.items():
        found, total = sum(map(count, applicable)), len(applicable)
        if total:
            interval = binomtest(found, total).proportion_ci(method="wilson")
            held = f"{interval.low:.1%} to {interval.high:.1%}"
            lines.append(_line([name, f"{found} of {total}", f"{found / total:.1%}", held]))
    return "\n".join(lines)


def confusion_table(judged: Sequence[SentenceOutcome]) -> str:
    """Counts of verdicts by kind and label; applicable sentences only."""
    found = Counter(
        (one.case.kind, one.expected.verdict, one.given) for one in judged if one.is_applicable
    )
    given = sorted({verdict for _, _, verdict in found})
    lines = [_line(["kind", "label", *given]), _line(["---"] * (2 + len(given)))]
    for kind, label in dict.fromkeys((kind, label) for kind, label, _ in found):
        lines.append(_line([kind, label, *(found[kind, label, one] or "" for one in given)]))
    return "\n".join(lines)


def wrong_cases(judged: Sequence[SentenceOutcome]) -> Iterator[str]:
    """The verdict on each wrong sentence, with the scores of sources.

    `*` marks labelled sources, `>` cited sources; other sources are listed from 1 nat on.
    """
    for one in judged:
        if one.is_applicable and not one.is_right:
            yield (
                f"{one.case.id} sentence {one.index}: {one.expected.verdict} got {one.given}, "
                f"the label is worth {one.worth.effect:.1f}\n      {one.details}"
            )


def not_applicable(judged: Sequence[SentenceOutcome]) -> Iterator[str]:
    """The labels that do not apply to the model, with reasons."""
    for one in judged:
        if not one.is_applicable:
            yield f"{one.case.id} sentence {one.index}: {one.worth.effect:.1f}, {one.worth.reason}"


def _line(cells: Sequence[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"
