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
    return dict(context.labels.numbers)


LABELLED: dict[str, Callable[[int, str], str]] = {
    "brackets": lambda number, text: f"[{number}] {text}",
    "brackets and title": lambda number, text: f"[{number}] Title: Page {7 * number}\n{text}",
    "list": lambda number, text: f"{number}. {text}",
    "heading": lambda number, text: f"## Document {number}\n\n{text}",
    "tag": lambda number, text: f'<doc index="{number}" page="{9 - number}">\n{text}\n</doc>',
    "JSON": lambda number, text: f'{{"page": {40 - number}, "id": {number}, "text": "{text}"}}',
    "Japanese": lambda number, text: f"【資料{number}】{text}",
}


@pytest.mark.parametrize("name", LABELLED)
def test_labels_of_documents_in_another_order(name: str) -> None:
    shown = enumerate((DOCUMENTS[index] for index in RERANKED), start=1)
    context = "\n\n".join(LABELLED[name](number, text) for number, text in shown)
    prompt = f"Answer in 2 sentences. Today is 2024-05-03.\n\nContext: {context}\n\nWho?"
    assert numbers(prompt) == {index: number for number, index in enumerate(RERANKED, start=1)}


@pytest.mark.parametrize("name", ["brackets and title", "Japanese"])
def test_labels_that_were_given_before_a_filter(name: str) -> None:
    kept = (3, 1)
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


def named(prompt: str, documents: Sequence[str] = DOCUMENTS) -> list[dict[int, str]]:
    """The names of each kind, without their longer forms."""
    context = locate_context(TokenizedText((), prompt, ()), documents, ContextOptions())
    return [{index: texts[0] for index, texts in names.items()} for names in context.labels.names]


SHARED: dict[str, Callable[[object, str], str]] = {
    "attribute": lambda label, text: f'<chunk file="{label}">{text}</chunk>',
    "word": lambda label, text: f"Beleg {label}: {text}",
    "angle": lambda label, text: f"【{label}】{text}",
}


@pytest.mark.parametrize("labels", [(1, 1, 2, 3), (1, 2, 1, 3)])
@pytest.mark.parametrize("form", SHARED)
def test_chunks_of_a_file_share_its_number(form: str, labels: Sequence[int]) -> None:
    shown = "\n".join(map(SHARED[form], labels, DOCUMENTS))
    assert numbers(f"Context:\n{shown}\n\nWho?") == dict(enumerate(labels))


def test_a_text_in_two_places_has_the_labels_of_both() -> None:
    mill, ferry, *_ = DOCUMENTS
    prompt = f"(1) {mill}\n(2) {ferry}\n(3) {mill}\nWho?"
    assert numbers(prompt, [mill, ferry, mill]) == {0: 1, 1: 2, 2: 3}
    context = locate_context(TokenizedText((), prompt, ()), [mill, ferry], ContextOptions())
    assert context.labels.written == {0: ("1", "3"), 1: ("2",)}


@pytest.mark.parametrize("form", ["[{}] {}", "Passage {}: {}", '<doc index="{}">{}</doc>'])
def test_labels_are_those_of_the_last_retrieval(form: str) -> None:
    first, second = (
        "\n".join(form.format(label, text) for label, text in enumerate(texts, start=1))
        for texts in (DOCUMENTS[:2], DOCUMENTS[2:])
    )
    turns = [f"{first}\n\nHow old is it?", "It is old [1]."]
    prompt = f"User: {first}\n\nHow old is it?\nBot: It is old [1].\nUser: {second}\n\nWho?"
    located = locate_context(
        TokenizedText((), prompt, ()), DOCUMENTS, ContextOptions(), earlier_turns=turns
    )
    assert located.labels.numbers == {0: 3, 1: 4, 2: 1, 3: 2}
    assert located.labels.written == {2: ("1",), 3: ("2",)}


@pytest.mark.parametrize("head", ["", "Results for ferries:\n", "</search>\n<search>\n", "Why?\n"])
def test_searches_that_each_number_from_1_share_their_labels(head: str) -> None:
    first, second = (
        "\n".join(f"[{label}] {text}" for label, text in enumerate(texts, start=1))
        for texts in (DOCUMENTS[:2], DOCUMENTS[2:])
    )
    for prompt in (f"{first}\n{head}{second}\nWho?", f"{head}{first}\n\n{head}{second}\n\nWho?"):
        assert numbers(prompt) == {0: 1, 1: 2, 2: 1, 3: 2}


