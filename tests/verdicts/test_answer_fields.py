"""Structured answers: fields of JSON and elements that hold labels, and tags."""

import json
import re

import pytest

from attribot_rag.attribution import ResponseText
from attribot_rag.context import ContextOptions, Document, TokenizedText, locate_context
from attribot_rag.verdicts.markers import markers_in
from attribot_rag.verdicts.sentences import sentences_of

DOCUMENTS = (
    "The ferry Kittiwake has decks for cars.",
    "The pilot boat leaves at six.",
    "The ice house was closed in 1911.",
)
NUMBERS, FILES = (1, 2, 3), ("ferry.pdf", "boat.pdf", "ice.pdf")
BOAT = "The pilot boat leaves at six."


def read(
    answer: str, names: tuple[object, ...] = NUMBERS, files: tuple[str, ...] = ()
) -> tuple[list[str], list[tuple[str, str]]]:
    """The judged sentences, and each label with the text that it speaks of first."""
    shown = "\n".join(map("[{}] {}".format, names, DOCUMENTS))
    prompt = TokenizedText((), f"{shown}\n\nWhen?", ())
    files = files or ("",) * len(DOCUMENTS)
    documents = [
        Document(text, metadata={"source": file})
        for text, file in zip(DOCUMENTS, files, strict=True)
    ]
    marked = markers_in(answer, locate_context(prompt, documents, ContextOptions()))
    text = ResponseText(answer, tuple(x.span() for x in re.finditer(r"\w+|\W", answer)))
    sentences = sentences_of(text, marked)
    assert "".join(sentence.text for sentence in sentences) == answer
    judged = [sentence for sentence in sentences if sentence.is_judged]

    def spoken_of(scopes: tuple[tuple[int, int], ...]) -> str:
        of = ([x.plain_text.strip() for x in judged if a <= x.start < b] for a, b in scopes)
        return next((" ".join(texts) for texts in of if texts), "")

    labels = [(label, spoken_of(m.scopes)) for m in marked.markers for label in m.labels]
    return [sentence.plain_text.strip() for sentence in judged], labels


SAID = f'"{BOAT}"'


@pytest.mark.parametrize(
    ("answer", "names", "judged", "labels"),
    [
        ({"answer": BOAT, "citations": [2, 9]}, NUMBERS, [SAID], ["2", "9"]),
        ({"answer": BOAT, "sources": ["[2]"]}, NUMBERS, [SAID], ["2"]),
        ({"answer": BOAT, "source": "doc_2"}, NUMBERS, [SAID], ["2"]),
        ({"answer": BOAT, "used": [2, 3]}, NUMBERS, [SAID], ["2", "3"]),
        ({"answer": BOAT, "proof": "boat.pdf, p. 2"}, FILES, [SAID], ["boat.pdf"]),
        (
            {"answer": BOAT, "sources": [{"id": 2, "title": "A guide", "page": 3}]},
            NUMBERS,
            [SAID],
            ["2"],
        ),
        ({"ship": "Kittiwake", "decks": [1, 2]}, NUMBERS, ['"Kittiwake"', "1", "2"], []),
        ({"answer": "It leaves [2].", "citations": [2]}, NUMBERS, ['"It leaves ."'], ["2", "2"]),
        ({"answer": "It leaves [1].", "source": 2}, NUMBERS, ['"It leaves ."'], ["1", "2"]),
        ({"answer": BOAT, "confidence": 1}, NUMBERS, [SAID, "1"], []),
        ({"answer": BOAT, "num_sources": 2}, NUMBERS, [SAID, "2"], []),
        ({"river": "Alke", "source": "the hills"}, NUMBERS, ['"Alke"', '"the hills"'], []),
        ({"answer": "boat.pdf"}, FILES, ['"boat.pdf"'], []),
    ],
)
def test_fields_of_json_that_hold_labels(
    answer: object, names: tuple[object, ...], judged: list[str], labels: list[str]
) -> None:
    indented = json.dumps(answer, indent=2)
    for shown in (json.dumps(answer), indented, f"```json\n{indented}\n```"):
        said, found = read(shown, names)
        assert said == judged
        assert [label for label, _ in found] == labels


def test_files_are_labels_if_the_prompt_has_numbers_alone() -> None:
    answer = json.dumps({"answer": BOAT, "citations": ["boat.pdf", "quay.pdf"]})
    said, found = read(answer, files=FILES)
    assert said == [SAID]
    assert [label for label, _ in found] == ["boat.pdf", "quay.pdf"]


def test_a_field_speaks_of_its_object() -> None:
    claims = [{"text": BOAT, "source": 2}, {"text": "It was closed in 1911.", "source": 3}]
    _, labels = read(json.dumps({"claims": claims}))
    assert labels == [("2", f'"{BOAT}"'), ("3", '"It was closed in 1911."')]


@pytest.mark.parametrize(
    ("answer", "judged", "labels"),
    [
        (f"<answer>\n{BOAT}\n</answer>\n<sources>\n- 2\n- 3\n</sources>", [BOAT], ["2", "3"]),
        (f"<answer>{BOAT}</answer><source_id>2</source_id>", [BOAT], ["2"]),
        (f"<p>{BOAT}</p><p>It was <b>closed</b>.</p>", [BOAT, "It was closed."], []),
        ("<ship>Kittiwake</ship>\n<decks>2</decks>", ["Kittiwake\n2"], []),
        ("<answer>2</answer>", ["2"], []),
        ("Use List<A> and List<B>.", ["Use List<A> and List<B>."], []),
    ],
)
def test_tags_state_nothing(answer: str, judged: list[str], labels: list[str]) -> None:
    said, found = read(answer)
    assert said == judged
    assert [label for label, _ in found] == labels


def test_an_element_speaks_of_the_one_around_it() -> None:
    parts = ((BOAT, 2), ("The ice house was closed.", 3))
    answer = "\n".join(f"<claim><text>{x}</text><source>{n}</source></claim>" for x, n in parts)
    assert read(answer)[1] == [("2", BOAT), ("3", "The ice house was closed.")]
