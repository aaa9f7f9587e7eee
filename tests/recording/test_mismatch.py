"""What differs between an answer and the generations that were recorded."""

import pytest
from support.scripted_generation import DOCUMENTS, QUESTION, rendered, say
from support.tiny_models import byte_level

from attribot_rag.recording import Answer, GenerationRecorder

MODEL = byte_level()
SAID = "In the old town hall. It is a museum."


def why(answer: Answer) -> str:
    prompt = rendered(MODEL)
    with GenerationRecorder(MODEL) as recorder:
        say(MODEL, [prompt], [SAID])
    assert recorder.find_answer(answer) is None
    return recorder.why_unmatched(answer)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["You are a judge.", QUESTION], ["'You are a judge.'", "no such text"]),
        ([QUESTION, f"{DOCUMENTS[0]} It was long ago."], ["'It was long ago.'", "'In the spring"]),
        ([DOCUMENTS[1].replace("salt", "wine")], ["'wine and timber.'", "'salt and timber."]),
    ],
)
def test_the_first_words_that_differ_in_the_prompt(texts: list[str], expected: list[str]) -> None:
    told = why(Answer(SAID, prompt_texts=texts))
    assert "it gave this text to another prompt" in told
    assert all(words in told for words in expected), told


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "In the old mill. It is a museum.",
            ["'mill. It is a museum.'", "'town hall. It is a museum.'"],
        ),
        ("IN THE OLD TOWN HALL.", ["'IN THE OLD TOWN HALL.'", "'In the old town hall. It'"]),
        (f"{SAID} Truly.", ["'Truly.'", "nothing more"]),
    ],
)
def test_the_first_words_that_differ_in_the_text(text: str, expected: list[str]) -> None:
    told = why(Answer(text, prompt_texts=[QUESTION]))
    assert "to this prompt it answered" in told
    assert "pass the model that answers" in told
    assert all(words in told for words in expected), told


def test_nothing_alike_was_recorded() -> None:
    told = why(Answer("By the river.", prompt_texts=["Another question?"]))
    assert told.startswith("another model or a cache gave it")
