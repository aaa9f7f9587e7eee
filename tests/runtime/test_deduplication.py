"""Retrieved texts after duplicates are removed."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attribot_rag.errors import InvalidInput
from attribot_rag.runtime import DeduplicatedText as Kept
from attribot_rag.runtime import remove_duplicates

A = "The treaty was signed in the old town hall in October of 1648."
B = "The harbour of the town had been closed for two long winters."
C = "In the spring the first ships came up the river with salt."
D = "Today the room is a museum that shows the table and the seals."
E = "Merchants asked for one thing only: an open river."
SHORT = "It was old."


def joined(*sentences: str) -> str:
    return " ".join(sentences)


def texts_kept(*retrieved: str, **options: Any) -> list[str]:
    return [kept.text for kept in remove_duplicates(retrieved, **options)]


def plain(text: str) -> str:
    return " ".join(text.split()).casefold()


@pytest.mark.parametrize("other", [A[:-1], A.replace("treaty", "treatey"), f"{A[:-1]}!"])
def test_nearly_equal_texts_are_one_from_the_threshold_on(other: str) -> None:
    assert remove_duplicates([A, other]) == [Kept(0, A, merged=(1,))]
    assert remove_duplicates([other, A]) == [Kept(0, other, merged=(1,))]
    assert texts_kept(A, B, other, threshold=0.9999) == [A, B, other]


@pytest.mark.parametrize("part", [A, joined(B, C), B.upper()])
@pytest.mark.parametrize("before", [True, False])
def test_a_text_within_another_is_gone_whichever_comes_first(part: str, before: bool) -> None:
    whole = joined(A, B, C)
    texts, index = ([part, D, whole], 2) if before else ([whole, D, part], 0)
    kept = Kept(index, whole, merged=(2 - index,))
    assert remove_duplicates(texts) == sorted([kept, Kept(1, D)], key=lambda text: text.index)


def test_a_text_within_two_is_merged_into_the_longer() -> None:
    texts = [joined(E, B, C), joined(D, B, A, SHORT), B]
    merged = {kept.index: kept.merged for kept in remove_duplicates(texts, min_overlap=None)}
    assert merged == {0: (), 1: (2,)}


LONGEST = joined(D, A, B, C)
REMOVED: dict[str, tuple[list[str], list[Kept]]] = {
    "of equal texts the first stands for them": (
        [A, B, A, f" {A.upper()}\n", B],
        [Kept(0, A, merged=(2, 3)), Kept(1, B, merged=(4,))],
    ),
    "the longest stands for all within it and for what they stood for": (
        [A, joined(A, B), A, LONGEST, joined(A, B).upper()],
        [Kept(3, LONGEST, merged=(0, 1, 2, 4))],
    ),
    "the end that an earlier chunk begins with": (
        [joined(B, C), joined(A, B)],
        [Kept(0, joined(B, C), overlapping=(1,)), Kept(1, A)],
    ),
    "both ends of a text": (
        [joined(A, B), joined(D, E), joined(B, C, D)],
        [
            Kept(0, joined(A, B), overlapping=(2,)),
            Kept(1, joined(D, E), overlapping=(2,)),
            Kept(2, C),
        ],
    ),
    "nothing of an earlier text": (
        [joined(A, B, C), joined(D, A), joined(B, E)],
        [Kept(0, joined(A, B, C), overlapping=(1, 2)), Kept(1, D), Kept(2, E)],
    ),
    "a remainder that a later text holds": (
        [joined(A, B), joined(B, C), joined(D, C, E)],
        [Kept(0, joined(A, B), overlapping=(1,)), Kept(2, joined(D, C, E), merged=(1,))],
    ),
}


@pytest.mark.parametrize("name", REMOVED)
def test_duplicates_and_overlaps_are_removed(name: str) -> None:
    texts, expected = REMOVED[name]
    assert remove_duplicates(texts) == expected


HALF = "In the spring the first ships came up the river"
REST = "in the old town hall in October of 1648."
RUN = joined(SHORT, "It was red.", "It was slow.")
LEFT: dict[str, tuple[list[str], list[str]]] = {
    "the remainder stays as it was written": (
        [f"{A}  {B.upper()}", f"{B}\n\n {C}\n{D} "],
        [f"{A}  {B.upper()}", f"{C}\n{D}"],
    ),
    "chunks of a sliding window": (
        [joined(A, B, C), joined(B, C, D), joined(C, D, E)],
        [joined(A, B, C), D, E],
    ),
    "a text that begins within a sentence loses the rest of it": (
        [joined(D, A), joined(REST, B)],
        [joined(D, A), B],
    ),
    "short sentences count together": ([joined(A, RUN), joined(RUN, B)], [joined(A, RUN), B]),
}
AS_THEY_ARE: dict[str, list[str]] = {
    "the middle of a text": [joined(A, B), joined(C, B, D)],
    "half a sentence at the end": [joined(A, HALF), f"{HALF} with salt and wool. {D}"],
    "overlaps that are too short": [joined(A, SHORT), joined(SHORT, B)],
    "another year": [A, A.replace("1648", "1649")],
    "a negation": [A, A.replace("was signed", "was not signed")],
}


@pytest.mark.parametrize("name", [*LEFT, *AS_THEY_ARE])
def test_texts_after_overlaps_are_removed(name: str) -> None:
    texts, expected = LEFT.get(name) or (AS_THEY_ARE[name], AS_THEY_ARE[name])
    assert texts_kept(*texts) == expected


def test_overlaps_of_less_than_min_overlap_stay() -> None:
    texts = [joined(A, SHORT), joined(SHORT, B)]
    assert texts_kept(*texts, min_overlap=len(SHORT) + 1) == texts
    assert texts_kept(*texts, min_overlap=len(SHORT)) == [joined(A, SHORT), B]
    assert texts_kept(*texts, min_overlap=None) == texts


@pytest.mark.parametrize("threshold", [0, 1.01, float("nan")])
def test_a_bad_threshold(threshold: float) -> None:
    with pytest.raises(InvalidInput, match=rf"threshold={threshold}; use a similarity"):
        remove_duplicates([A], threshold=threshold)


def test_a_bad_min_overlap() -> None:
    with pytest.raises(InvalidInput, match=r"min_overlap=0; use at least 1"):
        remove_duplicates([A], min_overlap=0)


SENTENCES = (
    *(A, B, C, D, E, SHORT, "Yes.", "Dr. Braun left.", "🙂"),
    "条約は十月に古い町役場で署名された。",
)
CHUNKS = st.lists(st.sampled_from(SENTENCES), max_size=5).flatmap(
    lambda chosen: st.sampled_from([" ", "\n", "  "]).map(lambda space: space.join(chosen))
)
RETRIEVED = st.lists(CHUNKS, max_size=7)
MIN_OVERLAPS = st.sampled_from([None, 1, 30, 100])


@given(texts=RETRIEVED, min_overlap=MIN_OVERLAPS)
@settings(max_examples=300)
def test_any_retrieved_texts(texts: list[str], min_overlap: int | None) -> None:
    """Every text is left or merged once, in order, and nothing more is removed a second time."""
    deduplicated = remove_duplicates(texts, min_overlap=min_overlap)
    indices = [kept.index for kept in deduplicated]
    assert indices == sorted(indices)
    all_indices = sorted([*indices, *(index for kept in deduplicated for index in kept.merged)])
    assert all_indices == list(range(len(texts)))
    overlap = {index for kept in deduplicated for index in kept.overlapping}
    for kept in deduplicated:
        whole = texts[kept.index]
        assert kept.text in whole
        assert kept.index not in kept.overlapping
        assert list(kept.overlapping) == sorted(set(kept.overlapping))
        if kept.text != whole and kept.index not in overlap:  # what it lost it still says
            stated = [sentence for sentence in SENTENCES if plain(sentence) in plain(whole)]
            assert all(plain(sentence) in plain(kept.text) for sentence in stated)
    once = [kept.text for kept in deduplicated]
    again = remove_duplicates(once, min_overlap=min_overlap)
    assert again == [Kept(index, text) for index, text in enumerate(once)]
    sentences = {
        sentence for text in texts for sentence in SENTENCES if plain(sentence) in plain(text)
    }
    for sentence in sentences:
        if len(sentence) >= 30:  # every sentence stands in a text that is left
            assert any(plain(sentence) in plain(text) for text in once)
