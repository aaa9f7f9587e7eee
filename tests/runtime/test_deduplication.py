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


def left(*given: str, **options: Any) -> list[str]:
    return [kept.text for kept in remove_duplicates(given, **options)]


def plain(text: str) -> str:
    return " ".join(text.split()).casefold()


class TestWholeTexts:
    def test_nothing(self) -> None:
        assert remove_duplicates([]) == []

    def test_what_says_nothing_twice_stays_as_it_is(self) -> None:
        texts = [f"  {A}\n", B, f"{C}\n\n{D}", ""]
        assert remove_duplicates(texts) == [Kept(i, text) for i, text in enumerate(texts)]

    def test_equal_texts_are_one_and_the_first_stands_for_them(self) -> None:
        deduplicated = remove_duplicates([A, B, A, f" {A.upper()}\n", B])
        assert deduplicated == [Kept(0, A, merged=(2, 3)), Kept(1, B, merged=(4,))]

    @pytest.mark.parametrize("other", [A[:-1], A.replace("treaty", "treatey"), f"{A[:-1]}!"])
    def test_nearly_equal_texts_are_one_from_the_threshold_on(self, other: str) -> None:
        assert remove_duplicates([A, other]) == [Kept(0, A, merged=(1,))]
        assert remove_duplicates([other, A]) == [Kept(0, other, merged=(1,))]
        assert left(A, B, other, threshold=0.9999) == [A, B, other]

    @pytest.mark.parametrize(
        "other", [A.replace("1648", "1649"), A.replace("was signed", "was not signed")]
    )
    def test_another_fact_is_no_duplicate(self, other: str) -> None:
        assert left(A, other) == [A, other]

    @pytest.mark.parametrize("part", [A, B, C, joined(A, B), joined(B, C), B.upper(), f" {B}\n"])
    @pytest.mark.parametrize("before", [True, False])
    def test_a_text_within_another_is_gone_whichever_comes_first(
        self, part: str, before: bool
    ) -> None:
        whole = joined(A, B, C)
        texts, index = ([part, D, whole], 2) if before else ([whole, D, part], 0)
        kept = Kept(index, whole, merged=(2 - index,))
        assert remove_duplicates(texts) == sorted([kept, Kept(1, D)], key=lambda one: one.index)

    @pytest.mark.parametrize("min_overlap", [1, None])
    def test_a_text_within_another_is_gone_however_short(self, min_overlap: int | None) -> None:
        deduplicated = remove_duplicates([SHORT, joined(A, SHORT, B)], min_overlap=min_overlap)
        assert deduplicated == [Kept(1, joined(A, SHORT, B), merged=(0,))]

    def test_the_longest_stands_for_all_within_it_and_for_what_they_stood_for(self) -> None:
        texts = [A, joined(A, B), A, joined(D, A, B, C), joined(A, B).upper()]
        assert remove_duplicates(texts) == [Kept(3, texts[3], merged=(0, 1, 2, 4))]

    def test_what_two_hold_goes_to_the_longer_one(self) -> None:
        texts = [joined(E, B, C), joined(D, B, A, SHORT), B]
        merged = {kept.index: kept.merged for kept in remove_duplicates(texts, min_overlap=None)}
        assert merged == {0: (), 1: (2,)}

    @pytest.mark.parametrize(
        ("part", "whole"),
        [
            ("cat", "The concatenated text."),
            ("He saw the man", "He saw the manor."),
            ("the river was open again", "Bathe river was open again and again."),
            ("1648", "It was 16481."),
        ],
    )
    def test_nothing_is_found_in_the_middle_of_a_word(self, part: str, whole: str) -> None:
        for texts in ([part, whole], [whole, part]):
            assert left(*texts, min_overlap=1) == texts