NAMES = ("mill.pdf", "A7-03", "Letters by boat", "20481")


@pytest.mark.parametrize(
    "form",
    [
        *("[{}] {}", "Datei: {}\n{}", "### {}\n\n{}", "Quelle {}: {}", "[Akte {}] {}"),
        *('<text name="{}" page="3">{}</text>', '{{"key": "{}", "text": "{}"}}', "({}) {}"),
    ],
)
def test_names_are_what_differs_before_documents(form: str) -> None:
    shown = "\n\n".join(map(form.format, NAMES, DOCUMENTS))
    assert dict(enumerate(NAMES)) in named(f"Use these texts.\n\n{shown}\n\nWho?")


@pytest.mark.parametrize(
    "form", ["Text: {}", "On 2024-03-0{i}. {}", "Score: 0.8{i}\n{}", "{}", "---\n{}"]
)
def test_what_is_the_same_or_no_word_is_no_name(form: str) -> None:
    shown = "\n\n".join(form.format(text, i=i) for i, text in enumerate(DOCUMENTS, start=1))
    assert named(f"Use these texts.\n\n{shown}\n\nWho?") == []


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (("a.md", "b.md"), ("a.md", "c.md"), {0: "a.md", 1: "b.md", 2: "a.md", 3: "c.md"}),
        (("A", "B"), ("A", "B"), {2: "A", 3: "B"}),
    ],
)
def test_names_stay_and_counts_begin_anew_in_a_later_turn(
    first: Sequence[str], second: Sequence[str], expected: dict[int, str]
) -> None:
    turn, last = (
        "\n".join(f"[{label}] {text}" for label, text in zip(labels, texts, strict=True))
        for labels, texts in ((first, DOCUMENTS[:2]), (second, DOCUMENTS[2:]))
    )
    context = locate_context(
        TokenizedText((), f"{turn}\nWho?\nHe did.\n{last}\nWhen?", ()),
        DOCUMENTS,
        ContextOptions(),
        earlier_turns=[f"{turn}\nWho?", "He did."],
    )
    assert expected in [
        {index: texts[0] for index, texts in names.items()} for names in context.labels.names
    ]


def test_searches_of_one_turn_share_their_labels() -> None:
    first, second = (
        "\n".join(f"[{label}] {text}" for label, text in enumerate(texts, start=1))
        for texts in (DOCUMENTS[:2], DOCUMENTS[2:])
    )
    question = "When was it built, and who carried letters?"
    context = locate_context(
        TokenizedText((), f"{question}\nFound: {first}\nThen found: {second}\n", ()),
        DOCUMENTS,
        ContextOptions(),
        message=question,
    )
    assert context.labels.numbers == {0: 1, 1: 2, 2: 1, 3: 2}


@pytest.mark.parametrize(
    ("form", "labels"),
    [
        ("[{}] {}", ("1.1", "1.2", "2.1", "10.1")),
        ("[{}] {}", ("00:01:10", "00:02:45", "00:09:30", "01:00:00")),
        ("URL: {}\n{}", tuple(f"https://orm.example/{name}" for name in "abcd")),
        ("{{{{cite:{}}}}} {}", ("m1", "m2", "m3", "m4")),
        ('<part no="{}">{}</part>', ("1.1", "1.2", "2.1", "10.1")),
    ],
)
def test_names_without_words(form: str, labels: Sequence[str]) -> None:
    shown = "\n\n".join(map(form.format, labels, DOCUMENTS))
    assert dict(enumerate(labels)) in named(f"Use these texts.\n\n{shown}\n\nWho?")


def test_numbers_that_the_answer_defines_are_those_of_its_citations() -> None:
    shown = "\n\n".join(f"URL: https://orm.example/{i}\n{x}" for i, x in enumerate(DOCUMENTS))
    context = locate_context(TokenizedText((), shown, ()), DOCUMENTS, ContextOptions())
    assert context.labels.numbers_for({}, {(2, 1)}) == {0: 5, 1: 2, 2: 1, 3: 4}
    assert context.labels.numbers_for({}, {(1, 2)}) == {0: 1, 1: 2, 2: 3, 3: 4}
