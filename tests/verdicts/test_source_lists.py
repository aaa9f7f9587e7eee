"""Lists of sources in an answer: they speak of the whole answer, and nothing in them is judged."""

import pytest
from support.attributions import handmade

from attribot_rag.attribution import ResponseText
from attribot_rag.context import ContextOptions, Document, TokenizedText, locate_context
from attribot_rag.verdicts.markers import markers_in
from attribot_rag.verdicts.sentences import sentences_of

DOCUMENTS = (
    "The harbour crane lifts 40 tonnes.",
    "The pilot boat leaves at six.",
    "The ice house was closed in 1911.",
)
TOLD = "The pilot boat leaves at six [2]. The ice house was closed in 1911 [3]."


def read(answer: str) -> tuple[list[str], list[tuple[str, bool]]]:
    """The judged sentences, and each label with whether it speaks of the whole answer."""
    shown = "\n".join(f"[{number}] {text}" for number, text in enumerate(DOCUMENTS, 1))
    prompt = TokenizedText((), f"{shown}\n\nWhen?", ())
    marked = markers_in(answer, locate_context(prompt, DOCUMENTS, ContextOptions()))
    text = ResponseText(answer, handmade(answer, DOCUMENTS, {}).token_spans)
    sentences = sentences_of(text, marked)
    assert "".join(sentence.text for sentence in sentences) == answer
    whole = (0, len(answer))
    return (
        [sentence.text.strip() for sentence in sentences if sentence.is_judged],
        [(label, whole in m.scopes) for m in marked.markers for label in m.labels],
    )


@pytest.mark.parametrize(
    "listed",
    [
        "Sources:\n[2] Harbour guide\n[3] Town history",
        "[2] Harbour guide\n[3] Town history",
        "**Quellen**\n- [2] harbour.pdf, page 14\n- [3] town.pdf",
        "### Источники\n* **[2]** Harbour guide.\n* **[3]** Town history.",
        "参考资料：\n[2] 港口指南\n[3] 城市历史",
        "Bronnen\n\n1. [2] Harbour guide, p. 14\n2. [3] Town history, p. 3",
        "Kilder: [2], [3]",
        "Sources: [2] Harbour guide, [3] Town history",
        "| No. | Source |\n|---|---|\n| [2] | Harbour guide |\n| [3] | Town history |",
        "<sources>\n[2] Harbour guide\n[3] Town history\n</sources>",
        'Sources:\n[2] Guide: "The pilot boat leaves at six."\n[3] Town\n\nI hope this helps!',
        "[^2]: Harbour guide, p. 14.\n[^3]: Town history.",
        "Sources:\n[2] Harbour guide\n    https://orm.example/guide\n[3] Town history",
    ],
)
def test_a_list_of_sources_states_nothing(listed: str) -> None:
    judged, labels = read(f"{TOLD}\n\n{listed}")
    assert " ".join(judged) == TOLD
    assert labels == [("2", False), ("3", False), ("2", True), ("3", True)]


@pytest.mark.parametrize(
    "listed", ["Sources:\n2. Harbour guide\n3. Town history", "Used:\n- Source 2: Harbour guide"]
)
def test_lines_that_begin_with_a_label_without_brackets(listed: str) -> None:
    assert " ".join(read(f"{TOLD}\n\n{listed}")[0]) == TOLD


def test_a_line_of_no_document_is_a_marker_too() -> None:
    _, labels = read(f"{TOLD}\n\nSources:\n[2] Harbour guide\n[9] Town history")
    assert labels[-1] == ("9", True)


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        ("The documents say:\n\n- [2] The pilot boat leaves at six\n- [3] Closed in 1911", 2),
        (f"{TOLD}\n\nDetails:\n[2] The pilot boat leaves at six.\n[3] Closed in 1911.", 4),
        ("It leaves at six.\n\nFurther:\n- [1] Lifts 40 tonnes\n- [3] Closed in 1911", 3),
        ("The pilot boat leaves at six [2].\n\n[3] The ice house was closed in 1911.", 2),
        ("It is old [1]. It is new [2].\n\nSteps:\n1. Open the door\n2. Close it", 4),
        ("[2] Harbour guide\n[3] Town history", 2),
    ],
)
def test_lines_that_state_something_are_judged(answer: str, number: int) -> None:
    judged, labels = read(answer)
    assert len(judged) == number
    assert not any(is_whole for _, is_whole in labels)


@pytest.mark.parametrize("label", ["[{number}] ", "[{number}] {file}\n"])
@pytest.mark.parametrize(
    ("markers", "listed"),
    [
        ("[{}]", "Sources:\n[{}] boat.md\n[{}] ice.md"),
        ("[{}]", "Sources:\n{}. boat.md\n{}. ice.md"),
        ("[{}]", "Sources:\n- [{}] [boat.md](boat.md)\n- [{}] [ice.md](ice.md)"),
        ("[{}]", "Sources:\n[{}] Guide for pilots, p. 3\n[{}] Town history"),
        ("[{}]", 'Sources:\n[{}] "The pilot boat leaves at six."\n[{}] ice.md'),
        ("[^{}]", "[^{}]: boat.md\n[^{}]: ice.md"),
        ("[^{}]", "[^{}]: The pilot boat … at six. (boat.md)\n[^{}]: ice.md"),
        ("[^{}]", "[^{}]: The pilot boat leaves at six. (boat.md)\n[^{}]: Town history"),
    ],
)
@pytest.mark.parametrize(("boat", "ice"), [(1, 2), (2, 1), (2, 3)])
def test_a_list_says_what_its_numbers_mean(
    label: str, markers: str, listed: str, boat: int, ice: int
) -> None:
    files, titles = (
        ("crane.md", "boat.md", "ice.md"),
        ("Cranes", "Guide for pilots", "Town history"),
    )
    documents = [
        Document(text, id=file, metadata={"title": title})
        for text, file, title in zip(DOCUMENTS, files, titles, strict=True)
    ]
    shown = "\n".join(
        label.format(number=number, file=document.id) + document.text
        for number, document in enumerate(documents, 1)
    )
    told = f"The pilot boat leaves at six.{markers} The ice house was closed in 1911.{markers}"
    answer = f"{told}\n\n{listed}".format(boat, ice, boat, ice)
    prompt = TokenizedText((), f"{shown}\n\nWhen?", ())
    marked = markers_in(answer, locate_context(prompt, documents, ContextOptions()))
    meant = {
        label: of for m in marked.markers for label, of in zip(m.labels, m.documents, strict=True)
    }
    assert (meant[str(boat)], meant[str(ice)]) == ((1,), (2,))
    assert not marked.marks.leading
    text = ResponseText(answer, handmade(answer, DOCUMENTS, {}).token_spans)
    said = [x.plain_text.strip() for x in sentences_of(text, marked) if x.is_judged]
    assert said == ["The pilot boat leaves at six.", "The ice house was closed in 1911."]


def test_the_prompt_says_which_chunk_of_a_file_a_number_means() -> None:
    documents = [Document(text, metadata={"source": "harbour.md"}) for text in DOCUMENTS]
    shown = "\n".join(f"[{number}] {x.text}" for number, x in enumerate(documents, 1))
    prompt = TokenizedText((), f"{shown}\n\nWhen?", ())
    answer = f"{TOLD}\n\nSources:\n[2] harbour.md\n[3] harbour.md"
    marked = markers_in(answer, locate_context(prompt, documents, ContextOptions()))
    assert [x.documents for x in marked.markers] == [((1,),), ((2,),)] * 2
