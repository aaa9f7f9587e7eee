"""Numbers of a sentence that are in no document, told without knowing its language."""

from functools import partial
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.calls import num_calls

from attribot_rag.annotation import AnnotatedSentence, CitedText, NumbersInDocuments


def told(
    sentence: str, *cited: str, language: str = "en", **elsewhere: tuple[str, ...]
) -> list[str]:
    """The values that are told, each checked to stand where it is said to."""
    texts = tuple(CitedText(index, text, language) for index, text in enumerate(cited))
    given = AnnotatedSentence(
        start=0, end=len(sentence), text=sentence, language=language, cited=texts, **elsewhere
    )
    (checks,) = NumbersInDocuments().annotate([given])
    for check in checks:
        assert sentence[check.start : check.end] == check.value
        assert (check.kind, check.source, check.source_value) == ("number", None, None)
        assert check.in_no_document
    return [check.value for check in checks]


@pytest.mark.parametrize(
    ("language", "sentence", "document", "values"),
    [
        ("en", "The mill has 47 looms.", "The mill has 46 looms.", ["47"]),
        ("de", "Die Mühle wurde 1871 gebaut.", "Die Mühle wurde 1817 gebaut.", ["1871"]),
        ("ru", "Мост длиной 318 м.", "Мост длиной 381 м.", ["318"]),
        ("zh", "塔高38米。", "塔高83米。", ["38"]),
        ("ar", "ارتفاع البرج ٣٨ مترا.", "ارتفاع البرج ٨٣ مترا.", ["٣٨"]),
        ("hi", "टंकी में ४७ लीटर है।", "टंकी में ७४ लीटर है।", ["४७"]),
        ("fr", "Le pain coûte 7,50 €.", "Le pain coûte 7 €.", ["7,50"]),
        ("en", "It weighs 2.4 kg.", "It weighs 4.2 kg and has 2 parts.", ["2.4"]),
        ("en", "Rent 14, 15 or 16 boats.", "There are 14 and 16 boats.", ["15"]),
        ("en", "It opened on 23.05.1911.", "It opened on 22.05.1911.", ["23.05.1911"]),
    ],
)
def test_another_number(language: str, sentence: str, document: str, values: list[str]) -> None:
    assert told(sentence, document, language=language) == values


@pytest.mark.parametrize(
    ("language", "sentence", "document"),
    [
        ("en", "The dam holds 1,250,000 tonnes.", "Der Damm hält 1.250.000 Tonnen."),
        ("fr", "Le barrage retient 1 250 000 tonnes.", "It holds 1'250'000 tonnes."),
        ("fr", "Il retient 48\u202f300,5 tonnes.", "It holds 48,300.5 tonnes."),
        ("en", "It has 12,34,500 votes.", "It has 1234500 votes."),
        ("en", "They meet on 25 March 2024.", "DTSTART:20240325T150000Z"),
        ("de", "Sie treffen sich am 25. März 2024.", "Termin: 25.03.24"),
        ("ar", "ارتفاعها ٣٨٫٥ مترا", "Its height is 38.5 metres."),
        ("zh", "塔高38米。", "The tower is ٣٨ metres high."),
        ("en", "About 15,000 people came.", "14,872 people came."),
        ("en", "It cost 2.5 million crowns.", "It cost 2,500,000 crowns."),
        ("de", "Es kostete 2.500.000 Kronen.", "Es kostete 2,5 Millionen Kronen."),
        ("en", "The tower is 38 metres high.", "The tower is thirty-eight metres high."),
        ("ru", "Высота башни 38 м.", "Высота башни тридцать восемь метров."),
        ("es", "La torre mide 38 metros.", "La torre mide treinta y ocho metros."),
        ("en", "It opened on 2011-05-14.", "It opened on 14.05.2011."),
        ("en", "It leaves at 16:45.", "Departures: 16.45 and 17.45"),
        ("en", "It was built in 18\u200b74.", "It was built in 18\u00ad74."),
    ],
)
def test_the_same_number(language: str, sentence: str, document: str) -> None:
    assert told(sentence, document, language=language) == []


@pytest.mark.parametrize(
    "sentence", ["It has 12 beds.", "Take the B31, the F-16 or bus #401.", "See page 2."]
)
def test_small_numbers_and_names_are_not_told(sentence: str) -> None:
    assert told(sentence, "It is blue.") == []


def test_what_stands_anywhere_in_what_the_model_read() -> None:
    sentence = "It has 47 looms, 58 spindles and 69 lamps, 71 in all."
    values = told(
        sentence,
        "It has 47 looms.",
        prompt_texts=("Does it have 58 spindles?",),
        other_documents=("The other mill has 69 lamps.",),
    )
    assert values == ["71"]


PIECES = st.sampled_from(
    ["1", "７", "٣", ".", ",", " ", "'", "\u00a0", "a", "二", "\u200b", "\ud800"]
)
TEXTS = st.lists(PIECES | st.text(max_size=2), max_size=30).map("".join)


@given(TEXTS, TEXTS, st.sampled_from(["en", "hi", "xx"]))
def test_any_text(sentence: str, document: str, language: str) -> None:
    told(sentence, document, language=language)
    assert told(sentence, sentence, language=language) == []


@pytest.mark.parametrize("piece", ["1", "1.", "12 ", "123 ", "12,", "1 million "])
def test_work_grows_with_the_length(piece: str) -> None:
    told("47", "1 million")
    work = [num_calls(partial(told, piece * size, "46")) for size in (500, 1_000, 2_000)]
    assert all(large < 3 * small for small, large in pairwise(work))
