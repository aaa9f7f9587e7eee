import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from texts import texts

from attribot_rag.context.splitting import make_splitter, paragraphs, sentences, split_spans
from attribot_rag.errors import InvalidInput


@pytest.mark.parametrize("unit", ["sentence", "paragraph", "document"])
@given(text=texts() | st.text(st.characters(exclude_categories=["Cs"])))
@settings(deadline=None, max_examples=300)
def test_built_in_units_lose_no_character(unit: str, text: str) -> None:
    spans = split_spans(text, make_splitter(unit, "en"))
    assert "".join(text[start:end] for start, end in spans) == text
    assert all(text[start:end].strip() for start, end in spans) or not text.strip()
    assert len(spans) <= 1 or text.strip()


@pytest.mark.parametrize("language", ["en", "de", "ja", "ar", "hi", "th", "zz"])
@given(text=texts())
@settings(deadline=None, max_examples=50)
def test_sentences_lose_no_character_in_any_language(language: str, text: str) -> None:
    assert "".join(sentences(text, language)) == text


def test_sentences_know_abbreviations_and_keep_the_space_after_them() -> None:
    assert sentences("Dr. Braun came. He left.") == ["Dr. Braun came. ", "He left."]


def test_half_of_a_surrogate_pair_is_a_character_like_others() -> None:
    assert sentences("One \ud83d. Two.") == ["One \ud83d. ", "Two."]


@pytest.mark.parametrize("blank", ["\n\n", "\r\n\r\n", "\n \t\n", "\n\n\n\n"])
def test_paragraphs_end_after_blank_lines(blank: str) -> None:
    assert paragraphs(f"One\nline.{blank}Two.") == [f"One\nline.{blank}", "Two."]


@given(pieces=st.lists(st.sampled_from(["", " ", "\n", "a", "b. ", " c"]), max_size=8))
def test_blank_pieces_join_a_neighbour(pieces: list[str]) -> None:
    text = "".join(pieces)
    found = [text[start:end] for start, end in split_spans(text, lambda _: pieces)]
    assert "".join(found) == text
    if text.strip():
        assert all(piece.strip() for piece in found)
        assert len(found) == sum(bool(piece.strip()) for piece in pieces)


def test_a_splitter_that_loses_text_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"'One\. Two\.'; a splitter must keep every character"):
        split_spans("One. Two.", lambda text: text.split())


def test_a_splitter_must_give_texts() -> None:
    with pytest.raises(InvalidInput, match="a splitter must keep every character"):
        split_spans("One. Two.", lambda text: [(0, len(text))])  # type: ignore[list-item]


@pytest.mark.parametrize("unit", ["sentences", "", None, ["sentence"]])
def test_unknown_units_are_answered_with_the_known(unit: str) -> None:
    with pytest.raises(InvalidInput, match="choose one of sentence, paragraph, document"):
        make_splitter(unit, "en")
