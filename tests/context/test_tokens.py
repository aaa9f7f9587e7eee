"""The text of token ids, and the characters of each token."""

from collections.abc import Callable
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.text_strategies import texts
from support.tiny_models import TOKENIZERS, byt5, byte_level, metaspace

from attribot_rag.attribution import ResponseText
from attribot_rag.context import TokenizedText
from attribot_rag.context.prompt import decoded_in_windows, token_anchors
from attribot_rag.model.local_model import LocalModel

with_every_tokenizer = pytest.mark.parametrize("build", TOKENIZERS)


def assert_spans_cover(text: TokenizedText) -> None:
    assert len(text.spans) == len(text.ids)
    reached, previous = 0, (0, 0)
    for start, end in text.spans:
        assert start <= end
        assert start == reached or (start, end) == previous
        reached, previous = end, (start, end)
    assert reached == len(text.text)


@with_every_tokenizer
@given(data=st.data(), special=st.booleans())
def test_spans_cover_the_decoded_text(
    build: Callable[[], LocalModel], data: st.DataObject, special: bool
) -> None:
    language_model = build()
    ids = language_model.encode(data.draw(texts(markers=True)), special=special)
    tokens = TokenizedText.of(ids, language_model)
    assert tokens.ids == ids
    assert tokens.text == language_model.decode(ids)
    assert_spans_cover(tokens)


@pytest.mark.parametrize("build", [byte_level, byt5])
@given(data=st.data())
def test_any_ids_at_all_are_decoded_as_a_whole_would_be(
    build: Callable[[], LocalModel], data: st.DataObject
) -> None:
    language_model = build()
    ordinary = sorted(set(range(language_model.vocabulary_size)) - language_model.boundary_ids)
    ids = data.draw(st.lists(st.sampled_from(ordinary), max_size=60))
    tokens = TokenizedText.of(ids, language_model)
    assert tokens.text == language_model.decode(ids)
    assert_spans_cover(tokens)


@given(ids=st.lists(st.integers(0, 300), max_size=60))
def test_byte_fallback_ids_that_no_text_encodes_to_still_have_spans(ids: list[int]) -> None:
    """A stray byte spoils the characters before it when decoded as a whole, so text may differ."""
    assert_spans_cover(TokenizedText.of(ids, metaspace()))


@with_every_tokenizer
@given(data=st.data())
def test_parts_of_the_text_share_out_its_tokens(
    build: Callable[[], LocalModel], data: st.DataObject
) -> None:
    tokens = TokenizedText.of(build().encode(data.draw(texts(min_fragments=2))), build())
    middle = data.draw(st.integers(0, len(tokens.text)))
    first, second = tokens.tokens_in((0, middle)), tokens.tokens_in((middle, len(tokens.text)))
    assert [*first, *second] == list(range(len(tokens.ids)))


def test_a_token_belongs_to_its_first_character_that_is_no_space() -> None:
    language_model = byte_level()
    tokens = TokenizedText.of(language_model.encode("signed. The treaty"), language_model)
    place = tokens.text.index("The")
    assert language_model.decode([tokens.ids[i] for i in tokens.tokens_in((0, place))]) == "signed."
    second = [tokens.ids[index] for index in tokens.tokens_in((place, len(tokens.text)))]
    assert language_model.decode(second) == " The treaty"


def test_a_broken_character_does_not_swallow_the_boundary_token_after_it() -> None:
    language_model = byte_level()
    (end_id,) = language_model.encode("<|im_end|>", special=True)
    ids = (*language_model.encode("𝛝")[:2], end_id)
    tokens = TokenizedText.of(ids, language_model)
    assert tokens.text == "\ufffd<|im_end|>"
    assert tokens.spans == ((0, 1), (0, 1), (1, 11))


@with_every_tokenizer
def test_special_tokens_can_be_left_out(build: Callable[[], LocalModel]) -> None:
    language_model = build()
    end = language_model.tokenizer.eos_token
    ids = language_model.encode(f"open{end}", special=True)
    tokens = TokenizedText.of(ids, language_model, skip_special_tokens=True)
    assert tokens.text == "open"
    assert tokens.spans[-1] == (4, 4)
    assert TokenizedText.of(ids, language_model).text == f"open{end}"


@pytest.mark.parametrize("build", [byte_level, metaspace])
@given(data=st.data(), special=st.booleans(), skipped=st.booleans())
def test_streamed_pieces_are_those_of_windows(
    build: Callable[[], LocalModel], data: st.DataObject, special: bool, skipped: bool
) -> None:
    language_model = build()
    ids = language_model.encode(data.draw(texts(markers=True)), special=special)
    tokens = TokenizedText.of(ids, language_model, skip_special_tokens=skipped)
    pieces = list(decoded_in_windows(ids, language_model, skip_special_tokens=skipped))
    assert tokens.text == "".join(text for text, _ in pieces)
    ends = list(accumulate(len(text) for text, _ in pieces))
    spans = zip([0, *ends], ends, strict=False)
    assert tokens.spans == tuple(
        span for span, (_, count) in zip(spans, pieces, strict=True) for _ in range(count)
    )


def test_tokens_of_any_text_are_chosen_by_their_anchors() -> None:
    spans, text = ((0, 2), (2, 5), (5, 6), (6, 6)), "ab cd "
    assert token_anchors(spans, text) == (0, 3, 5, 6)
    response = ResponseText(text, spans)
    assert response.tokens_in(0, 3) == range(1)
    assert response.tokens_in(2, 5) == range(1, 2)
    assert response.tokens_in(5, 6) == range(2, 4)
    assert response.tokens_in(1, 3) == range(0)
    assert ResponseText("", ()).tokens_in(0, 0) == range(0)
