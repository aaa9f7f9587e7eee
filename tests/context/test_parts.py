"""Documents of which the application put only parts into the prompt."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.tiny_models import CORPUS, byte_level

from attribot_rag.context import Context, ContextOptions, TokenizedText, locate_context
from attribot_rag.context.locating import Locator, find_parts
from attribot_rag.errors import DocumentsNotLocated

HARBOUR = (
    "The harbour of the town had been closed for two winters. In the spring the first ships came "
    "up the river to the lighthouse. They brought salt, 1.50 tons of it. Today the room is a "
    "museum. It opens at nine."
)
CLUB = (
    "Members of the club pay less than others do. The fee is due at the end of April. Whoever "
    "pays late has to pay five per cent more than that."
)
WITHIN = HARBOUR.index("lightho") + len("lightho")


def context_of(text: str, documents: list[str], **options: Any) -> Context:
    language_model = byte_level()
    prompt = TokenizedText.of(language_model.encode(text), language_model)
    return locate_context(prompt, documents, ContextOptions(), **options)


def sources_of(context: Context) -> list[str]:
    return [source.text for source in context.sources]


def spans_of(context: Context) -> list[str]:
    """The texts in the documents at the places of their sources."""
    return [
        context.documents[span.document].text[span.start : span.end].strip()
        for source in context.sources
        for place in source.occurrences
        for span in place.spans
    ]


@pytest.mark.parametrize("after", ["...", "</context>", ""])
def test_a_text_that_was_cut_within_a_word(after: str) -> None:
    context = context_of(f"Who?\n\n{HARBOUR[:WITHIN]}{after}", [HARBOUR, CLUB])
    assert sources_of(context) == spans_of(context)
    assert sources_of(context) == [
        "The harbour of the town had been closed for two winters.",
        "In the spring the first ships came up the river to the lightho",
    ]
    assert context.not_located == (1,)
    share = len("".join(HARBOUR[:WITHIN].split())) / len("".join(HARBOUR.split()))
    assert context.partly_located == {0: pytest.approx(share)}


def test_sentences_that_were_picked_out() -> None:
    prompt = "Read.\n\nThey brought salt, 1.50 tons of it. It opens at nine.\n\nWho?"
    context = context_of(prompt, [HARBOUR, CLUB])
    assert sources_of(context) == ["They brought salt, 1.50 tons of it.", "It opens at nine."]
    assert sources_of(context) == spans_of(context)
    assert context.not_located == (1,)


def test_scripts_without_spaces() -> None:
    document = "条約は千六百四十八年の十月に古い町役場で署名された。船は川を上った。町は燃えた。"
    context = context_of("読む。\n条約は千六百四十八年の十月に古い町役場で署名され...", [document])
    assert sources_of(context) == ["条約は千六百四十八年の十月に古い町役場で署名され"]
    assert sources_of(context) == spans_of(context)
    assert sources_of(
        context_of(
            "川：船は川を下った。町は火事で全部燃えた。", [f"{document}町は火事で全部燃えた。"]
        )
    ) == ["町は火事で全部燃えた。"]


@pytest.mark.parametrize(
    "prompt",
    [
        "Read: nothing. How long had the harbour of the town been closed?",
        "Had it been closed for two winters. In the spring?",
        "The harbour of the town had been closed for two winters?",
        "They brought salt, 1.50 tons of gold. In the winter the first ships came up",
        *("They brought salt, 1.5", "Today the room.", ""),
    ],
)
def test_phrases_and_questions_are_no_parts(prompt: str) -> None:
    with pytest.raises(DocumentsNotLocated):
        context_of(f"{prompt} ", [HARBOUR])


def test_a_text_of_another_document_is_no_part() -> None:
    overlapping = f"Nothing is said here. {CLUB[45:]} And so on, and on."
    context = context_of(f"Read.\n\n{CLUB}\n\nWho?", [overlapping, CLUB])
    assert context.not_located == (0,)
    both = context_of(f"Read.\n\n{CLUB}\n\n{overlapping[:90]}...\n\nWho?", [overlapping, CLUB])
    assert both.not_located == ()
    assert set(both.partly_located) == {0}
    notice = "All rights are reserved by the town."
    documents = [f"{notice} {HARBOUR}", f"{notice} {CLUB}"]
    context = context_of(f"Read.\n\n{documents[0][:150]}...\n\nWho?", documents)
    assert (set(context.partly_located), context.not_located) == ({0}, (1,))


def test_a_text_of_an_earlier_turn_is_no_part() -> None:
    turn = f"You told me: {HARBOUR[:100]}"
    prompt = f"user: {turn}\n\nRead: {CLUB}\n\nWho?"
    assert context_of(prompt, [CLUB, HARBOUR]).not_located == ()
    assert context_of(prompt, [CLUB, HARBOUR], earlier_turns=[turn]).not_located == (1,)


@given(
    start=st.integers(0, 700), length=st.integers(150, 500), after=st.sampled_from(["...", "\n"])
)
def test_any_stretch_of_a_document_is_found_to_the_letter(
    start: int, length: int, after: str
) -> None:
    document = CORPUS[:1200]
    shown = document[start : start + length].strip(" \n.,:;?")
    prompt = f"Zebra:\n\n...{shown}{after}\n\nNow tell me when."
    locator = Locator(prompt, threshold=1)
    (part,) = find_parts(locator.letters, [document], [])[document]
    assert prompt[part.start : part.end].rstrip(".") == shown
    assert part.document_span is not None
    assert document[slice(*part.document_span)].rstrip(".") == shown
    for index in range(part.start, part.end):
        assert document[part.document_offset(index)] == prompt[index]
