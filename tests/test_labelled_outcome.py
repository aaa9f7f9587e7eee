"""Judgements of labelled sentences: the store of scored rows, citations, tables."""

from pathlib import Path

import pytest
from support.tiny_models import byte_level

from attribot_rag import Attributor
from benchmarks.labelled.cases import ExpectedVerdict, LabelledCase, LabelledSource
from benchmarks.labelled.row_cache import CachingAttributor, RowStore

DOCUMENTS = ("Fog is rare. The door is mint.", "The tower is 18 metres high.")
DOOR = LabelledSource(0, "The door is mint.", "The door is mint.")
CASE = LabelledCase(
    id="one",
    kind="made_up",
    split="calibration",
    question="Which door?",
    documents=DOCUMENTS,
    shown=DOCUMENTS,
    answer="The door is mint.",
    expected=(ExpectedVerdict(verdict="grounded", sources=(DOOR,)),),
)


def test_a_second_run_scores_nothing_and_gives_the_same_verdicts(tmp_path: Path) -> None:
    language_model = byte_level()
    prompt = " ".join([*DOCUMENTS, "Which door?"])
    store = RowStore(tmp_path)
    plain = Attributor(
        language_model.model, language_model.tokenizer, method="thorough", progress=False
    )
    results = [
        attributor.attribute(prompt, CASE.answer, DOCUMENTS)
        for attributor in (
            plain,
            *(CachingAttributor(language_model, store, method="thorough"),) * 2,
        )
    ]
    scored = store.new
    again = RowStore(tmp_path)
    results.append(
        CachingAttributor(language_model, again, method="thorough").attribute(
            prompt, CASE.answer, DOCUMENTS
        )
    )
    assert (scored > 0, store.new, again.new) == (True, scored, 0)
    assert any(results[0].token_scores)
    for other in results[1:]:
        for row, same in zip(results[0].token_scores, other.token_scores, strict=True):
            assert (same or ()) == pytest.approx(row or (), abs=1e-4)
        assert [verdict.kind for verdict in other.verdicts] == [
            verdict.kind for verdict in results[0].verdicts
        ]
