"""Public formats, read as the paper prepares them; bad files say where they are bad."""

import json
from pathlib import Path
from typing import Any

import pytest

from attribot_rag.context import DocumentSpan
from attribot_rag.errors import InvalidInput
from benchmarks.experiment.data_sets import load, sample
from benchmarks.experiment.example import Example

HOTPOTQA: Any = [
    {
        "_id": "h1",
        "question": "Who built it?",
        "answer": "Ann",
        "supporting_facts": [["Hall", 1], ["Hall", 9]],
        "context": [["Ship", ["It sank.", " It was red."]], ["Hall", ["It is old.", " Ann did."]]],
    }
]


def paragraph(number: int) -> dict[str, Any]:
    """With a question that it answers, and one that it does not."""
    answer = {"text": "Ann", "answer_start": 13 + (number > 9)}
    questions = [
        {"id": f"q{number}", "question": "Who?", "is_impossible": False, "answers": [answer] * 2},
        {"id": f"i{number}", "question": "When?", "is_impossible": True, "answers": []},
    ]
    return {"context": f"Paragraph {number}. Ann built it.", "qas": questions}


SQUAD: Any = {
    "version": "v2.0",
    "data": [{"title": "Hall", "paragraphs": [paragraph(number) for number in range(12)]}],
}
QASPER: Any = {
    "1909.1": {
        "full_text": [
            {"section_name": "Introduction", "paragraphs": ["First.", "", "Second."]},
            {"section_name": None, "paragraphs": ["Third."]},
            {"section_name": "Empty", "paragraphs": [""]},
        ],
        "qas": [
            {
                **{"question_id": "q1", "question": "What?"},
                "answers": [{"answer": {"evidence": ["Second.", "not there"]}}],
            }
        ],
    },
    "long": {
        "full_text": [{"section_name": "All", "paragraphs": ["A paragraph."] * 61}],
        "qas": [{"question_id": "q2", "question": "What?", "answers": []}],
    },
}
LOG: Any = {"question": "Who?", "documents": ["Ann built it.", {"text": "It is old.", "id": "b"}]}


def write(path: Path, value: Any) -> Path:
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def texts(path: Path, name: str) -> list[tuple[str, ...]]:
    """The evidence of each example, as text."""

    def text(example: Example, span: DocumentSpan) -> str:
        return example.documents[span.document].text[span.start : span.end]

    examples = load(path, name).examples
    return [tuple(text(example, span) for span in example.evidence) for example in examples]


def test_hotpotqa_has_its_own_sentences_and_marks(tmp_path: Path) -> None:
    path = write(tmp_path / "h.json", HOTPOTQA)
    (example,) = load(path, "hotpotqa").examples
    assert example.key == "hotpotqa/h1"
    assert [document.text for document in example.documents] == [
        "It sank. It was red.",
        "It is old. Ann did.",
    ]
    assert example.source_texts == (("It sank.", " It was red."), ("It is old.", " Ann did."))
    assert texts(path, "hotpotqa") == [(" Ann did.",)]
    assert callable(example.source_unit)
    assert example.source_unit("It sank. It was red.") == ("It sank.", " It was red.")


def test_squad_has_answerable_questions_on_the_first_ten_paragraphs(tmp_path: Path) -> None:
    path = write(tmp_path / "s.json", SQUAD)
    examples = load(path, "squad").examples
    assert [example.key for example in examples] == [f"squad/q{number}" for number in range(10)]
    assert {len(example.documents) for example in examples} == {10}
    assert examples[3].evidence[0].document == 3
    assert texts(path, "squad") == [("Ann",)] * 10
    assert examples[0].source_unit == "sentence"


def test_qasper_has_paragraphs_in_sections_and_no_long_papers(tmp_path: Path) -> None:
    path = write(tmp_path / "q.json", QASPER)
    (example,) = load(path, "qasper").examples
    assert example.key == "qasper/q1"
    assert example.source_texts == (("First. ", "Second. "), ("Third. ",))
    assert [document.metadata["heading"] for document in example.documents] == ["Introduction", ""]
    assert texts(path, "qasper") == [("Second. ",)]


def test_a_log_may_hold_answers_and_evidence(tmp_path: Path) -> None:
    lines = [LOG, {**LOG, "id": "x", "answer": "Ann.", "evidence": ["Ann"]}]
    path = write(tmp_path / "mine.jsonl", "\n\n".join(map(json.dumps, lines)))
    first, second = load(path, "log").examples
    assert (first.key, first.response, first.evidence) == ("mine/1", None, ())
    assert (second.key, second.response) == ("mine/x", "Ann.")
    assert texts(path, "log")[1] == ("Ann",)


def test_bad_lines_of_a_log_are_named_and_the_rest_is_read(tmp_path: Path) -> None:
    bad = {
        '{"question": "Who?", "docu': "column",
        '{"documents": ["a"]}': "question",
        '{"question": "Who?", "documents": [" "]}': "empty",
        '{"question": "Who?", "documents": ["a"], "evidence": ["b"]}': "is in none",
        '["a"]': "an object",
        f'{{"question": "Who?", "documents": ["a"], "id": {"1" * 5000}}}': "digits",
    }
    path = write(tmp_path / "log.jsonl", "\n".join([*bad, json.dumps(LOG)]))
    loaded = load(path, "log")
    assert len(loaded.examples) == 1
    problems = zip(loaded.problems, bad.values(), strict=True)
    for number, (problem, expected) in enumerate(problems, start=1):
        assert problem.startswith(f"{path}:{number}")
        assert expected in problem


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("squad", "{", ":1: no JSON"),
        ("squad", HOTPOTQA, r"json: Input should be an object, not \[.*; it looks like --hotpotqa"),
        ("hotpotqa", [{"_id": "a"}], r"bad.json\[0\].question: the field is missing$"),
        ("log", "nothing\nhere", "the first of 2 bad lines"),
        ("tsv", "a", "choose one of hotpotqa, squad, qasper, log"),
    ],
)
def test_a_bad_file_is_an_error_that_says_where(
    tmp_path: Path, name: str, content: Any, message: str
) -> None:
    path = write(tmp_path / "bad.json", content)
    with pytest.raises(InvalidInput, match=message):
        load(path, name)


def test_samples_are_seeded_and_grow(tmp_path: Path) -> None:
    examples = load(write(tmp_path / "s.json", SQUAD), "squad").examples
    assert sample(examples, 3) == sample(examples, 5)[:3]
    assert sample(examples, 10, seed=1) != sample(examples, 10)
    assert sorted(example.key for example in sample(examples, 99)) == sorted(
        example.key for example in examples
    )
