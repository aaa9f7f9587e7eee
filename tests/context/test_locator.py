"""Places of whole documents in prompts that change white space, case, mark-up or letters."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.text_strategies import SPACES, texts, unspaced

from attribot_rag.context.alignment import Location
from attribot_rag.context.locating import Locator

DOCUMENT = "The treaty was signed in 1648. The harbour had been closed\nfor two winters."


def locate(document: str, prompt: str, threshold: float = 0.9) -> list[Location]:
    return Locator(prompt, threshold=threshold).locate(document)


def located_text(document: str, prompt: str) -> list[str]:
    return [prompt[place.start : place.end] for place in locate(document, prompt)]


def assert_maps(place: Location, document: str, prompt: str) -> None:
    """Every character that is no space maps onto an equal one, offsets ascend and fit the ends."""
    assert len(place.offsets) == len(document) + 1
    assert list(place.offsets) == sorted(place.offsets)
    assert place.offsets[0] == place.start and place.offsets[-1] == place.end
    for index, character in enumerate(document):
        if not character.isspace():
            assert prompt[place.offsets[index]] == character
            assert not document[place.document_offset(place.offsets[index]) : index].strip()


@given(document=texts(min_fragments=1), before=texts(), after=texts())
def test_a_document_is_found_character_by_character(document: str, before: str, after: str) -> None:
    prompt = f"{before}\n{document}\n{after}"
    places = locate(document, prompt)
    assert bool(places) == bool(document.strip())
    for place in places:
        assert prompt[place.start : place.end] == document.strip()
        assert_maps(place, document, prompt)


@given(
    words=st.lists(texts(min_fragments=1).map(unspaced).filter(bool), min_size=2, max_size=12),
    spaces=st.lists(st.tuples(*[st.sampled_from(SPACES)] * 2), min_size=13, max_size=13),
    before=texts(),
)
def test_white_space_may_differ(
    words: list[str], spaces: list[tuple[str, str]], before: str
) -> None:
    document, prompt = (
        "".join(space[side] + word for word, space in zip(words, spaces, strict=False))
        for side in (0, 1)
    )
    prompt = before + prompt + spaces[-1][1]
    places = locate(document, prompt)
    assert places
    for place in places:
        assert unspaced(prompt[place.start : place.end]) == unspaced(document)
        assert_maps(place, document, prompt)


@pytest.mark.parametrize(
    "changed",
    [
        DOCUMENT.replace("signed", "singed"),
        DOCUMENT.replace("harbour", "harbor"),
        DOCUMENT.replace("harbour", "<b>harbour</b>"),
        DOCUMENT[:-3],
        DOCUMENT[3:],
    ],
)
def test_a_few_changed_characters_are_bridged(changed: str) -> None:
    prompt = (
        f"Answer from the context.\n\n[7] {changed}\n\n[8] Nothing else.\n\nQuestion: who signed?"
    )
    (place,) = locate(DOCUMENT, prompt)
    assert prompt[place.start : place.end] == changed.strip()
    assert len(place.offsets) == len(DOCUMENT) + 1
    assert list(place.offsets) == sorted(place.offsets)
    winters = DOCUMENT.index("two winters")
    assert prompt[place.offsets[winters] :].startswith("two wint")


@pytest.mark.parametrize(
    "other",
    [
        "The treaty was lost in the fire. Merchants had been leaving for many years.",
        DOCUMENT.replace("1648", "1649"),
        DOCUMENT.replace("1648", "16.48").upper(),
        DOCUMENT[:-12],
    ],
)
def test_another_text_is_not_the_document(other: str) -> None:
    assert locate(DOCUMENT, f"Context:\n{other}\n\nQuestion: who signed?") == []


@pytest.mark.parametrize(
    "copied", [DOCUMENT, DOCUMENT.replace(" ", "  "), DOCUMENT.replace("harbour", "harbor")]
)
def test_all_places_are_found(copied: str) -> None:
    prompt = f"{copied}\n\nYes.\n\n{copied}\n{copied}"
    places = locate(DOCUMENT, prompt)
    assert [prompt[place.start : place.end] for place in places] == [copied] * 3
    assert [place.start for place in places] == sorted({place.start for place in places})


def test_a_short_document_is_no_part_of_a_word_if_it_stands_alone() -> None:
    assert [place.start for place in locate("art", "party art, starting. art")] == [6, 21]
    assert located_text("約は", "条約は町で") == ["約は"]


FORMATTED = (
    "# The “Treaty”\n\n**Signed** in 1648 — _all_ of it, by *both* envoys…\n\n"
    "- The `harbour` was closed\n"
    '- It’s open [again](https://example.org/a_(b) "Port") since May.\n\n'
    "> Straße nach İzmir: 1.5 km\n\n| Year | Ships |\n|------|-------|\n| 1649 | 12 |\n| 1650 | 7 |"
)
STRIPPED = (
    "The “Treaty”\n\nSigned in 1648 — all of it, by both envoys…\n\nThe harbour was closed\n"
    "It’s open again since May.\n\nStraße nach İzmir: 1.5 km\n\nYear Ships\n1649 12\n1650 7"
)
STRAIGHTENED = {
    ord(mark): other for mark, other in zip("“”’—…", ['"', '"', "'", "-", "..."], strict=True)
}


@pytest.mark.parametrize(
    "form",
    [
        FORMATTED.upper(),
        STRIPPED,
        STRIPPED.upper(),
        "\n".join(STRIPPED.split()),
        STRIPPED.translate(STRAIGHTENED),
        unicodedata.normalize("NFD", FORMATTED),
        FORMATTED.replace("harbour", "har\u00adbour").replace("nach", "\u200bnach"),
    ],
    ids=[
        *("upper", "markdown stripped", "stripped and upper", "wrapped"),
        *("straightened", "NFD", "soft hyphens"),
    ],
)
def test_a_document_in_another_form_is_located(form: str) -> None:
    prompt = f"Context:\n\n{form}\n\nQuestion: who signed?"
    (place,) = locate(FORMATTED, prompt)
    assert place.offsets[0] == place.start and place.offsets[-1] == place.end
    assert list(place.offsets) == sorted(place.offsets)
    assert form.strip("#|\n ") == prompt[place.start : place.end].strip("#|\n ")
    for word in [
        *("Treaty", "Signed", "both", "harbour", "open", "again", "Stra", "1.5", "1649", "7")
    ]:
        shown = prompt[place.offsets[FORMATTED.index(word)] :].lstrip("*_`[")
        shown = unicodedata.normalize("NFC", shown.replace("\u00ad", ""))
        assert shown.casefold().startswith(word.casefold())


@pytest.mark.parametrize("number", ["15", "1,5", "-1.5"])
def test_another_number_is_no_other_form(number: str) -> None:
    document = "Straight on it is 1.5 km."
    assert locate(document, f"STRAIGHT ON IT IS {number} KM.", threshold=1) == []
    assert locate(document.replace("1.5", number), "STRAIGHT ON IT IS 1.5 KM.", threshold=1) == []


@pytest.mark.parametrize(
    ("prompt", "documents"),
    [
        (DOCUMENT[:-2], [DOCUMENT]),
        ("", [DOCUMENT]),
        ("a b \n\t\r\n", ["", " ", "\n\t\r\n"]),
        ("yes and no: the FEE, a b c", ["No.", "Yes!", "The fee", "A.B.C.", "..."]),
        ("About a ferry.", ["![](images/figure-one.png)", "[](https://x.org/a)", "***", "# "]),
    ],
    ids=["too long", "no prompt", "blank", "few words as they are", "without a word"],
)
def test_absent_documents_are_not_located(prompt: str, documents: list[str]) -> None:
    for document in documents:
        for threshold in (0.9, 1):
            assert locate(document, prompt, threshold) == []