class TestOverlaps:
    def test_the_beginning_that_an_earlier_chunk_ends_with_is_cut(self) -> None:
        deduplicated = remove_duplicates([joined(A, B), joined(B, C)])
        assert deduplicated == [
            Kept(0, joined(A, B), overlapping=(1,)),
            Kept(1, C),
        ]

    def test_the_end_that_an_earlier_chunk_begins_with_is_cut(self) -> None:
        deduplicated = remove_duplicates([joined(B, C), joined(A, B)])
        assert deduplicated == [
            Kept(0, joined(B, C), overlapping=(1,)),
            Kept(1, A),
        ]

    def test_both_ends_of_one_text(self) -> None:
        deduplicated = remove_duplicates([joined(A, B), joined(D, E), joined(B, C, D)])
        assert deduplicated == [
            Kept(0, joined(A, B), overlapping=(2,)),
            Kept(1, joined(D, E), overlapping=(2,)),
            Kept(2, C),
        ]

    def test_both_ends_in_the_same_text_are_told_once(self) -> None:
        deduplicated = remove_duplicates([joined(A, B), joined(A, C, B)])
        assert deduplicated == [
            Kept(0, joined(A, B), overlapping=(1,)),
            Kept(1, C),
        ]

    def test_what_is_left_stays_as_it_was_written(self) -> None:
        texts = [f"{A}  {B.upper()}", f"{B}\n\n {C}\n{D} "]
        assert left(*texts) == [texts[0], f"{C}\n{D}"]

    def test_as_many_sentences_as_there_are(self) -> None:
        assert left(joined(A, B, C), joined(B, C, D)) == [joined(A, B, C), D]
        assert left(joined(B, C, D), joined(A, B, C)) == [joined(B, C, D), A]

    def test_chunks_of_a_sliding_window(self) -> None:
        texts = [joined(A, B, C), joined(B, C, D), joined(C, D, E)]
        assert left(*texts) == [joined(A, B, C), D, E]

    def test_the_middle_of_a_text_stays_whole(self) -> None:
        texts = [joined(A, B), joined(C, B, D)]
        assert left(*texts) == texts

    def test_an_earlier_text_is_not_cut(self) -> None:
        deduplicated = remove_duplicates([joined(A, B, C), joined(D, A), joined(B, E)])
        assert deduplicated[0] == Kept(0, joined(A, B, C), overlapping=(1, 2))

    def test_half_a_sentence_is_not_cut(self) -> None:
        half = "In the spring the first ships came up the river"
        texts = [joined(A, half), f"{half} with salt and wool. {D}"]
        assert left(*texts) == texts
        texts = [f"the old town hall in October of 1648. {B}", joined(D, A)]
        assert left(*texts) == texts

    def test_a_text_that_begins_within_a_sentence_loses_the_rest_of_it(self) -> None:
        cut = "in the old town hall in October of 1648."
        assert left(joined(D, A), joined(cut, B)) == [joined(D, A), B]

    def test_overlaps_of_less_than_min_overlap_stay(self) -> None:
        texts = [joined(A, SHORT), joined(SHORT, B)]
        assert left(*texts) == texts
        assert left(*texts, min_overlap=len(SHORT) + 1) == texts
        assert left(*texts, min_overlap=len(SHORT)) == [texts[0], B]
        texts = [joined(SHORT, A), joined(B, SHORT)]
        assert left(*texts, min_overlap=len(SHORT) + 1) == texts
        assert left(*texts, min_overlap=len(SHORT)) == [texts[0], B]

    def test_short_sentences_count_together(self) -> None:
        run = joined(SHORT, "It was red.", "It was slow.")
        assert len(run) >= 30
        assert left(joined(A, run), joined(run, B)) == [joined(A, run), B]

    def test_none_leaves_all_overlaps(self) -> None:
        texts = [joined(A, B), joined(B, C), joined(C, A)]
        assert left(*texts, min_overlap=None) == texts

    def test_a_text_that_two_others_hold_between_them_is_gone(self) -> None:
        deduplicated = remove_duplicates([joined(A, B), joined(C, D), joined(B, C)])
        assert deduplicated == [
            Kept(0, joined(A, B), overlapping=(2,)),
            Kept(1, joined(C, D), merged=(2,)),
        ]

    def test_a_remainder_that_a_later_text_holds_is_gone(self) -> None:
        deduplicated = remove_duplicates([joined(A, B), joined(B, C), joined(D, C, E)])
        assert deduplicated == [
            Kept(0, joined(A, B), overlapping=(1,)),
            Kept(2, joined(D, C, E), merged=(1,)),
        ]

    def test_remainders_that_say_the_same_are_one(self) -> None:
        deduplicated = remove_duplicates([joined(A, B), joined(B, C), joined(A, C)])
        assert deduplicated == [
            Kept(0, joined(A, B), overlapping=(1, 2)),
            Kept(1, C, merged=(2,)),
        ]

    def test_a_repetition_goes_with_the_text_that_said_it_too(self) -> None:
        deduplicated = remove_duplicates([joined(A, B), joined(C, A), joined(D, C, C)])
        assert deduplicated == [
            Kept(0, joined(A, B), overlapping=(1,)),
            Kept(2, joined(D, C), merged=(1,)),
        ]

    def test_the_beginning_may_stand_in_several_texts(self) -> None:
        texts = [joined(A, E), joined(B, D), joined(A, B, C)]
        assert left(*texts) == [texts[0], texts[1], C]


