"""Precision and recall of the checks of values on labelled sentences, by kind and language.

    python -m benchmarks.value_checks [--split held_out] [--annotator NumbersInDocuments]

Rules may be set by the calibration half, whose wrong cases are printed. For the held-out half only
counts are printed, unless `--held-out-cases` is given. The cases are in cases.tsv: the half, the
language, the kind of the altered value or '-', the sentence with the altered value in [[ ]], and
the sentences that it cites.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from attribot_checks import ValueChecks
from attribot_rag.annotation import (
    AnnotatedSentence,
    Annotator,
    Check,
    CitedText,
    NumbersInDocuments,
)
from benchmarks.experiment.tables import markdown_table
from benchmarks.halves import add_halves, share, shows_cases

ANNOTATORS: dict[str, Annotator] = {
    "ValueChecks": ValueChecks(),
    "NumbersInDocuments": NumbersInDocuments(),
}
CASES = Path(__file__).with_name("cases.tsv")


@dataclass(frozen=True)
class ValueCase:
    """A sentence, what it cites, and where it is altered; `kind` is '-' where it is not."""

    split: str
    language: str
    kind: str
    sentence: str
    altered: tuple[int, int]
    sources: tuple[str, ...]

    @classmethod
    def parse(cls, line: str) -> ValueCase:
        split, language, kind, marked, *sources = line.split("\t")
        start, end = marked.find("[["), marked.find("]]") - 2
        sentence = marked.replace("[[", "").replace("]]", "")
        return cls(split, language, kind, sentence, (start, end), tuple(sources))

    @property
    def annotated(self) -> AnnotatedSentence:
        return AnnotatedSentence(
            start=0,
            end=len(self.sentence),
            text=self.sentence,
            language=self.language,
            cited=tuple(CitedText(i, text, self.language) for i, text in enumerate(self.sources)),
            prompt_texts=(" ".join(self.sources),),
        )

    def is_right(self, check: Check) -> bool:
        """Whether the check is about the altered value; a negation is one of its whole sentence."""
        start, end = self.altered
        overlaps = check.start < end and start < check.end
        return self.kind != "-" and (overlaps or self.kind == check.kind == "negation")


def cases(split: str) -> Iterator[ValueCase]:
    for line in CASES.read_text(encoding="utf-8").splitlines():
        case = ValueCase.parse(line)
        if case.split == split:
            yield case


def count(judged: Iterable[tuple[ValueCase, Sequence[Check]]]) -> dict[str, Counter[str]]:
    """Checks that are right or wrong, and altered values that are told or missed.

    For all cases, each kind and each language; a wrong check counts for its own kind.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for case, checks in judged:
        right = [case.is_right(check) for check in checks]
        for check, is_right in zip(checks, right, strict=True):
            for name in ("all", case.kind if is_right else check.kind, case.language):
                counts[name]["right" if is_right else "wrong"] += 1
        if case.kind != "-":
            for name in ("all", case.kind, case.language):
                counts[name]["told" if any(right) else "missed"] += 1
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_halves(parser)
    parser.add_argument("--annotator", choices=ANNOTATORS, default="ValueChecks")
    options = parser.parse_args()
    chosen = list(cases(options.split))
    given = ANNOTATORS[options.annotator].annotate([case.annotated for case in chosen])
    judged = list(zip(chosen, given, strict=True))
    rows = (
        [
            name,
            share(n["right"], n["right"] + n["wrong"]),
            share(n["told"], n["told"] + n["missed"]),
        ]
        for name, n in sorted(count(judged).items())
    )
    table = markdown_table(["", "precision", "recall"], rows)
    print(f"{options.split}: {len(judged)} sentences\n\n{table}")
    for case, checks in judged if shows_cases(options) else ():
        right = [case.is_right(check) for check in checks]
        if not all(right) or (case.kind != "-" and not any(right)):
            shown = [(check.kind, check.value, check.source_value) for check in checks]
            print(f"\n{case.language} {case.kind}: {case.sentence}\n  {case.sources}\n  {shown}")


if __name__ == "__main__":
    main()
