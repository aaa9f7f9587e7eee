"""The labelled set: what its generator makes, without a model."""

import re
from itertools import chain

import pytest

from attribot_rag.context.splitting.splitter import sentences
from benchmarks.halves import SPLITS, Split
from benchmarks.labelled.cases import ExpectedVerdict, LabelledCase, LabelledSource
from benchmarks.labelled.changed_documents import plain
from benchmarks.labelled.conclusions import conclusions
from benchmarks.labelled.facts import LANGUAGES, tables
from benchmarks.labelled.kinds import cases_of

HALVES = {split: [*cases_of(split)] for split in SPLITS}
CASES = [case for half in HALVES.values() for case in half]
IN_LINES = {"table_row", "list_item", "heading"}
NUMBERS = r"\d+(?: (?:to|until) \d+)?"


def texts(case: LabelledCase) -> str:
    content = [str(message["content"]) for message in case.messages]
    return "\n".join([case.question, case.answer, *case.documents, *case.shown, *content])


def citations(case: LabelledCase) -> list[tuple[ExpectedVerdict, LabelledSource]]:
    labels = chain.from_iterable(expected.alternatives for expected in case.expected)
    return [(label, source) for label in labels for source in label.sources]


def words(text: str) -> str:
    return " ".join(text.split())


def test_cases_are_the_same_at_every_call_and_their_ids_unique() -> None:
    assert [case for split in SPLITS for case in cases_of(split)] == CASES
    assert len({case.id for case in CASES}) == len(CASES)


def test_the_halves_share_no_number() -> None:
    numbers = {
        split: {
            number
            for case in cases
            # the numbers of a list's items are no facts
            for number in re.findall(r"\d+", re.sub(r"^\d+\. ", "", texts(case), flags=re.M))
        }
        for split, cases in HALVES.items()
    }
    assert not numbers["calibration"] & numbers["held_out"]


@pytest.mark.parametrize("language", ["english", *LANGUAGES])
def test_the_halves_share_no_name_saying_filler_value_or_template(language: str) -> None:
    lists = ("places", "fillers", "people", "memory", "invented")
    templates = ("question", "statement", "answer", "reworded", "restated", "heading", "item")

    def contents(split: Split) -> set[tuple[str, str]]:
        table = tables(split, language)
        attributes = table["attributes"]
        return {
            *((key, str(text)) for key in lists for text in table.get(key, ())),
            *((key, str(row[key])) for row in attributes for key in templates if key in row),
            *(("values", value) for row in attributes for value in row.get("values", ())),
        }

    calibration, held_out = map(contents, SPLITS)
    assert len(calibration) > 20
    assert not calibration & held_out


def test_every_labelled_source_stands_in_its_document_once() -> None:
    for case in CASES:
        for _, source in citations(case):
            assert case.documents[source.document].count(source.text) == 1
            assert words(case.shown[source.document]).count(words(source.shown)) == 1
            assert words(plain(source.text)).lower() == words(plain(source.shown)).lower()
        assert len(case.shown) == len(case.documents) == len(set(case.documents))


def test_labels_fit_their_kind_of_verdict() -> None:
    for case in CASES:
        for place, expected in enumerate(case.expected):
            for label in expected.alternatives:
                assert bool(label.sources) == (label.verdict in ("grounded", "redundant"))
                assert (label.relation == "either") == (label.verdict == "redundant")
                assert (label.follows is not None) == (label.verdict == "follows")
                assert label.follows is None or label.follows < place


def test_the_splitter_cuts_answers_and_documents_where_the_labels_do() -> None:
    for case in CASES:
        assert len(sentences(case.answer)) == len(case.expected)
        if case.kind not in IN_LINES:
            for _, source in citations(case):
                pieces = [piece.strip() for piece in sentences(case.documents[source.document])]
                assert source.text in pieces


def test_the_number_in_a_label_that_is_answered_stands_nowhere_else() -> None:
    for case in CASES:
        labels = [source for _, source in citations(case)]
        rest = "\n".join(case.documents)
        for source in labels:
            rest = rest.replace(source.text, "")
        answered = set(re.findall(NUMBERS, case.answer))
        for source in labels:
            values = answered & set(re.findall(NUMBERS, source.text.split(". ", 1)[-1]))
            assert not values or values - set(re.findall(NUMBERS, rest))


def test_every_conclusion_needs_a_sentence_of_each_of_two_documents() -> None:
    halves = {split: [*conclusions(split)] for split in SPLITS}
    assert [len(cases) for cases in halves.values()] == [15, 15]
    for case in chain.from_iterable(halves.values()):
        (label,) = case.expected
        assert len({source.document for source in label.sources}) == 2
        assert all(case.documents[each.document].count(each.text) == 1 for each in label.sources)
