"""A page that shows a retrieved document's file, with the cited text marked."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from attribot_rag.context import Document
from attribot_rag.context.alignment import Location
from attribot_rag.context.locating import Locator
from attribot_rag.context.splitting.splitter import language_of
from attribot_rag.context.text import Interval, stands_alone
from attribot_rag.corpus import PdfText, opened, read_pdf, read_text
from attribot_rag.display.markdown_tree import html_of, reads_as_markdown, tree_of
from attribot_rag.display.page import page_part, page_templates
from attribot_rag.display.report import title_of
from attribot_rag.display.script import script_of
from attribot_rag.errors import MissingExtra
from attribot_rag.result import Result, cite
from attribot_rag.result.answer_text import on_one_line

AROUND = 2
_STARTS = ("start", "start_index")
_LANGUAGES = ("en", "de")
_SCALE = 1.6  # pixels for each point, 1/72 inch
_PIXELS = 4_000_000  # of a page, at most


def render_document(
    attribution: Result, index: int, file: Path, *, sentence: int | None = None
) -> str:
    """A page that shows the file of a document, with the text that the answer cites marked.

    A text is shown whole, with its Markdown rendered. A PDF file shows the marked pages, and two on
    either side (needs the extra `pdf`). The page opens at the first mark, `#cited`. A bar leads to
    the other marks, and back. Text that is not found at one certain place in the file is not
    marked, and the page says so, in the answer's language if the element has it. Nothing in the
    file takes effect, and the page loads nothing from elsewhere. Raises InvalidInput if the file
    cannot be read.

    Args:
        attribution: The attribution that cites the document.
        index: The document's index in it.
        file: The file that the document was cut from.
        sentence: The index of a sentence, to mark only the text that it cites.
    """
    return _page(
        attribution.documents[index],
        file,
        cited_spans(attribution, index, sentence),
        _sentence(attribution, sentence),
        language_of("", [attribution.response]),
    )


def render_passage(document: Document, file: Path, *, sentence: str = "") -> str:
    """The same page of a file opened at a passage of it, which a search for a sentence found.

    Raises InvalidInput if the file cannot be read.
    """
    spans = ((0, len(document.text)),)
    return _page(document, file, spans, sentence, language_of("", [sentence]), is_found=True)


def _page(
    document: Document,
    file: Path,
    spans: Sequence[Interval],
    sentence: str,
    language: str,
    is_found: bool = False,
) -> str:
    """The page of a file, with spans of a document marked that was cut from it."""
    pdf = read_pdf(file) if file.suffix.lower() == ".pdf" else None
    text = pdf.text if pdf else read_text(file)
    marked = sorted(places_in(text, document, spans))
    pages = draw_pages(file, pdf, _pages(pdf, marked, document), marked) if pdf else ()
    titled = document.title and document.title == document.metadata.get("title")
    template = page_templates().get_template("document_page.html")
    style = page_part("answer.css").replace(":host {", ":root {")
    return template.render(
        name=file.name,
        title=title_of(document) if titled else file.name,
        language=language if language in _LANGUAGES else "en",
        quotes=[document.text[start:end].strip() for start, end in spans],
        missing=len(spans) - len(marked),
        content="" if pdf else _content(text, file.name, marked),
        pages=list(pages),
        count=len(pdf.pages) if pdf else 0,
        sentence=on_one_line(sentence),
        is_found=is_found,
        style=Markup(style + page_part("document_page.css")),
        script=Markup(script_of("document_page")),
    )


def cited_spans(
    attribution: Result, index: int, sentence: int | None = None
) -> tuple[Interval, ...]:
    """The characters [start, end) of a document that the answer cites, best source first.

    With `sentence`, only those that this sentence cites.
    """
    sentences = cite(attribution).sentences
    if sentence is not None:
        sentences = sentences[sentence : sentence + 1]
    cited = dict.fromkeys(source_id for cited in sentences for source_id in cited.source_ids)
    places = (place for source_id in cited for place in attribution.sources[source_id].occurrences)
    spans = (span for place in places for span in place.spans if span.document == index)
    return tuple(dict.fromkeys((span.start, span.end) for span in spans))


def places_in(text: str, document: Document, spans: Iterable[Interval]) -> tuple[Interval, ...]:
    """Where spans of a document are in the text of the file that it was cut from.

    White space, case, mark-up and typography may differ. The whole document is looked up first. If
    it stands there several times, its metadata (`start` or `start_index`) must say where. If it
    is not there as a whole, a span is found if it is in the file only once. Uncertain
    places are left out.
    """
    locator = Locator(text, threshold=1)
    locations = locator.locate(document.text)
    if len(locations) > 1:
        starts = [document.metadata.get(key) for key in _STARTS]
        locations = [
            location
            for location in locations
            if any(start in _begins(text, location) for start in starts)
        ]
    places = []
    for start, end in spans:
        if len(locations) == 1:
            offsets = locations[0].offsets
            places.append((offsets[start], offsets[end]))
        elif not locations:
            alone = locator.locate(document.text[start:end])
            if len(alone) == 1 and stands_alone(text, alone[0].start, alone[0].end):
                places.append((alone[0].start, alone[0].end))
    trimmed = (_trimmed(text, *place) for place in places)
    return tuple(place for place in trimmed if place is not None)


def _begins(text: str, location: Location) -> range:
    """Where a passage may begin: white space before it may count."""
    return range(len(text[: location.start].rstrip()), location.start + 1)


def _trimmed(text: str, start: int, end: int) -> Interval | None:
    """The interval without white space at its ends; None if nothing remains."""
    shown = text[start:end]
    words = shown.strip()
    start += len(shown) - len(shown.lstrip())
    return (start, start + len(words)) if words else None


def _sentence(attribution: Result, index: int | None) -> str:
    """The text of a sentence of the answer, '' for none."""
    sentences = cite(attribution).sentences
    if index is None or index not in range(len(sentences)):
        return ""
    return attribution.response[sentences[index].start : sentences[index].end]


def _content(text: str, name: str, marked: Sequence[Interval]) -> Markup:
    """The text as people read it, with the marks of each citation. `#cited` leads to the first."""
    is_first = True

    def mark(citation: int, shown: Markup) -> Markup:
        nonlocal is_first
        anchor = Markup(' id="cited"') if is_first else ""
        is_first = False
        return Markup('<mark{} data-citation="{}">{}</mark>').format(anchor, citation, shown)

    blocks = tree_of(text, is_markdown=reads_as_markdown(text, name))
    return html_of(blocks, text, marks=marked, mark=mark)


def _pages(pdf: PdfText, marked: Sequence[Interval], document: Document) -> range:
    """The marked pages, or the document's page, or the first one, with some on either side."""
    indices = [pdf.page_at(place) for start, end in marked for place in (start, end - 1)]
    if not indices:
        first = document.page.split("–")[0]
        labels = [page.label for page in pdf.pages]
        indices = [labels.index(first) if first in labels else 0]
    return range(max(0, min(indices) - AROUND), min(len(pdf.pages), max(indices) + AROUND + 1))


if TYPE_CHECKING:
    from pypdfium2 import PdfBitmap, PdfPage


@dataclass(frozen=True)
class Rectangle:
    """Pixels from the picture's upper left corner. `citation` is the index of its span."""

    left: float
    top: float
    width: float
    height: float
    citation: int = 0


@dataclass(frozen=True)
class DrawnPage:
    """A page: its label, the URL and the size in pixels of its PNG, and its marks."""

    label: str
    picture: str
    width: int
    height: int
    marks: tuple[Rectangle, ...]


def draw_pages(
    file: Path, text: PdfText, pages: Sequence[int], spans: Sequence[Interval]
) -> Iterator[DrawnPage]:
    """Pictures of the pages with these indices, with the characters of `spans` marked.

    `text` is what `read_pdf` returned for the file. Raises InvalidInput if it cannot be opened.
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
    """PDFium's characters of the spans on a page: the span, the first one, and how many."""
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
