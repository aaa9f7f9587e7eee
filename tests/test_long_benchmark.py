"""The long answers of `benchmarks.long` are as its figures say, and its labels fit them."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from support.tiny_models import smollm2_tokenizer

from attribot_rag.attribution import Verdict
from attribot_rag.context.splitting.splitter import sentences
from benchmarks.long.cases import Citations, cases

CASES = cases()


def test_answers_are_long_and_have_ten_documents_some_of_which_they_use() -> None:
    tokenizer = smollm2_tokenizer()
    assert len({case.question for case in CASES}) == 10
    for case in CASES:
        assert 300 <= len(tokenizer(case.answer)["input_ids"]) <= 500
        assert len({document.id for document in case.documents}) == 10
        assert all(60 <= len(document.text.split()) <= 150 for document in case.documents)
        used = frozenset[str]().union(*(documents for _, documents in case.labels))
        assert 3 <= len(used) <= 6
        assert used <= {document.id for document in case.documents}


def test_labels_begin_sentences_in_the_order_of_the_answer() -> None:
    for case in CASES:
        places = [case.answer.index(text) for text, _ in case.labels]
        assert places == sorted(set(places))
        assert all(case.answer.count(text) == 1 for text, _ in case.labels)
        assert 10 <= len(places) <= 25
        pieces = [piece.strip() for piece in sentences(case.answer)]
        for text, _ in case.labels:
            assert any(piece.startswith(text) for piece in pieces)
        alone = [documents for _, documents in case.labels if not documents]
        assert 2 <= len(alone) <= 5
    assert sum(len(ids) > 1 for case in CASES for _, ids in case.labels) >= 10


def test_citations_are_counted_by_document() -> None:
    case = replace(
        CASES[0],
        answer="One. Two. Three.",
        labels=(("One", frozenset({"a"})), ("Two", frozenset({"a", "b"})), ("Three", frozenset())),
        documents=tuple(replace(CASES[0].documents[0], id=name) for name in "abc"),
    )
    verdicts = [
        Verdict(start=0, end=5, kind="follows", follows=0),
        Verdict(start=5, end=10, kind="grounded", source_ids=(1, 2)),
        Verdict(start=10, end=16, kind="grounded", source_ids=(0,)),
    ]
    sources = [SimpleNamespace(documents=(index,)) for index in range(3)]
    attribution: Any = SimpleNamespace(verdicts=verdicts, sources=sources)
    assert case.citations(attribution) == Citations(1, 2, {"follows": 1, "grounded": 1})
