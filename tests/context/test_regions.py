"""The characters of a prompt that belong to documents."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribot_rag.context.context import with_labels
from attribot_rag.context.locating import find_turns

A, B, C = "The treaty was signed.", "It rained all day.", "Ships came."


def removed(prompt: str, *documents: str) -> list[str]:
    """The texts that belong to the retrieved context, by the documents' places."""
    regions = [(start := prompt.index(text), start + len(text)) for text in documents]
    return [prompt[start:end] for start, end in with_labels(prompt, regions, ())]


TURN = "And what did you say about that? " * 12


@pytest.mark.parametrize(
    ("prompt", "documents", "regions"),
    [
        (f"Read.\n\n{A}\n---\n{B}\n\nWho?", (A, B), [f"{A}\n---\n{B}"]),
        (f"Read this: {A} Who?", (A,), [A]),
        (f"R.\n\n[1] {A}\n[2] {B}\n[3] {C}\n\nWho?", (A, B, C), [f"[1] {A}\n[2] {B}\n[3] {C}"]),
        (f"Title: 1\n{A}\n\nTitle: 2\n{B}\n\nWho?", (A, B), [f"{A}\n\nTitle: 2\n{B}"]),
        (f"Read: {A}\n[2] {B}\n{C}\n\nWho?", (A, B, C), [f"{A}\n[2] {B}\n{C}"]),
        (f"{A}\n{TURN}\n{B}\n\nWho?", (A, B), [A, B]),
        ("Who?", (), []),
    ],
    ids=["separator", "one", "labels", "titles", "some labels", "turn between", "none"],
)
def test_text_between_documents_goes_with_them(
    prompt: str, documents: tuple[str, ...], regions: list[str]
) -> None:
    """And a label on the line before each goes with the first, too."""
    assert removed(prompt, *documents) == regions


def test_what_stands_between_copies_in_two_turns_stays() -> None:
    prompt = f"user: {A}\n{B}\nI am Ed.\nassistant: {B}\nuser: {A}\n{B}\nWho am I?"
    turns = find_turns(prompt, [f"{A}\n{B}\nI am Ed.", B])
    regions = sorted(
        (i, i + len(x)) for x in (A, B) for i in range(len(prompt)) if prompt[i:].startswith(x)
    )
    texts = [prompt[start:end] for start, end in with_labels(prompt, regions, turns)]
    assert texts == [f"{A}\n{B}", B, f"{A}\n{B}"]


@given(st.data())
def test_regions_are_covered_in_order_and_without_overlap(data: st.DataObject) -> None:
    prompt = data.draw(st.text(st.sampled_from("ab \n[]"), min_size=1, max_size=900))
    edges = sorted(data.draw(st.sets(st.integers(0, len(prompt)), max_size=10)))
    regions = list(zip(edges[::2], edges[1::2], strict=False))
    labelled = with_labels(prompt, regions, [])
    for start, end in regions:
        assert any(first <= start and end <= last for first, last in labelled)
    ends = [0, *(end for _, end in labelled)]
    assert all(0 <= first < last for first, last in labelled)
    assert all(end <= first for end, (first, _) in zip(ends, labelled, strict=False))
