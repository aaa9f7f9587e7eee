"""Cuts files of a folder into chunks of text, and retrieves them. Needs the extra `cli`."""

from __future__ import annotations

import logging
import re
import unicodedata
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from io import BytesIO
from itertools import groupby, pairwise
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING
from warnings import catch_warnings, simplefilter
from xml.parsers.expat import ExpatError
from zipfile import BadZipFile

from attribot_rag.context import Document
from attribot_rag.context.splitting.blocks import heading_before
from attribot_rag.context.text import num_unspaced
from attribot_rag.errors import InvalidInput, MissingExtra, NoText

SUFFIXES = (".md", ".txt", ".csv", ".html", ".htm", ".docx", ".pdf")
CHUNK_CHARACTERS = (400, 700)
_NAMED = f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
_MARKUP = (".html", ".htm", ".docx")
_BROKEN = (BadZipFile, zlib.error, ExpatError, EOFError, LookupError, RuntimeError, ValueError)
_MOST_NAMED = 10  # files that are skipped in a folder

logger = logging.getLogger(__name__)
_DIVIDED = re.compile(r"[^\W\d_]-\Z")
_PDFIUM = RLock()  # PDFium is not thread-safe


def read_chunks(paths: Sequence[Path]) -> list[Document]:
    """The chunks, without overlap, of files and of all files in folders; see `SUFFIXES`.

    A chunk's id is the name of its file and its number ('ferry.txt#3'). Its metadata has `title`,
    `file`, `start` in characters, `section` for the heading above, and `page_label` for a PDF file.
    Other kinds of files in a folder, files without readable text (a scanned PDF, another encoding
    than UTF-8), and links to files outside of it are skipped with a logged warning. Raises
    InvalidInput, with the path, for a path that cannot be read or has no text, and MissingExtra for
    a missing package.
    """
    MissingExtra.check("reading files", "cli", "semantic_text_splitter")
    try:
        files = {file.resolve(): (file, text) for path in paths for file, text in _texts(path)}
    except OSError as error:
        raise InvalidInput(f"{error.filename} cannot be read: {error.strerror}") from error
    texts = dict(files.values())
    names = [file.name for file in texts]
    return [
        chunk
        for file, text in texts.items()
        for chunk in _chunks(
            file, text, file.name if names.count(file.name) == 1 else file.as_posix()
        )
    ]


def read_text(file: Path) -> str:
    """The text of a file other than a PDF. Raises NoText if it is empty or cannot be read.

    An HTML or DOCX file becomes Markdown: its headings, lists and tables, without links, pictures
    and emphasis. Any other file is UTF-8 text.
    """
    try:
        if file.suffix.lower() in _MARKUP:
            text = _markdown(file)
        else:
            text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise NoText(f"{file} is not UTF-8 text (byte {error.start}); save it as UTF-8") from error
    except OSError as error:
        raise NoText(f"{file} cannot be read: {error.strerror or error}") from error
    except _BROKEN as error:
        raise NoText(f"{file} cannot be read as {file.suffix[1:].upper()}") from error
    if not text.strip():
        raise NoText(f"{file} is empty")
    return text


def _markdown(file: Path) -> str:
    MissingExtra.check(f"the file {file}", "cli", "mammoth", "markdownify")
    import mammoth
    from bs4 import BeautifulSoup, MarkupResemblesLocatorWarning
    from bs4.element import NavigableString
    from markdownify import ATX, MarkdownConverter

    content = file.read_bytes()
    if file.suffix.lower() == ".docx":
        content = mammoth.convert_to_html(BytesIO(content)).value.encode()
    with catch_warnings():  # a page that is one word causes a warning
        simplefilter("ignore", MarkupResemblesLocatorWarning)
        page = BeautifulSoup(content, "html.parser")
    comments = page.find_all(string=lambda text: type(text) is not NavigableString)
    for part in [*page(["title", "script", "style", "template", "noscript"]), *comments]:
        part.extract()
    converter = MarkdownConverter(
        heading_style=ATX,
        strip=["a", "img", "b", "strong", "i", "em"],
        escape_asterisks=False,
        escape_underscores=False,
        table_infer_header=True,
    )
    text = re.sub(r"[ \t]+\n", "\n", str(converter.convert_soup(page)))
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def retrieve(question: str, chunks: Sequence[Document], count: int) -> list[Document]:
    """The `count` best chunks for the question by BM25, best first.

    Chunks without a word of the question are left out, unless there are at most `count` chunks.
    Raises InvalidInput if no chunk is left.
    """
    MissingExtra.check("retrieval", "cli", "bm25s")
    import bm25s
    from bm25s.stopwords import STOPWORDS_EN

    index = bm25s.BM25()
    index.index([_terms(chunk.text) for chunk in chunks], show_progress=False)
    terms = [term for term in _terms(question) if term not in STOPWORDS_EN]
    scores = index.get_scores(terms).tolist() if terms else [0.0] * len(chunks)
    ranked = sorted(range(len(chunks)), key=lambda number: (-scores[number], number))[:count]
    if len(chunks) > count:
        ranked = [number for number in ranked if scores[number] > 0]
    if not ranked:
        raise InvalidInput(
            f"none of the {len(chunks)} chunks has a word of the question {question!r}; ask with "
            "words that are in the files"
        )
    return [chunks[number] for number in ranked]


