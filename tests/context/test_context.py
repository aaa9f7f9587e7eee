"""Documents located in a prompt, their sources, and the prompt without some of them."""

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, reject
from hypothesis import strategies as st
from support.text_strategies import texts, unspaced
from support.tiny_models import byte_level

from attribot_rag.context import (
    Ablation,
    Context,
    ContextOptions,
    Document,
    TokenizedText,
    locate_context,
)
from attribot_rag.errors import DocumentsNotLocated, InvalidInput

A = "The treaty was signed in the old town hall."
B = "The harbour of the town had been closed for two winters."
C = "In the spring the first ships came up the river."
D = "Today the room is a museum."


def prompt_of(text: str) -> TokenizedText:
    language_model = byte_level()
    return TokenizedText.of(language_model.encode(text), language_model)


def context_of(text: str, documents: Any, **options: Any) -> Context:
    return locate_context(prompt_of(text), documents, ContextOptions(**options))


def rag_prompt(*documents: str, before: str = "Answer from the context.") -> str:
    numbered = "\n\n".join(f"[{index}] {text}" for index, text in enumerate(documents))
    return f"{before}\n\n{numbered}\n\nQuestion: who signed?"


def ablated_text(context: Context, *source_ids: int) -> str:
    ablated = context.ablate(Ablation.of(*source_ids), byte_level())
    assert ablated.in_step
    return byte_level().decode(ablated.ids)


def source_texts(context: Context) -> list[str]:
    return [source.text for source in context.sources]


def places(context: Context, source_id: int) -> list[str]:
    return [
        context.prompt.text[place.start : place.end].strip()
        for place in context.sources[source_id].occurrences
    ]


@st.composite
def retrievals(draw: st.DrawFn) -> tuple[str, list[str]]:
    """Documents of few sentences, so that they repeat and overlap, in a prompt that has most."""
    sentences = [A, B, C, D, "Yes.", "Löwe 🦁 条約。", *draw(st.lists(texts(), max_size=2))]
    chunks = st.lists(st.sampled_from(sentences), max_size=4).map(" ".join)
    documents = draw(st.lists(chunks, min_size=1, max_size=5))
    shown = [text for text in documents if draw(st.integers(0, 5))]
    separator = draw(st.sampled_from(["\n\n", "\n", " ", "\n[1] "]))
    if draw(st.booleans()):
        shown = [" ".join(text.split()) for text in shown]
    return f"Context:{separator}{separator.join(shown)}{separator}Question: {A} Yes?", documents


def located(case: tuple[str, list[str]], fuzzy_threshold: float = 1) -> Context:
    try:
        return context_of(*case, fuzzy_threshold=fuzzy_threshold)
    except DocumentsNotLocated:
        reject()


@given(case=retrievals())
def test_every_located_character_belongs_to_one_source(case: tuple[str, list[str]]) -> None:
    """Sources, and their places, come in order."""
    context = located(case)
    text = context.prompt.text
    owners = [0] * len(text)
    for source in context.sources:
        starts = [place.start for place in source.occurrences]
        assert starts == sorted(starts)
        for place in source.occurrences:
            assert text[place.start : place.end].strip()
            for index in range(place.start, place.end):
                owners[index] += 1
    assert max(owners) == 1
    for start, end in context.regions:
        assert all(owners[index] for index in range(start, end) if not text[index].isspace())
    firsts = [source.occurrences[0].start for source in context.sources]
    assert firsts == sorted(firsts)
    assert [source.id for source in context.sources] == list(range(len(firsts)))


def letters(text: str) -> str:
    """Without the marks and symbols that a place in the prompt may lack."""
    return "".join(filter(str.isalnum, text))


@example(case=("The treaty was signed. Yes?", ["The treaty was signed. 🙂 Yes."]))
@given(case=retrievals())
def test_spans_point_at_the_same_text_and_absent_documents_are_reported(
    case: tuple[str, list[str]],
) -> None:
    context = located(case)
    for source in context.sources:
        for place in source.occurrences:
            shown = letters(context.prompt.text[place.start : place.end])
            for span in place.spans:
                excerpt = letters(context.documents[span.document].text[span.start : span.end])
                assert excerpt in shown
                assert 2 * len(excerpt) + 2 >= len(shown)
    credited = {index for source in context.sources for index in source.documents}
    assert credited.isdisjoint(context.not_located)
    for index, text in enumerate(case[1]):
        if text.strip() and text in case[0]:
            assert index not in context.not_located
        if not text.strip() or letters(text).casefold() not in letters(case[0]).casefold():
            assert index in context.not_located or index in context.partly_located
    assert all(0 < share < 1 for share in context.partly_located.values())
    assert set(context.partly_located) <= credited


