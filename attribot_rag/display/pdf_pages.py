"""Pages of a PDF file as pictures, with the rectangles of some of their text."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from attribot_rag.context.text import Interval
from attribot_rag.corpus.pdf import PdfText, opened
from attribot_rag.errors import MissingExtra

if TYPE_CHECKING:
    from pypdfium2 import PdfBitmap, PdfPage

_SCALE = 1.6  # pixels for each point, 1/72 inch
_PIXELS = 4_000_000  # of a page, at most


@dataclass(frozen=True)
class Rectangle:
    """In pixels from the picture's upper left corner; `citation` is the index of its span."""

    left: float
    top: float
    width: float
    height: float
    citation: int = 0


@dataclass(frozen=True)
class DrawnPage:
    """A page: its label, its picture as a PNG's URL, the size of that in pixels, and its marks."""

    label: str
    picture: str
    width: int
    height: int
    marks: tuple[Rectangle, ...]


def draw_pages(
    file: Path, text: PdfText, pages: Sequence[int], spans: Sequence[Interval]
) -> Iterator[DrawnPage]:
    """The pages with these indices; marked are the characters [start, end) of the file's text.

    `text` is what `read_pdf` gave for the file. Raises InvalidInput if it cannot be opened.
    """
    MissingExtra.check("a picture of a page", "pdf", "PIL")
    with opened(file) as document:
        for index in pages:
            page = document[index]
            width, height = page.get_size()
            bitmap = page.render(scale=min(_SCALE, (_PIXELS / (width * height)) ** 0.5))
            yield DrawnPage(
                text.pages[index].label,
                _picture(bitmap),
                bitmap.width,
                bitmap.height,
                tuple(_rectangles(page, bitmap, _ranges(text, index, spans))),
            )
            bitmap.close()
            page.close()


def _ranges(text: PdfText, index: int, spans: Sequence[Interval]) -> Iterator[tuple[int, int, int]]:
    """PDFium's characters of the spans on a page: the span, the first, and how many."""
    page = text.pages[index]
    for span, (start, end) in enumerate(spans):
        first, last = max(start, page.start), min(end, page.end) - 1
        if first <= last:
            yield span, text.places[first], text.places[last] + 1 - text.places[first]


def _rectangles(
    page: PdfPage, bitmap: PdfBitmap, ranges: Iterator[tuple[int, int, int]]
) -> Iterator[Rectangle]:
    converter = bitmap.get_posconv(page)
    text_page = page.get_textpage()
    for span, first, count in ranges:
        for number in range(text_page.count_rects(first, count)):
            left, bottom, right, top = text_page.get_rect(number)
            corners = converter.to_bitmap(left, top), converter.to_bitmap(right, bottom)
            (x1, x2), (y1, y2) = (sorted(pair) for pair in zip(*corners, strict=True))
            yield Rectangle(x1, y1, x2 - x1, y2 - y1, span)
    text_page.close()


def _picture(bitmap: PdfBitmap) -> str:
    file = io.BytesIO()
    bitmap.to_pil().save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
