"""Cases whose prompt holds changed documents."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from dataclasses import replace

from benchmarks.labelled.case_builder import grounded, in_documents, make_case
from benchmarks.labelled.cases import ExpectedVerdict, LabelledCase
from benchmarks.labelled.facts import Fact, Stock

_MARKDOWN = re.compile(r"^#+ |\*\*|\[([^]]*)\]\([^)]*\)", re.MULTILINE)
_WIDTH = 28


def shortened(stock: Stock) -> LabelledCase:
    """The prompt holds only the first characters of every document."""
    fact = stock.fact(stock.attribute())
    sentences = [stock.filler(fact.place) for _ in range(3)]
    sentences.insert(stock.turn([0, 1]), fact.statement)
    text = " ".join(sentences)
    end = text.index(fact.statement) + len(fact.statement)
    limit = stock.random.randint(end + 8, len(text) - 8)
    other = stock.place()
    long = stock.document(stock.filler(other), other, 2)
    documents = stock.shuffled([text, long, *stock.irrelevant(1)])
    expected = grounded(documents, fact.statement)
    shown = [document[:limit] for document in documents]
    return make_case(stock, fact.question, documents, fact.answer, expected, shown=shown)


def lowercased(stock: Stock) -> LabelledCase:
    fact = stock.fact(stock.attribute())
    documents = in_documents(stock, [fact], stock.turn([3, 4]))
    return _changed(stock, fact, documents, fact.statement, str.lower)


def stripped(stock: Stock) -> LabelledCase:
    """Bold print, headings and links taken out of Markdown, or lines broken otherwise."""
    fact = stock.fact(stock.attribute())
    if stock.index % 3 == 2:
        documents = in_documents(stock, [fact], 3, most=2)
        return _changed(stock, fact, documents, fact.statement, _rewrapped)
    if stock.index % 3 == 1:
        link = f"https://example.org/{fact.place.lower().replace(' ', '-')}"
        marked = fact.statement.replace(fact.place, f"[{fact.place}]({link})")
    else:
        marked = fact.statement.replace(fact.value, f"**{fact.value}**")
    title = stock.tables["page_title"].format(n=fact.place)
    text = f"### {title}\n\n{stock.document(marked, fact.place, 1)}"
    documents = stock.shuffled([text, *stock.irrelevant(2)])
    return _changed(stock, fact, documents, marked, plain)


def _rewrapped(text: str) -> str:
    return textwrap.fill(text, _WIDTH)


def plain(text: str) -> str:
    """Markdown without headings' marks, bold print and the targets of links."""
    return _MARKDOWN.sub(lambda match: match.group(1) or "", text)


def _changed(
    stock: Stock, fact: Fact, documents: list[str], sentence: str, change: Callable[[str], str]
) -> LabelledCase:
    expected = grounded(documents, sentence)
    sources = tuple(replace(source, shown=change(source.text)) for source in expected.sources)
    return make_case(
        stock,
        fact.question,
        documents,
        fact.answer,
        ExpectedVerdict(verdict="grounded", sources=sources),
        shown=[change(document) for document in documents],
    )
