"""The response as it was shown, and the characters of its tokens in it."""

from hypothesis import given
from hypothesis import strategies as st
from support.text_strategies import texts
from support.tiny_models import byte_level

from attribot_rag.context import TokenizedText

ANSWER = "In the old town hall."


def decoded(text: str) -> TokenizedText:
    return TokenizedText.of(byte_level().encode(text), byte_level())


def test_the_text_of_a_response_is_the_shown_text() -> None:
    """Without a shown text, the white space around is left out."""
    for response, shown in ((f"\n{ANSWER} \n", None), (f" {ANSWER}", f"\n\n{ANSWER}\n")):
        text, spans = decoded(response).aligned(shown)
        assert text == (shown or ANSWER)
        assert "".join(text[start:end] for start, end in spans).strip() == ANSWER
    tokens = decoded("in the old town hall.")
    text, spans = tokens.aligned("In  the OLD town hall.")
    hall = tokens.text.index("hall")
    touching = tokens.tokens_touching((hall, hall + 4))
    assert text[spans[touching.start][0] : spans[touching.stop - 1][1]].strip(" .") == "hall"


@given(texts(min_fragments=1), st.none() | texts())
def test_spans_are_in_order_and_within_the_text(response: str, shown: str | None) -> None:
    tokens = decoded(response)
    text, spans = tokens.aligned(shown)
    assert len(spans) == len(tokens.ids)
    assert shown is None or text == shown
    assert all(0 <= start <= end <= len(text) for start, end in spans)
    assert list(spans) == sorted(spans)
