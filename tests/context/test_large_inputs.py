"""Locating in large prompts and in inputs that are made to take long: by results and by counts."""

import re
from collections.abc import Callable

import pytest
import sentencex
from hypothesis import given
from hypothesis import strategies as st
from support.calls import num_calls
from support.large_inputs import Texts, absent, near_equal, retrieval
from support.text_strategies import texts
from support.tiny_models import byt5, byte_level, metaspace

from attribot_rag.context import Context, ContextOptions, TokenizedText, locate_context
from attribot_rag.context.alignment import TextIndex
from attribot_rag.context.locating import LocatedDocuments
from attribot_rag.context.splitting.splitter import sentences
from attribot_rag.context.text import find_all
from attribot_rag.model.local_model import LocalModel


def context_of(prompt: str, documents: list[str]) -> Context:
    return locate_context(TokenizedText((), prompt, ()), documents, ContextOptions())


def work(prompt: str, documents: list[str]) -> int:
    """How many functions are called to locate the documents."""
    return num_calls(lambda: LocatedDocuments(prompt, documents, threshold=0.9))


@pytest.mark.slow
def test_the_work_grows_with_the_input() -> None:
    assert work(*retrieval(1_000_000, 500)) < 15 * work(*retrieval(100_000, 50))


def test_changed_chunks_of_one_template_are_found_in_their_places() -> None:
    chunks = [
        f"{number}: {chr(65 + number % 26)}{'aeiou'[number % 5]}ra{number} built the mill. Its "
        "walls are of grey stone, and steps lead up to the door. A slate roof was added when the "
        f"first had burnt down. Visitors pay {number} crowns; the garden towards the river is "
        "free. In winter the gate closes early, and a guide is only there at weekends."
        for number in range(100)
    ]
    prompt = "\n\n".join(chunk.replace("towards", "beyond") for chunk in chunks)
    located = LocatedDocuments(prompt, chunks, threshold=0.9)
    texts = {text: [prompt[x.start : x.end] for x in at] for text, at in located.whole.items()}
    assert texts == {chunk: [chunk.replace("towards", "beyond")] for chunk in chunks}


@pytest.mark.parametrize("length", [10_000, 32_000])
def test_a_long_document_with_misspellings_is_not_compared_with_everything(length: int) -> None:
    prompt, documents = near_equal(length)
    context = context_of(prompt, documents)
    ((start, end),) = context.regions
    assert prompt[start:end] == prompt.split("\n\n")[1]
    assert context.partly_located == {}
    assert work(prompt, documents) < 6 * work(*near_equal(length // 4))


def test_a_long_text_without_certain_agreement_is_similar() -> None:
    """Every 16th character differs, so that no 16 in a row agree."""
    document = re.sub(r"\d", "e", Texts().document(20_000))
    prompt = "".join("x" if at % 16 == 0 else letter for at, letter in enumerate(document))
    result = LocatedDocuments(f"Read this.\n\n{prompt}", [document], threshold=0.9)
    ((place,),) = result.whole.values()
    assert place.end - place.start == len(prompt)


@pytest.mark.parametrize(
    "hostile", [" " * 200_000, ".-,:" * 50_000, "'" * 200_000, "1 2 " * 50_000]
)
def test_long_runs_of_marks_are_read_once(hostile: str) -> None:
    """And the document after them is located."""
    document = "The end is near here, at last."
    prompt = f"Read this.{hostile}\n\n{document.upper()}"
    result = LocatedDocuments(prompt, [document, f"{hostile[:999]} a b c d e"], threshold=0.9)
    assert set(result.whole) == {document}
    quarter = prompt.replace(hostile, hostile[: len(hostile) // 4])
    assert work(prompt, [document]) < 6 * work(quarter, [document])


@pytest.mark.long
@pytest.mark.slow
def test_the_work_grows_with_absent_documents() -> None:
    prompt, documents = absent()
    assert context_of(prompt, documents).not_located == tuple(range(999))
    assert work(prompt, documents) < 4 * work(prompt, documents[:333])


def test_equal_documents_have_the_same_places_and_not_too_many() -> None:
    number = 500
    context = context_of("a " * 7_900, ["a"] * number)
    assert context.not_located == ()
    assert context.crowded == tuple(range(number))
    (source,) = context.sources
    assert len(source.occurrences) == 200
    assert all(len(place.spans) == number for place in source.occurrences)


def test_documents_that_repeat_each_other_have_few_places_in_all() -> None:
    prompt, documents = "a " * 7_900, ["a " * number for number in range(1, 501)]
    result = LocatedDocuments(prompt, documents, threshold=0.9)
    assert len(result.whole) == len(documents)
    located = sum(place.end - place.start for places in result.whole.values() for place in places)
    assert located < 16 * len(prompt) + sum(map(len, documents))


LONG = Texts(3).document(40_000)


@given(
    start=st.integers(0, len(LONG)),
    length=st.integers(0, 300),
    needles=st.lists(texts(), max_size=3),
)
def test_an_index_finds_the_places_of_a_search(start: int, length: int, needles: list[str]) -> None:
    index = TextIndex(LONG)
    needles = [LONG[start : start + length], *needles, LONG[start : start + 3], LONG]
    for needle in needles:
        assert list(index.find_all(needle)) == list(find_all(LONG, needle))


def test_long_texts_have_the_sentences_of_the_whole() -> None:
    assert sentences(LONG) == list(sentencex.segment("en", LONG))


@pytest.mark.parametrize("mark", ['"', "'", "“”", "([{", '" ', "a. ", "."])
def test_runs_of_marks_are_split_without_a_loss(mark: str) -> None:
    text = f"It was so. {mark * 20_000}"
    pieces = sentences(text)
    assert "".join(pieces) == text
    assert pieces[0].startswith("It was so.")


@pytest.mark.parametrize("build", [byte_level, metaspace, byt5])
def test_decoding_a_run_of_replacement_characters_grows_with_it(
    build: Callable[[], LocalModel],
) -> None:
    language_model = build()

    def work(length: int) -> int:
        text = "\ufffd" * length
        ids = language_model.encode(text)
        assert TokenizedText.of(ids, language_model).text == text
        return num_calls(lambda: TokenizedText.of(ids, language_model))

    assert work(2_000) < 6 * work(500)
