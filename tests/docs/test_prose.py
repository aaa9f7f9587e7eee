"""The documents are written in short sentences and ordinary words."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page
    for pattern in ("*.md", "docs/*.md", "docs/reference/*.md", "integrations/*/*.md")
    for page in ROOT.glob(pattern)
)
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text("utf-8")
MOST_WORDS = 30
IDIOMS = re.compile(
    r"\b(of which|what is|(that|those|each) of|of (its own|what)|as a rule|beside|by itself"
    r"|hardly|likewise)\b",
    re.IGNORECASE,
)
GIVEN_UP = re.compile(r"\b(carriers?|gates?|occurrences?|statements?)\b")


def sentences(markdown: str) -> Iterator[str]:
    """What is read as prose: no code, tables, headings and addresses."""
    text = re.sub(r"```.*?```|<[^>]+>", "", markdown, flags=re.DOTALL)
    text = re.sub(r"^(    |\s*[|#>!]).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "code", text))
    for paragraph in re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.) ", text):
        yield from re.split(r"(?<=[.!?:])\s+", " ".join(paragraph.split()))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_sentences_are_short_and_words_are_ordinary(page: Path) -> None:
    for sentence in sentences(page.read_text("utf-8")):
        assert len(re.findall(r"[A-Za-z][\w'’-]*", sentence)) <= MOST_WORDS, sentence
        assert not IDIOMS.search(sentence), sentence
        assert not GIVEN_UP.search(sentence), sentence


def test_long_sentences_and_idioms_are_found() -> None:
    text = "# What is it\n\nAs `what is` shows. It hardly matters.\n\n- " + "word " * 31 + "."
    *_, idiom, long = sentences(text)
    assert IDIOMS.search(idiom) and len(long.split()) > MOST_WORDS


def test_the_glossary_is_short() -> None:
    assert 15 <= len(re.findall(r"^- \*\*", GLOSSARY, re.MULTILINE)) <= 25
