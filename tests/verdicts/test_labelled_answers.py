"""One held-out case of each kind of the labelled set: docs/evaluation/error-rates.md has all."""

from pathlib import Path

import pytest

from attribot_rag import LocalModel
from benchmarks.labelled.applicability import worths
from benchmarks.labelled.kinds import KINDS, cases_of
from benchmarks.labelled.outcome import judge_case
from benchmarks.labelled.row_cache import CachingAttributor, RowStore


@pytest.mark.slow
@pytest.mark.long
def test_verdicts_and_citations_of_each_kind(smollm2: LocalModel, tmp_path: Path) -> None:
    attributor = CachingAttributor(smollm2, RowStore(tmp_path))
    judged = [
        sentence
        for case in cases_of("held_out", KINDS, 1)
        for sentence in judge_case(attributor, case, worths(attributor, case))
        if sentence.is_applicable
    ]
    assert len(judged) >= 25
    wrong = [
        (sentence.case.kind, sentence.verdict_kind, sentence.details)
        for sentence in judged
        if not sentence.is_right
    ]
    assert len(wrong) <= 1, wrong
    assert not [sentence.case.kind for sentence in judged if sentence.has_false]
