"""Equal and nearly equal texts are one source."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.tiny_models import CORPUS

from attribot_rag.context.sources import group_duplicates
from attribot_rag.context.text import words

SENTENCE = "The treaty was signed in the old town hall in October of 1648 by both envoys."


@pytest.mark.parametrize("threshold", [0.95, 1])
def test_case_and_white_space_do_not_matter(threshold: float) -> None:
    texts = [SENTENCE, "Other.", SENTENCE.upper(), f"  {SENTENCE.replace(' ', '  ')}\n", "other."]
    assert group_duplicates(texts, threshold=threshold) == [[0, 2, 3], [1, 4]]


@pytest.mark.parametrize(
    "other",
    [
        SENTENCE.replace("signed", "singed"),
        SENTENCE[:-1],
        SENTENCE.replace(" in October", ", in October"),
    ],
)
def test_near_equal_texts_are_merged_from_the_threshold_on(other: str) -> None:
    assert group_duplicates([SENTENCE, other], threshold=0.95) == [[0, 1]]
    assert group_duplicates([SENTENCE, other], threshold=1) == [[0], [1]]
    assert group_duplicates([SENTENCE, other], threshold=0.9999) == [[0], [1]]


@pytest.mark.parametrize(
    "other",
    [
        SENTENCE.replace("1648", "1649"),
        SENTENCE.replace("signed", "planned").replace("old town hall", "new castle"),
        SENTENCE.replace("was", "was not"),
        SENTENCE.replace("signed", "unsigned"),
        SENTENCE.replace("both", "no"),
        SENTENCE.replace("October", "Petersen"),
    ],
)
def test_different_facts_are_not_merged(other: str) -> None:
    assert group_duplicates([SENTENCE, other], threshold=0.95) == [[0], [1]]
    assert group_duplicates([SENTENCE, other, SENTENCE], threshold=0.95) == [[0, 2], [1]]


@pytest.mark.parametrize(
    ("spelling", "other", "same"),
    [
        ("colours", "colors", True),
        ("centre", "center", True),
        ("tickets", "ticket", True),
        ("Petersen", "Pedersen", False),
        ("hypertension", "hypotension", False),
        ("insulin", "inulin", True),  # which no rule of letters tells from a slip
    ],
)
def test_spellings_of_a_word_and_other_words(spelling: str, other: str, same: bool) -> None:
    texts = [f"{SENTENCE} They spoke of {word} all day." for word in (spelling, other)]
    assert len(group_duplicates(texts, threshold=0.9)) == (1 if same else 2)


def test_scripts_without_spaces_are_compared_too() -> None:
    sentence = (
        "条約は千六百四十八年の十月に古い町役場で皇帝と女王と自由都市の使節によって署名された。"
    )
    assert group_duplicates([sentence, sentence.replace("。", "")], threshold=0.95) == [[0, 1]]
    assert group_duplicates([sentence, sentence.replace("千", "二千")], threshold=0.9) == [[0], [1]]
    assert words("条約 was 署名 1648") == ["条", "約", "was", "署", "名", "1648"]


VARIANTS = st.sampled_from(
    [
        *(SENTENCE, SENTENCE.upper(), SENTENCE[:-1], SENTENCE.replace("both", "the")),
        *(SENTENCE.replace("8", "9"), SENTENCE.replace("old", "very old"), "Yes.", "yes. ", "Yes!"),
        *(sentence.strip() for sentence in CORPUS.split(".")),
    ]
)


@given(data=st.data(), texts=st.lists(VARIANTS, max_size=12), threshold=st.floats(0.5, 1))
def test_order_does_not_matter(data: st.DataObject, texts: list[str], threshold: float) -> None:
    order = data.draw(st.permutations(range(len(texts))))
    groups = group_duplicates(texts, threshold=threshold)
    permuted = group_duplicates([texts[index] for index in order], threshold=threshold)
    assert sorted(index for group in groups for index in group) == list(range(len(texts)))
    assert groups == sorted(sorted(order[index] for index in group) for group in permuted)