@pytest.mark.parametrize("threshold", [0, -0.5, 1.01, 90, float("nan")])
def test_a_bad_threshold(threshold: float) -> None:
    with pytest.raises(InvalidInput, match=rf"threshold={threshold}; use a similarity above 0"):
        remove_duplicates([A], threshold=threshold)


@pytest.mark.parametrize("min_overlap", [0, -1])
def test_a_bad_min_overlap(min_overlap: int) -> None:
    with pytest.raises(InvalidInput, match=rf"min_overlap={min_overlap}; use at least 1 character"):
        remove_duplicates([A], min_overlap=min_overlap)


SENTENCES = (
    A,
    B,
    C,
    D,
    E,
    SHORT,
    "Yes.",
    "Dr. Braun left.",
    "条約は十月に古い町役場で署名された。",
    "🙂",
)
CHUNKS = st.lists(st.sampled_from(SENTENCES), max_size=5).flatmap(
    lambda chosen: st.sampled_from([" ", "\n", "  "]).map(lambda space: space.join(chosen))
)
RETRIEVED = st.lists(CHUNKS, max_size=7)
MIN_OVERLAPS = st.sampled_from([None, 1, 30, 100])


@given(texts=RETRIEVED, min_overlap=MIN_OVERLAPS)
@settings(deadline=None, max_examples=300)
def test_nothing_more_is_removed_from_what_is_left(
    texts: list[str], min_overlap: int | None
) -> None:
    once = left(*texts, min_overlap=min_overlap)
    again = remove_duplicates(once, min_overlap=min_overlap)
    assert again == [Kept(index, text) for index, text in enumerate(once)]


@given(texts=RETRIEVED, min_overlap=MIN_OVERLAPS)
@settings(deadline=None, max_examples=300)
def test_every_sentence_stands_in_a_text_that_is_left(
    texts: list[str], min_overlap: int | None
) -> None:
    kept = [plain(text) for text in left(*texts, min_overlap=min_overlap)]
    given = {one for text in texts for one in SENTENCES if plain(one) in plain(text)}
    for sentence in given:
        if len(sentence) >= 30:
            assert any(plain(sentence) in text for text in kept)


@given(texts=RETRIEVED, min_overlap=MIN_OVERLAPS)
@settings(deadline=None, max_examples=300)
def test_every_text_is_left_or_merged_once_and_in_order(
    texts: list[str], min_overlap: int | None
) -> None:
    deduplicated = remove_duplicates(texts, min_overlap=min_overlap)
    indices = [kept.index for kept in deduplicated]
    assert indices == sorted(indices)
    told = sorted([*indices, *(index for kept in deduplicated for index in kept.merged)])
    assert told == list(range(len(texts)))
    for kept in deduplicated:
        assert kept.text in texts[kept.index]
        assert kept.index not in kept.overlapping
        assert list(kept.overlapping) == sorted(set(kept.overlapping))
    overlap = {index for kept in deduplicated for index in kept.overlapping}
    for kept in deduplicated:
        if (
            kept.text != texts[kept.index] and kept.index not in overlap
        ):  # what it lost it still says
            said = [one for one in SENTENCES if plain(one) in plain(texts[kept.index])]
            assert all(plain(one) in plain(kept.text) for one in said)


@given(texts=RETRIEVED)
@settings(deadline=None, max_examples=100)
def test_without_overlaps_texts_stay_as_they_are(texts: list[str]) -> None:
    for kept in remove_duplicates(texts, threshold=1, min_overlap=None):
        assert kept.text == texts[kept.index]
        assert kept.overlapping == ()
        for index in kept.merged:
            assert plain(texts[index]) in plain(kept.text)
