"""Texts that could take long, or that no rule expects."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.calls import num_calls

from attribot_checks import check_sentence
from attribot_checks.numerals import readings
from attribot_checks.reading import read_prompt
from attribot_rag.annotation import CitedText

LANGUAGES = st.sampled_from(["en", "de", "fr", "es", "it", "ru", "zh", "ar", "xx"])
NUMBERS = st.sampled_from(["1", "7,50", "1 200", "1.", "٣", "三", "½", "²", "twenty", "km²", "%"])
WORDS = st.sampled_from(["May", "4. Mai", "not ", "no, ", "n't", "by ", "Ab Cd ", "\ud800"])
MARKS = st.sampled_from([" ", ".", "-", "/", ":", "[", "]", "'", "\n"])
PIECES = NUMBERS | WORDS | MARKS | st.text(max_size=3)
TEXTS = st.lists(PIECES, max_size=20).map("".join)


@given(TEXTS, TEXTS, LANGUAGES, LANGUAGES)
def test_any_text(sentence: str, source: str, language: str, other: str) -> None:
    checks = check_sentence(
        sentence, [CitedText(3, source, other)], language, prompt_texts=(source,)
    )
    for check in checks:
        assert sentence[check.start : check.end] == check.value
        assert check.source in (None, 3)
        assert check.source_value is None or check.source_value in source


@given(TEXTS, LANGUAGES)
def test_a_text_agrees_with_itself(text: str, language: str) -> None:
    assert check_sentence(text, [CitedText(0, text, language)], language) == ()


@pytest.mark.parametrize(
    "piece", ["1", "1.", "12 ", "123 ", "[1 ", "4 May ", "5 m ", "two ", "Ab "]
)
def test_work_grows_with_the_length(piece: str) -> None:
    read_prompt("1 m, two, May 4", "en")
    texts = [f"{length} {piece * length}" for length in (1_000, 4_000)]
    small, large = (num_calls(partial(read_prompt, text, "en")) for text in texts)
    assert large < 5 * small


@pytest.mark.parametrize(
    "text", ["1" * 100_000, "1.1." * 20_000, "by Ab " * 10_000, "not " * 9_000]
)
def test_a_sentence_that_is_too_long_is_not_compared(text: str) -> None:
    assert check_sentence(text, [CitedText(0, "It has 340 seats.", "en")], "en") == ()


@pytest.mark.parametrize("numeral", ["1" * 1_000, "1.2.3", "1,2,3", "3/4", "1:2:3", "1:234"])
def test_invalid_numerals_are_no_numbers(numeral: str) -> None:
    assert readings(numeral) == frozenset()
