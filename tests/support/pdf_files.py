"""PDF files, made by the tests that read them."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.figure import Figure


def pdf(path: Path, pages: Sequence[str]) -> Path:
    """A PDF file with these lines of text on its pages."""
    with PdfPages(path) as book:
        for text in pages:
            figure = Figure()
            figure.text(0.1, 0.5, text)
            book.savefig(figure)
    return path
