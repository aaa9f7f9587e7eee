from pathlib import Path

import pypdfium2
import pytest
from support.pdf_files import pdf
from support.threads import at_once

from attribot_rag.corpus import read_pdf
from attribot_rag.errors import InvalidInput


def test_words_that_lines_and_pages_divide_are_whole(tmp_path: Path) -> None:
    pages = ["The crane was pur-\nple. Nobody", "", "knew the har-", "bour in 1990-", "1995."]
    paper = read_pdf(pdf(tmp_path / "a.pdf", pages))
    assert paper.text == "The crane was purple. Nobody\nknew the harbour in 1990-\n1995."
    on_pages = [paper.text[page.start : page.end] for page in paper.pages]
    assert on_pages == [
        "The crane was purple. Nobody",
        "",
        "knew the har",
        "bour in 1990-",
        "1995.",
    ]
    assert [paper.page_at(paper.text.index(word)) for word in ("knew", "bour", "1995")] == [2, 3, 4]
    assert paper.label(0, 5) == "1" and paper.label(0, len(paper.text)) == "1–5"


def test_every_character_has_its_place_on_its_page(tmp_path: Path) -> None:
    """PDFium gives that character there; a pair of surrogates has the place of its second half."""
    file = pdf(tmp_path / "a.pdf", ["A 😀 and “ﬁne” cafés pur-\nple.", "Second."])
    paper = read_pdf(file)
    assert paper.text == "A 😀 and “fine” cafés purple.\nSecond."
    with pypdfium2.PdfDocument(file) as document:
        for page, shown in zip(paper.pages, document, strict=True):
            textpage = shown.get_textpage()
            for position in range(page.start, page.end):
                place, character = paper.places[position], paper.text[position]
                unit = pypdfium2.raw.FPDFText_GetUnicode(textpage, place)
                assert unit == int.from_bytes(character.encode("utf-16-le")[-2:], "little")


def test_a_page_s_own_label_is_used(tmp_path: Path) -> None:
    file = pdf(tmp_path / "a.pdf", ["One.", "Two.", "Three."])
    labels = b"/PageLabels << /Nums [0 << /S /r >> 2 << /S /D /St 7 >>] >>"
    file.write_bytes(file.read_bytes().replace(b"/Type /Catalog", b"/Type /Catalog " + labels))
    assert [page.label for page in read_pdf(file).pages] == ["i", "ii", "7"]


def test_errors_name_the_file_and_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "broken.pdf").write_bytes(b"no PDF")
    for file, message in (
        (tmp_path / "broken.pdf", "broken.pdf cannot be read"),
        (tmp_path / "missing.pdf", "missing.pdf cannot be read"),
        (pdf(tmp_path / "scan.pdf", [""]), "scan.pdf has no text; a scanned PDF needs text"),
    ):
        with pytest.raises(InvalidInput, match=message):
            read_pdf(file)


def test_threads_read_at_once(tmp_path: Path) -> None:
    file = pdf(tmp_path / "a.pdf", [f"Page {number}." for number in range(20)])
    texts: list[str] = []
    at_once(*[lambda: texts.append(read_pdf(file).text)] * 4)
    assert len(texts) == 4 and len(set(texts)) == 1
