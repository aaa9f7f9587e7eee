"""The verdict on a sentence, compared with its label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from attribot_rag import Attribution, Attributor
from attribot_rag.attribution import Verdict
from attribot_rag.context import Source
from attribot_rag.errors import AttributionError
from benchmarks.labelled.applicability import Worth
from benchmarks.labelled.cases import ExpectedVerdict, LabelledCase, LabelledSource

_WIDE = 2


@dataclass(frozen=True, kw_only=True)
class SentenceOutcome:
    """A sentence with its label, its verdict, and their differences.

    `given` is a kind of verdict, or the name of the error. `has_false`: a cited source is no
    labelled source. `has_missing`: a labelled source is not cited. `has_wide`: a cited source is
    more than twice as long as the labelled sentence. `details` is text for the reader.
    """

    case: LabelledCase
    index: int
    given: str
    is_right: bool
    has_false: bool
    has_missing: bool
    has_wide: bool
    worth: Worth
    details: str

    @property
    def expected(self) -> ExpectedVerdict:
        return self.case.expected[self.index]

    @property
    def is_applicable(self) -> bool:
        return self.worth.reason is None


def judge_case(
    attributor: Attributor, case: LabelledCase, worths: Sequence[Worth]
) -> list[SentenceOutcome]:
    """Attribute the answer, and compare every sentence with its label."""
    try:
        found = attributor.attribute(case.prompt, case.answer, case.documents)
    except AttributionError as error:
        return [_refused(case, place, worth, error) for place, worth in enumerate(worths)]
    verdicts = found.verdicts[: len(worths)]
    return [
        _judged(case, place, worth, found, verdict)
        for place, (worth, verdict) in enumerate(zip_longest(worths, verdicts))
    ]


def _refused(
    case: LabelledCase, place: int, worth: Worth, error: AttributionError
) -> SentenceOutcome:
    return SentenceOutcome(
        case=case,
        index=place,
        given=type(error).__name__,
        is_right=False,
        has_false=False,
        has_missing=bool(case.expected[place].sources),
        has_wide=False,
        worth=worth,
        details=str(error)[:100],
    )


def _judged(
    case: LabelledCase, place: int, worth: Worth, found: Attribution, verdict: Verdict
) -> SentenceOutcome:
    expected = case.expected[place]
    cited = [found.sources[one] for one in verdict.source_ids]
    return SentenceOutcome(
        case=case,
        index=place,
        given=verdict.kind,
        is_right=any(_is_right(case, one, verdict, cited) for one in expected.alternatives),
        has_false=bool(_false(case, expected, cited)),
        has_missing=bool(_missing(case, expected, cited)),
        has_wide=any(
            covers(case, source, one) and len(source.text) > _WIDE * len(one.text)
            for source in cited
            for one in expected.sources
        ),
        worth=worth,
        details=_details(case, found, verdict, expected),
    )


def _is_right(
    case: LabelledCase, label: ExpectedVerdict, verdict: Verdict, cited: Sequence[Source]
) -> bool:
    same_relation = label.verdict != "redundant" or label.relation == verdict.relation
    return (
        (label.verdict, label.follows) == (verdict.kind, verdict.follows)
        and same_relation
        and not _false(case, label, cited)
        and not _missing(case, label, cited)
    )


def _false(case: LabelledCase, label: ExpectedVerdict, cited: Sequence[Source]) -> list[Source]:
    return [one for one in cited if not any(covers(case, one, held) for held in label.sources)]


def _missing(
    case: LabelledCase, label: ExpectedVerdict, cited: Sequence[Source]
) -> list[LabelledSource]:
    return [held for held in label.sources if not any(covers(case, one, held) for one in cited)]


def covers(case: LabelledCase, source: Source, label: LabelledSource) -> bool:
    """Whether the source holds the labelled text or is a part of it, up to half of the shorter."""
    start = case.documents[label.document].index(label.text)
    end = start + len(label.text)
    return any(
        2 * (min(end, span.end) - max(start, span.start))
        >= max(1, min(end - start, span.end - span.start))
        for occurrence in source.occurrences
        for span in occurrence.spans
        if span.document == label.document
    )


def _details(
    case: LabelledCase, found: Attribution, verdict: Verdict, expected: ExpectedVerdict
) -> str:
    tokens = found.tokens_in(verdict.start, verdict.end)
    lines = [f"reliance {verdict.reliance or 0:.1f}, effect {verdict.effect or 0:.1f}"]
    if verdict.kind == "redundant":
        lines[0] += f", {verdict.relation}"
    for source in found.sources:
        row = found.token_scores[source.id]
        effect = None if row is None else sum(row[i] for i in tokens)
        labelled = any(covers(case, source, one) for one in expected.sources)
        mark = ("*" if labelled else " ") + (">" if source.id in verdict.source_ids else " ")
        if labelled or source.id in verdict.source_ids or (effect or 0) >= 1:
            score = "  none" if effect is None else f"{effect:6.1f}"
            lines.append(f"{mark}{score} {source.text.strip()[:90]!r}")
    return "\n      ".join(lines)