@given(case=retrievals(), data=st.data())
def test_the_order_of_the_documents_does_not_matter(
    case: tuple[str, list[str]], data: st.DataObject
) -> None:
    context = located(case, fuzzy_threshold=0.9)
    order = data.draw(st.permutations(range(len(case[1]))))
    permuted = context_of(case[0], [case[1][index] for index in order])
    assert source_texts(permuted) == source_texts(context)
    assert permuted.regions == context.regions
    assert sorted(order[index] for index in permuted.not_located) == list(context.not_located)
    for source, other in zip(context.sources, permuted.sources, strict=True):
        assert tuple(sorted(order[index] for index in other.documents)) == source.documents
        assert [(place.start, place.end) for place in source.occurrences] == [
            (place.start, place.end) for place in other.occurrences
        ]


@given(case=retrievals(), data=st.data())
def test_removed_sources_are_gone_and_the_others_stay(
    case: tuple[str, list[str]], data: st.DataObject
) -> None:
    context = located(case)
    chosen = data.draw(st.sets(st.sampled_from(range(len(context.sources)))))
    removed = {
        index
        for source_id in chosen
        for place in context.sources[source_id].occurrences
        for index in range(place.start, place.end)
    }
    kept = "".join(
        letter for index, letter in enumerate(context.prompt.text) if index not in removed
    )
    assert unspaced(ablated_text(context, *chosen)) == unspaced(kept)


LABELS: dict[str, Callable[[int, str], str]] = {
    "none": lambda number, text: text,
    "numbers": lambda number, text: f"[{number}] {text}",
    "titles": lambda number, text: f"Title {number}: {text}",
}


@pytest.mark.parametrize("separator", ["\n\n", " "])
@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("kept", [[1, 4], [0, 3, 4], [5], []])
def test_only_some_sources_stand_like_documents_without_others(
    separator: str, label: str, kept: list[int]
) -> None:
    """With the labels of their own documents, and one separator between two of them."""

    def prompt(documents: Mapping[int, str]) -> str:
        shown = separator.join(LABELS[label](*document) for document in documents.items())
        return f"Answer from the context.\n\n{shown}\n\nQuestion: who signed?"

    documents = [[A, B], [C], [D, "It has three doors."], ["Ships pay a toll."]]
    context = context_of(
        prompt(dict(enumerate(map(" ".join, documents)))), [*map(" ".join, documents)]
    )
    texts = [text for document in documents for text in document]
    assert source_texts(context) == texts
    left = [[text for text in document if texts.index(text) in kept] for document in documents]
    ablated = context.ablate(context.ablation_of_others(kept), byte_level())
    expected = prompt({index: " ".join(own) for index, own in enumerate(left) if own})
    assert byte_level().decode(ablated.ids) == expected


def test_where_nothing_would_be_left_the_last_token_stays() -> None:
    context = context_of(A, [A])
    ablated = context.ablate(Ablation.of(0), byte_level())
    assert (ablated.ids, ablated.num_shared, ablated.in_step) == (context.prompt.ids[-1:], 0, False)
    short = context_of("a", ["a"])
    ablated = short.ablate(Ablation.of(0), byte_level())
    assert (ablated.ids, ablated.num_shared, ablated.in_step) == (short.prompt.ids, 1, False)


def test_a_heading_goes_with_the_white_space_after_it() -> None:
    document = f"# The treaty\n\n{A}\n\n- {B}"
    context = context_of(rag_prompt(document), [document])
    assert source_texts(context) == ["# The treaty", A, f"- {B}"]
    assert ablated_text(context, 0) == rag_prompt(f"{A}\n\n- {B}")
    assert ablated_text(context, 2) == rag_prompt(f"# The treaty\n\n{A}")


@pytest.mark.parametrize("copied", [A, A.upper(), A.replace("treaty", "traety")])
def test_equal_and_near_equal_sentences_are_one_source_removed_everywhere(copied: str) -> None:
    documents = [f"{A} {B}", f"{C} {copied}", D]
    context = context_of(rag_prompt(*documents), documents)
    assert source_texts(context) == [A, B, C, D]
    assert places(context, 0) == [A, copied]
    assert context.sources[0].documents == (0, 1)
    assert ablated_text(context, 0) == rag_prompt(B, C, D)
    alone = context_of(rag_prompt(*documents), documents, duplicate_threshold=1)
    assert len(alone.sources) == (5 if "traety" in copied else 4)


