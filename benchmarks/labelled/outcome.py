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


@dataclass(frozen=True, kw_only=True)
class SentenceOutcome:
    """A sentence with its label, its verdict, and their differences.

    `verdict_kind` is a kind of verdict, or the name of the error. `has_false`: a cited source is no
    labelled source. `has_missing`: a labelled source is not cited. `details` is
    text for the reader.
    """

    case: LabelledCase
    index: int
    worth: Worth
    verdict_kind: str
    is_right: bool = False
    has_false: bool = False
    has_missing: bool = False
    details: str = ""

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
        attribution = attributor.attribute(case.prompt, case.answer, case.documents)
    except AttributionError as error:
        return [
            SentenceOutcome(
                case=case,
                index=index,
                worth=worth,
                verdict_kind=type(error).__name__,
                has_missing=bool(case.expected[index].sources),
                details=str(error)[:100],
            )
            for index, worth in enumerate(worths)
        ]
    verdicts = attribution.verdicts[: len(worths)]
    return [
        _judged(case, index, worth, attribution, verdict)
        for index, (worth, verdict) in enumerate(zip_longest(worths, verdicts))
    ]


def _judged(
    case: LabelledCase, index: int, worth: Worth, attribution: Attribution, verdict: Verdict
) -> SentenceOutcome:
    expected = case.expected[index]
    cited = [attribution.sources[source_id] for source_id in verdict.source_ids]
    return SentenceOutcome(
        case=case,
        index=index,
        worth=worth,
        verdict_kind=verdict.kind,
        is_right=any(_is_right(case, label, verdict, cited) for label in expected.alternatives),
        has_false=_has_false(case, expected, cited),
        has_missing=_has_missing(case, expected, cited),
        details=_details(case, attribution, verdict, expected),
    )


def _is_right(
    case: LabelledCase, label: ExpectedVerdict, verdict: Verdict, cited: Sequence[Source]
) -> bool:
    same_relation = label.verdict != "redundant" or label.relation == verdict.relation
    return (
        (label.verdict, label.follows) == (verdict.kind, verdict.follows)
        and same_relation
        and not _has_false(case, label, cited)
        and not _has_missing(case, label, cited)
    )


def _has_false(case: LabelledCase, label: ExpectedVerdict, cited: Sequence[Source]) -> bool:
    return not all(any(covers(case, source, text) for text in label.sources) for source in cited)


def _has_missing(case: LabelledCase, label: ExpectedVerdict, cited: Sequence[Source]) -> bool:
    return not all(any(covers(case, source, text) for source in cited) for text in label.sources)


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
    case: LabelledCase, attribution: Attribution, verdict: Verdict, expected: ExpectedVerdict
) -> str:
    relation = f", {verdict.relation}" if verdict.kind == "redundant" else ""
    lines = [f"reliance {verdict.reliance or 0:.1f}, effect {verdict.effect or 0:.1f}{relation}"]
    for source in attribution.sources:
        effect = attribution.score(source.id, verdict.start, verdict.end)
        is_labelled = any(covers(case, source, label) for label in expected.sources)
        is_cited = source.id in verdict.source_ids
        if is_labelled or is_cited or (effect or 0) >= 1:
            score = "  none" if effect is None else f"{effect:6.1f}"
            mark = ("*" if is_labelled else " ") + (">" if is_cited else " ")
            lines.append(f"{mark}{score} {source.text.strip()[:90]!r}")
    return "\n      ".join(lines)
