"""Cases whose fact stands in a table, a list or a heading."""

from __future__ import annotations

from benchmarks.labelled.case_builder import grounded, make_case
from benchmarks.labelled.cases import LabelledCase
from benchmarks.labelled.facts import Fact, Stock


def table_row(stock: Stock) -> LabelledCase:
    """A Markdown table with several rows of like facts."""
    facts = _alike(stock)
    fact = stock.random.choice(facts)
    rows = {one: _row(stock, one.place, one.say(one.attribute.cell)) for one in facts}
    place, value = fact.attribute.columns
    notes = stock.tables["notes"][:1]
    head = _line([place, *notes, value])
    lines = [head, _line(["---"] * (2 + len(notes))), *rows.values()]
    documents = stock.shuffled(["\n".join(lines), *stock.irrelevant(2)])
    expected = grounded(documents, rows[fact])
    return make_case(stock, fact.question, documents, fact.answer, expected)


def _row(stock: Stock, place: str, value: str) -> str:
    notes = stock.tables["notes"][1:]
    return _line([place, *stock.random.sample(notes, min(1, len(notes))), value])


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def list_item(stock: Stock) -> LabelledCase:
    """A list with several items of like facts."""
    facts = _alike(stock)
    fact = stock.random.choice(facts)
    bullet = stock.tables["bullet"]
    items = {
        one: bullet.replace("1", str(number)) + one.say(one.attribute.item)
        for number, one in enumerate(facts, start=1)
    }
    lines = [stock.tables["list_title"], "", *items.values()]
    documents = stock.shuffled(["\n".join(lines), *stock.irrelevant(2)])
    expected = grounded(documents, items[fact])
    return make_case(stock, fact.question, documents, fact.answer, expected)


def _alike(stock: Stock) -> list[Fact]:
    return [stock.fact(stock.attribute()) for _ in range(stock.turn([4, 5, 6]))]


def heading(stock: Stock) -> LabelledCase:
    """The fact is the heading of a document which does not say it again."""
    fact = stock.fact(stock.attribute())
    title = f"## {fact.say(fact.attribute.heading)}"
    text = f"{stock.filler(fact.place)} {stock.filler(fact.place)}"
    documents = stock.shuffled([f"{title}\n\n{text}", *stock.irrelevant(2)])
    return make_case(stock, fact.question, documents, fact.answer, grounded(documents, title))
