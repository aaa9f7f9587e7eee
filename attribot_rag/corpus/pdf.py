"""The text of PDF files, with the place of each character. Needs the extra `pdf`."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING

from attribot_rag.errors import MissingExtra, NoText

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument

_DIVIDED = re.compile(r"[^\W\d_]-\Z")
_PDFIUM = RLock()  # PDFium is not made for threads


@dataclass(frozen=True)
class PdfPage:
    """The page's printed `label`, or its number, and its characters [start, end) of the text."""

    label: str
    start: int
    end: int


@dataclass(frozen=True)
class PdfText:
    """The text of all pages, with words joined across lines and pages.

    `places` gives for each character its place among the characters that PDFium counts on its page.
    """

    text: str
    pages: tuple[PdfPage, ...]
    places: array[int] = field(repr=False)

    def page_at(self, position: int) -> int:
        """The index of the page on which a character of the text stands."""
        return max(0, bisect_right(self.pages, position, key=lambda page: page.start) - 1)

    def label(self, start: int, end: int) -> str:
        """The label of the page that shows [start, end), or of the first and the last: '3–4'."""
        indices = (self.page_at(start), self.page_at(max(start, end - 1)))
        first, last = (self.pages[index].label for index in indices)
        return first if first == last else f"{first}–{last}"


def read_pdf(file: Path) -> PdfText:
    """The text of a PDF file; raises NoText if it cannot be read or has none."""
    pages: list[PdfPage] = []
    text = ""
    places = array("i")
    with opened(file) as document:
        for index in range(len(document)):
            page, its_places = _page(document, index)
            if _DIVIDED.search(text) and page[:1].islower() and pages[-1].start < len(text):
                text = text[:-1]
                places.pop()
                pages[-1] = replace(pages[-1], end=len(text))
            elif text and page:
                text += "\n"
                places.append(-1)
            label = document.get_page_label(index) or str(index + 1)
            pages.append(PdfPage(label, len(text), len(text) + len(page)))
            text += page
            places.extend(its_places)
    if not text.strip():
        raise NoText(f"{file} has no text; a scanned PDF needs text recognition first")
    return PdfText(text, tuple(pages), places)


@contextmanager
def opened(file: Path) -> Iterator[PdfDocument]:
    """The file in PDFium, for this thread alone; raises NoText if it cannot be opened.

    Raises MissingExtra without pypdfium2.
    """
    MissingExtra.check(f"the PDF file {file}", "pdf", "pypdfium2")
    import pypdfium2

    with _PDFIUM:
        try:
            document = pypdfium2.PdfDocument(file)
        except (pypdfium2.PdfiumError, OSError) as error:
            raise NoText(f"{file} cannot be read: {error}") from error
        try:
            yield document
        except pypdfium2.PdfiumError as error:
            raise NoText(f"{file} cannot be read: {error}") from error
        finally:
            document.close()


def _page(document: PdfDocument, index: int) -> tuple[str, array[int]]:
    page = document[index]
    textpage = page.get_textpage()
    try:
        pairs = list(_characters(_units(textpage)))
    finally:
        textpage.close()
        page.close()
    return "".join(text for text, _ in pairs), array("i", (place for _, place in pairs))


def _units(textpage: object) -> Iterator[int]:
    """The UTF-16 code units of a page, 0 for a hyphen that divides a word and for no character."""
    from pypdfium2 import raw

    for place in range(raw.FPDFText_CountChars(textpage)):
        divides = raw.FPDFText_IsHyphen(textpage, place) == 1
        yield 0 if divides else raw.FPDFText_GetUnicode(textpage, place)


def _characters(units: Iterable[int]) -> Iterator[tuple[str, int]]:
    """Characters with their places; a pair of surrogates is one, and lines end with a line feed."""
    high = 0
    for place, unit in enumerate(units):
        if 0xDC00 <= unit < 0xE000 and high:
            yield chr(0x10000 + ((high - 0xD800) << 10) + unit - 0xDC00), place
        elif not 0xD800 <= unit < 0xE000 and unit not in (0, 0x0D):
            yield chr(unit), place
        high = unit if 0xD800 <= unit < 0xDC00 else 0