def _terms(text: str) -> list[str]:
    """Words of two letters or more. In scripts without spaces, all pairs of letters.

    There, each ideograph is also a term.
    """
    terms: list[str] = []
    text = unicodedata.normalize("NFKC", text).casefold()
    for kind, characters in groupby(text, _kind):
        run = "".join(characters)
        if kind == "word" and len(run) > 1:
            terms.append(run)
        elif kind == "unspaced":
            terms += map("".join, pairwise(run))
            terms += filter(_is_ideograph, run)
    return terms


@cache
def _kind(character: str) -> str:
    if num_unspaced(character):
        return "unspaced"
    is_letter = character.isalnum() or character == "_" or unicodedata.category(character)[0] == "M"
    return "word" if is_letter else "other"


def _is_ideograph(character: str) -> bool:
    return unicodedata.name(character, "").startswith("CJK ")


def _texts(path: Path) -> Iterator[tuple[Path, str | PdfText]]:
    """The file with its text, or the files of a folder that have text and are not hidden."""
    if path.is_dir():
        texts = list(_texts_within(path))
        if not texts:
            raise NoText(f"no {_NAMED} file with text is in the folder {path}")
        yield from texts
    elif not path.exists():
        raise InvalidInput(f"there is no file {path}")
    elif path.suffix.lower() not in SUFFIXES:
        raise InvalidInput(
            f"{path} is not a {_NAMED} file; convert it to text first, or leave it out"
        )
    else:
        yield path, _text(path)


def _texts_within(folder: Path) -> Iterator[tuple[Path, str | PdfText]]:
    others = []
    for file in sorted(folder.rglob("*")):
        name = file.relative_to(folder)
        if any(part.startswith(".") for part in name.parts):
            continue
        if not file.resolve().is_relative_to(folder.resolve()):
            logger.warning("Skipped: %s is a link out of the folder; name its target instead", file)
        elif file.suffix.lower() not in SUFFIXES:
            others += [str(name)] if file.is_file() else []
        elif file.is_file():
            try:
                yield file, _text(file)
            except NoText as error:
                logger.warning("Skipped: %s", error)
    if others:
        names = ", ".join(others[:_MOST_NAMED])
        more = f" and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
        logger.warning("Skipped: %s%s (only %s files are read)", names, more, _NAMED)


def _text(file: Path) -> str | PdfText:
    return read_pdf(file) if file.suffix.lower() == ".pdf" else read_text(file)


def _chunks(file: Path, text: str | PdfText, name: str) -> Iterable[Document]:
    from semantic_text_splitter import MarkdownSplitter, TextSplitter

    kind = MarkdownSplitter if file.suffix.lower() in (".md", *_MARKUP) else TextSplitter
    chunks = kind(CHUNK_CHARACTERS).chunk_indices(text if isinstance(text, str) else text.text)
    for number, (start, chunk) in enumerate(chunks, start=1):
        metadata = {"title": file.name, "file": str(file), "start": start}
        if isinstance(text, PdfText):
            metadata["page_label"] = text.label(start, start + len(chunk))
        elif section := section_at(text, start):
            metadata["section"] = section
        yield Document(chunk, f"{name}#{number}", metadata)


def section_at(text: str, start: int) -> str:
    """The Markdown heading of the line at a character, else the last one above; '' for none."""
    end = text.find("\n", start)
    return heading_before(text, end if end >= 0 else len(text))


if TYPE_CHECKING:
    from pypdfium2 import PdfDocument


@dataclass(frozen=True)
class PdfPage:
    """The page's printed `label` or its number, and its characters [start, end) of the text."""

    label: str
    start: int
    end: int


@dataclass(frozen=True)
class PdfText:
    """The text of all pages. Words are joined across lines and pages.

    `places` has for each character its index among the characters that PDFium counts on its page.
    """

    text: str
    pages: tuple[PdfPage, ...]
    places: array[int] = field(repr=False)

    def page_at(self, position: int) -> int:
        """The index of the page that has this character of the text."""
        return max(0, bisect_right(self.pages, position, key=lambda page: page.start) - 1)

    def label(self, start: int, end: int) -> str:
        """The label of the page that has [start, end), or of the first and the last: '3–4'."""
        indices = (self.page_at(start), self.page_at(max(start, end - 1)))
        first, last = (self.pages[index].label for index in indices)
        return first if first == last else f"{first}–{last}"


def read_pdf(file: Path) -> PdfText:
    """The text of a PDF file. Raises NoText if it cannot be read or has none."""
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
    """The file in PDFium, for this thread alone. Raises NoText if it cannot be opened.

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
    """The UTF-16 code units of a page.

    0 stands for a hyphen within a word, and for no character.
    """
    from pypdfium2 import raw

    for place in range(raw.FPDFText_CountChars(textpage)):
        divides = raw.FPDFText_IsHyphen(textpage, place) == 1
        yield 0 if divides else raw.FPDFText_GetUnicode(textpage, place)


def _characters(units: Iterable[int]) -> Iterator[tuple[str, int]]:
    """Characters with their places.

    A pair of surrogates is one character, and lines end with a line feed.
    """
    high = 0
    for place, unit in enumerate(units):
        if 0xDC00 <= unit < 0xE000 and high:
            yield chr(0x10000 + ((high - 0xD800) << 10) + unit - 0xDC00), place
        elif not 0xD800 <= unit < 0xE000 and unit not in (0, 0x0D):
            yield chr(unit), place
        high = unit if 0xD800 <= unit < 0xDC00 else 0
