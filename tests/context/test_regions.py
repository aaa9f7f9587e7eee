from hypothesis import given
from hypothesis import strategies as st

from attribot_rag.context.context import find_turns, whole_context

A, B, C = "The treaty was signed.", "It rained all day.", "Ships came."


def removed(prompt: str, *documents: str) -> list[str]:
    """The texts that belong to the retrieved context, by the documents' places."""
    regions = [(start := prompt.index(text), start + len(text)) for text in documents]
    return [prompt[start:end] for start, end in whole_context(prompt, regions)]


def test_what_stands_between_two_documents_goes_with_them() -> None:
    assert removed(f"Read.\n\n{A}\n---\n{B}\n\nWho?", A, B) == [f"{A}\n---\n{B}"]


def test_one_document_is_itself() -> None:
    assert removed(f"Read this: {A} Who?", A) == [A]


def test_a_label_on_the_line_before_each_goes_with_the_first_too() -> None:
    prompt = f"Read.\n\n[1] {A}\n[2] {B}\n[3] {C}\n\nWho?"
    assert removed(prompt, A, B, C) == [f"[1] {A}\n[2] {B}\n[3] {C}"]


def test_titles_between_documents() -> None:
    prompt = f"Read.\n\nTitle: Treaty\n{A}\n\nTitle: Rain\n{B}\n\nWho?"
    assert removed(prompt, A, B) == [f"{A}\n\nTitle: Rain\n{B}"]


def test_where_some_document_has_no_label_the_first_line_is_left_alone() -> None:
    prompt = f"Read: {A}\n[2] {B}\n{C}\n\nWho?"
    assert removed(prompt, A, B, C) == [f"{A}\n[2] {B}\n{C}"]


def test_a_conversation_between_two_retrievals_is_no_separator() -> None:
    turn = "And what did you say about that? " * 12
    prompt = f"{A}\n{turn}\n{B}\n\nWho?"
    assert removed(prompt, A, B) == [A, B]


def test_no_documents() -> None:
    assert whole_context("Who?", []) == ()


@given(st.data())
def test_regions_are_covered_in_order_and_without_overlap(data: st.DataObject) -> None:
    prompt = data.draw(st.text(st.sampled_from("ab \n[]"), min_size=1, max_size=900))
    edges = sorted(data.draw(st.sets(st.integers(0, len(prompt)), max_size=10)))
    regions = list(zip(edges[::2], edges[1::2], strict=False))
    found = whole_context(prompt, regions)
    for start, end in regions:
        assert any(first <= start and end <= last for first, last in found)
    ends = [0, *(end for _, end in found)]
    assert all(0 <= first < last for first, last in found)
    assert all(end <= first for end, (first, _) in zip(ends, found, strict=False))


def test_turns_are_found_one_after_the_other() -> None:
    prompt = f"user: {A}\nassistant: {B}\nuser: {A}\n"
    assert [prompt[a:b] for a, b in find_turns(prompt, [A, f" {B}\n", A])] == [A, B, A]
    first, _, last = find_turns(prompt, [A, B, A])
    assert first[1] < last[0]


def test_turns_that_are_empty_or_cut_away_are_left_out() -> None:
    prompt = f"user: {B}\n"
    assert find_turns(prompt, ["", "  ", A, B]) == ((6, 6 + len(B)),)
    assert find_turns(prompt, []) == ()
