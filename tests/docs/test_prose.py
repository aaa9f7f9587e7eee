"""Documents and docstrings are written in short sentences and ordinary words."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted(
    module
    for folder in (ROOT / "attribot_rag", *ROOT.glob("integrations/*/[al]*_*"))
    for module in folder.rglob("*.py")
)
PAGES = sorted(
    page
    for pattern in ("*.md", "docs/*.md", "docs/*/*.md", "integrations/*/*.md")
    for page in ROOT.glob(pattern)
    if page.name != "report.md"  # a program writes it
)
TERMS = re.findall(r"^## (.*)$", (ROOT / "docs" / "glossary.md").read_text("utf-8"), re.MULTILINE)
HOW_IT_WORKS = ("concepts", "support", "verdicts", "methods", "cost")
MAIN = (*HOW_IT_WORKS, "getting-started", "readers", "checks", "langchain-cases")
MOST_WORDS = 30
MOST_IDIOMS = 0.7  # in 1,000 words of docstrings
MOST_IN_DOCSTRING = 40  # words of a sentence, which may list errors
IDIOMS = re.compile(
    r"\b(of which|what is|(that|those|each) of|of (its own|what)|as a rule|beside|by itself"
    r"|hardly|likewise)\b",
    re.IGNORECASE,
)
GIVEN_UP = re.compile(r"\b(carriers?|gates?|occurrences?|statements?)\b")


def prose(markdown: str) -> str:
    """What is read as prose: no code, tables, headings and addresses."""
    text = re.sub(r"```.*?```|<[^>]+>", "", markdown, flags=re.DOTALL)
    text = re.sub(r"^(    |\s*[|#>!]).*$", "", text, flags=re.MULTILINE)
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "code", text))


def sentences(markdown: str) -> Iterator[str]:
    text = prose(markdown)
    for paragraph in re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.) ", text):
        yield from re.split(r"(?<=[.!?:])\s+", " ".join(paragraph.split()))


def docstrings(module: Path) -> Iterator[str]:
    """The docstrings of a module and of its fields, and each option."""
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                text, _, options = inspect.cleandoc(text).partition("\nArgs:\n")
                yield text
                for option in re.split(r"^ +\**\w+: ", options, flags=re.MULTILINE):
                    yield " ".join(option.split())


def test_docstrings_have_short_sentences_and_ordinary_words() -> None:
    text = [each for module in MODULES for doc in docstrings(module) for each in sentences(doc)]
    long = [each for each in text if len(re.findall(r"[A-Za-z][\w'’-]*", each)) > MOST_IN_DOCSTRING]
    assert not long
    idioms = [each for each in text if IDIOMS.search(each)]
    assert 1000 * len(idioms) <= MOST_IDIOMS * len(" ".join(text).split()), idioms


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


def test_the_glossary_is_short_and_in_order() -> None:
    assert 15 <= len(TERMS) <= 25 and sorted(TERMS) == TERMS


@pytest.mark.parametrize("term", TERMS)
def test_a_term_leads_to_the_glossary_where_a_main_page_first_uses_it(term: str) -> None:
    anchor = f"](glossary.md#{term.replace(' ', '-')})"
    pages = [(ROOT / "docs" / f"{name}.md").read_text("utf-8") for name in MAIN]
    (page,) = (text for text in pages if anchor in text)
    before = prose(page.split(anchor)[0].rsplit("[", 1)[0])
    assert not re.search(rf"\b{term}s?\b", before, re.IGNORECASE)


@pytest.mark.parametrize("name", HOW_IT_WORKS)
def test_a_page_on_how_it_works_is_short_and_has_a_picture(name: str) -> None:
    text = (ROOT / "docs" / f"{name}.md").read_text("utf-8")
    assert len(text.split()) <= 900 and len(re.findall(r"^!\[", text, re.MULTILINE)) == 1


def test_the_readme_fits_on_a_few_screens() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 120
