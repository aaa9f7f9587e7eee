"""Cases whose fact is in a table, a list or a heading."""

from __future__ import annotations

from benchmarks.labelled.case_builder import asked, grounded, joined, make_case, stating
from benchmarks.labelled.cases import LabelledCase
from benchmarks.labelled.facts import Fact, Stock


def table_row(stock: Stock) -> LabelledCase:
    """A Markdown table with several rows of like facts."""
    facts = _alike(stock)
    fact = stock.random.choice(facts)
    rows = {alike: _row(stock, alike.place, alike.say(alike.attribute.cell)) for alike in facts}
    place, value = fact.attribute.columns
    notes = stock.tables["notes"][:1]
    head = _line([place, *notes, value])
    lines = [head, _line(["---"] * (2 + len(notes))), *rows.values()]
    documents = stock.shuffled(["\n".join(lines), *stock.irrelevant(2)])
    return stating(stock, fact, documents, rows[fact])


def _row(stock: Stock, place: str, value: str) -> str:
    notes = stock.tables["notes"][1:]
    return _line([place, *stock.random.sample(notes, min(1, len(notes))), value])


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def list_item(stock: Stock) -> LabelledCase:
    """A list with several items of like facts."""
    fact, item, text = _listed(stock)
    return stating(stock, fact, stock.shuffled([text, *stock.irrelevant(2)]), item)


def sibling_items(stock: Stock) -> LabelledCase:
    """The same, and nothing else but the list."""
    fact, item, text = _listed(stock)
    return stating(stock, fact, [text], item)


def item_and_sentence(stock: Stock) -> LabelledCase:
    """Two facts in one sentence: an item of a list, and a sentence of another document."""
    fact, item, text = _listed(stock)
    other = stock.fact(stock.attribute(3))
    documents = stock.shuffled([text, stock.document(other.statement, other.place, 1)])
    expected = grounded(documents, item, other.statement)
    facts = [fact, other]
    return make_case(stock, asked(stock, facts), documents, joined(stock, facts), expected)


def _listed(stock: Stock) -> tuple[Fact, str, str]:
    """A fact, its item with a bullet or number, and the list of like facts in which it stands."""
    facts = _alike(stock)
    fact = stock.random.choice(facts)
    bullet = stock.tables["bullet"]
    items = [
        bullet.replace("1", str(number)) + alike.say(alike.attribute.item)
        for number, alike in enumerate(facts, start=1)
    ]
    text = "\n".join([stock.tables["list_title"], "", *items])
    return fact, items[facts.index(fact)], text


def _alike(stock: Stock) -> list[Fact]:
    return [stock.fact(stock.attribute()) for _ in range(stock.turn([4, 5, 6]))]


def heading(stock: Stock) -> LabelledCase:
    """The fact is the heading of a document which does not say it again."""
    fact = stock.fact(stock.attribute())
    title = f"## {fact.say(fact.attribute.heading)}"
    text = f"{stock.filler(fact.place)} {stock.filler(fact.place)}"
    documents = stock.shuffled([f"{title}\n\n{text}", *stock.irrelevant(2)])
    return stating(stock, fact, documents, title)