@pytest.mark.parametrize(
    ("documents", "shown", "sources"),
    [
        ([f"{A} {B}", C, f"{A} {B}"], None, [(A, (0, 2)), (B, (0, 2)), (C, (1,))]),
        ([f"{A} {B} {C}", B], [f"{A} {B} {C}"], [(A, (0,)), (B, (0, 1)), (C, (0,))]),
        ([f"{A} {B} {C}", B], None, [(A, (0,)), (B, (0, 1)), (C, (0,))]),
        ([f"{A} {B}", f"{B} {C}"], None, [(A, (0,)), (B, (0, 1)), (C, (1,))]),
        ([f"{A} {B}", f"{B} {C}"], [f"{A} {B} {C}"], [(A, (0,)), (B, (0, 1)), (C, (1,))]),
    ],
    ids=["identical", "inside", "inside and beside", "overlapping", "overlapping in one"],
)
def test_a_sentence_of_several_documents_is_one_source_of_all(
    documents: list[str], shown: list[str] | None, sources: list[tuple[str, tuple[int, ...]]]
) -> None:
    shown = shown or documents
    context = context_of(rag_prompt(*shown), documents)
    assert [(source.text, source.documents) for source in context.sources] == sources
    assert places(context, 1) == [B] * sum(B in text for text in shown)
    remaining = [" ".join(text.replace(B, "").split()) for text in shown]
    assert ablated_text(context, 1) == rag_prompt(*remaining)


def test_copies_outside_of_documents_are_removed_too() -> None:
    before = f"Earlier you wrote: {B} Is {D.lower()[:-1]}? Yes."
    documents = [f"{A} {B}", "Yes."]
    context = context_of(rag_prompt(*documents, before=before), documents)
    assert source_texts(context) == [B, "Yes.", A]
    copied = context.sources[0]
    assert [bool(place.spans) for place in copied.occurrences] == [False, True]
    assert copied.documents == (0,)
    assert B not in ablated_text(context, copied.id)


def test_other_units_and_own_splitters() -> None:
    document = f"{A} {B}\n\n{C}"
    prompt = rag_prompt(document)
    by_paragraph = context_of(prompt, [document], source_unit="paragraph")
    assert source_texts(by_paragraph) == [f"{A} {B}", C]
    assert source_texts(context_of(prompt, [document], source_unit="document")) == [document]
    own = context_of(prompt, [document], source_unit=lambda text: text.splitlines(keepends=True))
    assert source_texts(own) == [f"{A} {B}", C]
    spaced = f"{A} {B} {C}"
    first, second = len(A), len(A) + 1 + len(B)

    def space_first(text: str) -> list[str]:
        return [text[:first], text[first:second], text[second:]]

    context = context_of(rag_prompt(spaced), [spaced], source_unit=space_first)
    assert ablated_text(context, 1, 2) == rag_prompt(A)
    assert ablated_text(context, 0, 2) == rag_prompt(f" {B}")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"text": A, "title": "x", "page": 1}, r"\['page', 'title'\]; a document has text, id"),
        ({"content": A, "page": 1}, r"fields \['content', 'page'\] has no text; pass it as a str"),
        (SimpleNamespace(text=3), "type SimpleNamespace cannot be read; .* 'page_content'"),
        (SimpleNamespace(text=A, metadata=["x"]), r"metadata=\['x'\] of a document"),
        (b"x", "type bytes cannot be read"),
    ],
)
def test_a_value_that_is_no_document_is_named(document: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        context_of(rag_prompt(A), [A, document])


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (
            {"id": "a", "metadata": {"page": 1}, "page_content": A, "type": "Document"},
            Document(A, "a", {"page": 1}),
        ),
        (SimpleNamespace(page_content=A, metadata={"page": 1}), Document(A, None, {"page": 1})),
        (SimpleNamespace(text=A, metadata={"page": 1}, id="a"), Document(A, "a", {"page": 1})),
    ],
)
def test_documents_of_frameworks(document: Any, expected: Document) -> None:
    assert context_of(rag_prompt(A), [document]).documents == (expected,)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"duplicate_threshold": 0}, r"duplicate_threshold=0 is not a similarity; use .* \(0, 1\]"),
        ({"fuzzy_threshold": float("nan")}, "fuzzy_threshold=nan"),
        ({"source_unit": "word"}, "'word'; choose one of sentence, paragraph, document"),
        ({"language": ""}, "language='' is not known; pass an ISO 639-1 code"),
        ({"language": "deu"}, "language='deu' is not known"),
        ({"language": 7}, "language=7 is not known"),
        ({"language": "DE"}, "language='DE' is not known"),
    ],
)
def test_bad_options_name_the_value_and_the_fix(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        ContextOptions(**options)


@pytest.mark.parametrize("language", ["de", "nb", "yue"])
def test_a_language_need_not_be_one_that_is_detected(language: str) -> None:
    assert ContextOptions(language=language).language == language
