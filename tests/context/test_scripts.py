"""Locating and splitting in every script; `tasks/fuzz` tries more texts."""

import unicodedata
from collections.abc import Callable
from functools import partial

from hypothesis import given
from hypothesis import strategies as st
from support.scripts import texts_in_a_script
from support.text_strategies import removals, unspaced, without

from attribot_rag.context import Context, ContextOptions, TokenizedText, locate_context
from attribot_rag.context.splitting.splitter import make_splitter, split_spans
from attribot_rag.errors import DocumentsNotLocated

texts = texts_in_a_script()
CHANGES: list[Callable[[str], str]] = [
    str.lower,
    str.upper,
    unspaced,
    lambda text: " ".join(text.split()),
    *(partial(unicodedata.normalize, form) for form in ("NFC", "NFD", "NFKC")),
]


def located(prompt: str, documents: list[str]) -> Context | None:
    try:
        return locate_context(TokenizedText((), prompt, ()), documents, ContextOptions())
    except DocumentsNotLocated:
        return None


def assert_in_order(context: Context, prompt: str, documents: list[str]) -> None:
    """Sources are disjoint pieces of the prompt, whose spans lie within their documents."""
    places = sorted(
        (place.start, place.end) for source in context.sources for place in source.occurrences
    )
    ends = [end for place in places for end in place]
    assert ends == sorted(ends)
    assert all(start < end for start, end in places)
    assert not places or places[-1][1] <= len(prompt)
    for source in context.sources:
        texts = {prompt[place.start : place.end].strip() for place in source.occurrences}
        assert source.text in texts
        for span in (span for place in source.occurrences for span in place.spans):
            assert 0 <= span.start < span.end <= len(documents[span.document])


@given(text=texts, language=st.sampled_from(["en", "de", "ar", "hi", "ja", "th", "zz"]))
def test_sentences_hold_the_whole_text_in_order(text: str, language: str) -> None:
    spans = split_spans(text, make_splitter("sentence", language))
    assert "".join(text[start:end] for start, end in spans) == text


@given(before=texts, document=texts, after=texts)
def test_a_document_is_found_where_it_stands(before: str, document: str, after: str) -> None:
    prompt = f"{before}\n\n{document}\n\n{after}"
    context = located(prompt, [document])
    if context is None:
        assert not document.strip()
        return
    assert context.not_located == ()
    assert_in_order(context, prompt, [document])
    start = len(before) + 2
    own = {at for at in range(start, start + len(document)) if prompt[at].isalnum()}
    places = (place for source in context.sources for place in source.occurrences)
    assert own <= {at for place in places for at in range(place.start, place.end)}


@given(
    data=st.data(),
    documents=st.lists(texts, min_size=1, max_size=4),
    change=st.sampled_from(CHANGES),
)
def test_changed_documents_have_places_in_order_or_none(
    data: st.DataObject, documents: list[str], change: Callable[[str], str]
) -> None:
    kept = [without(text, data.draw(removals(text))) for text in documents]
    shown = change("\n\n".join(kept))
    context = located(shown, documents)
    if context is not None:
        assert_in_order(context, shown, documents)
