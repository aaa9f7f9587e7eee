"""Files shown with their cited sentences marked, pages of PDF files as pictures."""

import base64
import io
import re
from pathlib import Path

import numpy as np
import pypdfium2
import pytest
from PIL import Image
from support.attributions import handmade
from support.hostile import HTML
from support.pdf_files import pdf

from attribot_rag import Attribution, Document
from attribot_rag.corpus import read_pdf
from attribot_rag.display import render_document, render_passage
from attribot_rag.display.document_page import DrawnPage, draw_pages
from attribot_rag.errors import InvalidInput

PAGES = [
    "The bell is green. The crane was\npainted pur-\nple by Otto Brandt. It broke.",
    "The crane was painted in the har-",
    "bour of Penhow. The bell is green.",
]


def citing(document: str | Document, *sentences: str) -> Attribution:
    answer = " ".join(f"Sentence {number}." for number in range(len(sentences)))
    scores = {
        text: [9.0 if number == own else 0.0 for number in range(len(sentences))]
        for own, text in enumerate(sentences)
    }
    return handmade(answer, [document], scores)


def drawn(file: Path, sentence: str) -> list[DrawnPage]:
    text = read_pdf(file)
    start = text.text.index(sentence)
    return list(draw_pages(file, text, range(len(text.pages)), [(start, start + len(sentence))]))


def marked(file: Path, pages: list[DrawnPage]) -> list[str]:
    """The text that PDFium reads within the marks of each page."""
    read = []
    with pypdfium2.PdfDocument(file) as document:
        for shown, page in zip(pages, document, strict=True):
            textpage, (width, height) = page.get_textpage(), page.get_size()
            x, y = width / shown.width, height / shown.height
            texts = (
                textpage.get_text_bounded(
                    mark.left * x,
                    height - (mark.top + mark.height) * y,
                    (mark.left + mark.width) * x,
                    height - mark.top * y,
                )
                for mark in shown.marks
            )
            read.append("|".join(text.strip() for text in texts))
    return read


@pytest.mark.parametrize(
    ("sentence", "on_pages"),
    [
        (
            "The crane was\npainted purple by Otto Brandt.",
            ["The crane was|painted pur\ufffe|ple by Otto Brandt.", "", ""],
        ),
        (
            "The crane was painted in the harbour of Penhow.",
            ["", "The crane was painted in the har-", "bour of Penhow."],
        ),
    ],
)
def test_the_marks_hold_the_sentence_and_nothing_else(
    tmp_path: Path, sentence: str, on_pages: list[str]
) -> None:
    """Also where a line's or a page's end divides a word, and after a sentence like it."""
    file = pdf(tmp_path / "a.pdf", PAGES)
    assert [re.sub("[-\x02\ufffe]", "", text) for text in marked(file, drawn(file, sentence))] == [
        re.sub("[-\x02\ufffe]", "", on_page) for on_page in on_pages
    ]


@pytest.mark.parametrize("rotation", [0, 90])
def test_marks_lie_on_the_ink_of_turned_and_cropped_pages(tmp_path: Path, rotation: int) -> None:
    file = pdf(tmp_path / "a.pdf", ["The crane was purple."])
    with pypdfium2.PdfDocument(file) as document:
        width, height = document[0].get_size()
        document[0].set_cropbox(20, 50, width - 90, height - 30)
        document[0].set_rotation(rotation)
        document.save(tmp_path / "b.pdf")
    (page,) = drawn(tmp_path / "b.pdf", "The crane was purple.")
    png = base64.b64decode(page.picture.partition(",")[2])
    rows, columns = np.nonzero(np.asarray(Image.open(io.BytesIO(png)).convert("L")) < 128)
    (mark,) = page.marks
    ink = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
    at = [mark.left, mark.top, mark.left + mark.width, mark.top + mark.height]
    assert np.allclose(ink, at, atol=3)


def test_a_text_is_shown_whole_with_its_citations_marked(tmp_path: Path) -> None:
    file = tmp_path / "notes.md"
    file.write_text(
        f"# Notes\n\nThe bell.\n\n{HTML[0]}\n\nIt is old. It broke.\n\nThe bell.\n", "utf-8"
    )
    page = render_document(citing("It is old. It broke.", "It is old.", "It broke."), 0, file)
    assert page.count("<mark") == 2 and page.count('id="cited"') == 1
    marks = re.sub(' data-citation="(.)"', r"\1", page)
    assert '<mark id="cited"0>It is old.</mark> <mark1>It broke.</mark></p>' in marks
    assert page.count("<script") == 1 and HTML[0] not in page and "is not marked" not in page
    assert "<q>" not in page
    second = render_document(
        citing("It is old. It broke.", "It is old.", "It broke."), 0, file, sentence=1
    )
    assert '<p>It is old. <mark id="cited" data-citation="0">It broke.</mark></p>' in second
    assert "<q>Sentence 1.</q>" in second


def test_a_sentence_of_uncertain_place_is_not_marked_and_the_page_says_so(tmp_path: Path) -> None:
    file = tmp_path / "notes.md"
    file.write_text("The bell is green. The bell is green.", "utf-8")
    page = render_document(citing("The bell is green.", "The bell is green."), 0, file)
    assert 'id="cited"' not in page and "What is cited has no certain place in this file" in page
    assert '<blockquote dir="auto"><mark>The bell is green.</mark></blockquote>' in page


def test_of_a_long_pdf_the_pages_around_the_marks_are_shown(tmp_path: Path) -> None:
    pages = [f"Nothing {number}." for number in range(5)]
    file = pdf(tmp_path / "a.pdf", [*pages, *PAGES, *pages])
    passage = "The crane was painted in the harbour of Penhow."
    page = render_document(citing(passage, passage), 0, file)
    assert re.findall(r"<h2>Page (\d+)", page) == ["5", "6", "7", "8", "9", "10"]
    assert "6 of 13 pages are shown." in page
    assert page.count("<rect") == 2 and page.count('<rect id="cited"') == 1
    elsewhere = Document("The bell is green.", metadata={"page_label": "12"})
    page = render_document(citing(elsewhere, "The bell is green."), 0, file)
    assert re.findall(r"<h2>Page (\d+)", page) == ["10", "11", "12", "13"]
    assert "<rect" not in page and "no certain place" in page


def test_a_file_that_is_gone_is_an_error(tmp_path: Path) -> None:
    for name in ("a.md", "a.pdf"):
        with pytest.raises(InvalidInput, match=f"{name} cannot be read"):
            render_document(citing("A bell.", "A bell."), 0, tmp_path / name)


def test_a_passage_that_a_search_found_is_marked_as_a_whole(tmp_path: Path) -> None:
    file = tmp_path / "bell.md"
    file.write_text("# Bell\n\nThe bell is green. It is old.\n\nThe bell is green. It is old.")
    passage = Document("The bell is green. It is old.", metadata={"start": 39})
    page = render_passage(passage, file, sentence=f"Is it green? {HTML[0]}")
    assert re.findall(r"<mark.*?</mark>", page) == [
        '<mark id="cited" data-citation="0">The bell is green. It is old.</mark>'
    ]
    assert "Found for <q>Is it green?" in page and HTML[0] not in page
    moved = render_passage(Document("Gone.", metadata={"start": 0}), file)
    assert "no certain place" in moved
