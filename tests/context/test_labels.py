"""The numbers that prompts give to documents."""

from collections.abc import Callable, Sequence

import pytest

from attribot_rag.context import ContextOptions, TokenizedText, locate_context

DOCUMENTS = (
    "The mill was built in 1712. It has three wheels.",
    "The ferry leaves at 9. A ticket costs 18 crowns.",
    "Letters were carried by boat until the bridge was opened.",
    "The orchard belongs to the school. Apples are sold in autumn.",
)
RERANKED = (2, 0, 3, 1)


def numbers(prompt: str, documents: Sequence[str] = DOCUMENTS) -> dict[int, int]:
    context = locate_context(TokenizedText((), prompt, ()), documents, ContextOptions())
    return dict(context.numbers)


LABELLED: dict[str, Callable[[int, str], str]] = {
    "brackets": lambda number, text: f"[{number}] {text}",
    "brackets and title": lambda number, text: f"[{number}] Title: Page {7 * number}\n{text}",
    "list": lambda number, text: f"{number}. {text}",
    "parenthesis": lambda number, text: f"({number}) {text}",
    "heading": lambda number, text: f"## Document {number}\n\n{text}",
    "LlamaIndex": lambda number, text: f"Source {number}:\n{text}\n",
    "tag": lambda number, text: f'<doc index="{number}" page="{9 - number}">\n{text}\n</doc>',
    "JSON": lambda number, text: f'{{"page": {40 - number}, "id": {number}, "text": "{text}"}}',
    "Japanese": lambda number, text: f"【資料{number}】{text}",
    "id": lambda number, text: f"ID:{number} ---\n{text}",
}


@pytest.mark.parametrize("joint", ["\n\n", "\n", " "])
@pytest.mark.parametrize("name", LABELLED)
def test_labels_of_documents_in_another_order(name: str, joint: str) -> None:
    shown = enumerate((DOCUMENTS[index] for index in RERANKED), start=1)
    context = joint.join(LABELLED[name](number, text) for number, text in shown)
    prompt = f"Answer in 2 sentences. Today is 2024-05-03.\n\nContext: {context}\n\nWho?"
    assert numbers(prompt) == {index: number for number, index in enumerate(RERANKED, start=1)}


@pytest.mark.parametrize("kept", [(1, 3), (3, 1), (0, 2, 3), (2,)])
@pytest.mark.parametrize("name", ["brackets", "brackets and title", "parenthesis", "Japanese"])
def test_labels_that_were_given_before_a_filter(name: str, kept: Sequence[int]) -> None:
    context = "\n".join(LABELLED[name](index + 11, DOCUMENTS[index]) for index in kept)
    assert numbers(f"Context:\n{context}\n\nWho?") == {index: index + 11 for index in kept}


@pytest.mark.parametrize(
    "shown",
    [
        *("{}", "<doc>{}</doc>", "Page 31: {}", "p. 3: {}", "Published 2023-04-12. {}"),
        "Version 1.4: {}",
    ],
)
def test_documents_without_labels_are_counted_in_the_prompt(shown: str) -> None:
    context = "\n\n".join(shown.format(DOCUMENTS[index]) for index in (3, 1))
    assert numbers(f"Use these 4 texts:\n{context}\n\nWho?") == {3: 1, 1: 2}


def test_the_last_place_counts_and_equal_documents_have_different_numbers() -> None:
    mill, ferry, letters, _ = DOCUMENTS
    prompt = f"[1] {ferry}\n[2] {mill}\nUser: Who?\n\n[1] {letters}\n[2] {ferry}\nUser: When?"
    assert numbers(prompt, [mill, ferry, letters, ferry])[1] == 2
    assert numbers(f"[1] {letters}\n[2] {ferry}\n", [ferry, letters, ferry]) == {0: 2, 1: 1, 2: 3}
