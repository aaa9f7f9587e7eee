"""The cases of each kind: what the documents say, what is answered, what is cited."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial

from benchmarks.halves import Split
from benchmarks.labelled.case_builder import (
    CONVERSATION,
    FOLLOWS,
    UNSUPPORTED,
    asked,
    cite,
    distractors,
    grounded,
    in_documents,
    joined,
    make_case,
    stating,
)
from benchmarks.labelled.cases import ExpectedVerdict, LabelledCase
from benchmarks.labelled.changed_documents import lowercased, shortened, stripped
from benchmarks.labelled.facts import LANGUAGES, Fact, Stock
from benchmarks.labelled.structured import (
    heading,
    item_and_sentence,
    list_item,
    sibling_items,
    table_row,
)

Builder = Callable[[Stock], LabelledCase]

_SPELLINGS = {"metres": "meters", "colour": "color", "theatre": "theater", "harbour": "harbor"}


def one_source(stock: Stock) -> LabelledCase:
    fact = stock.fact(stock.attribute())
    documents = in_documents(stock, [fact], stock.turn([3, 4, 5]), most=2)
    return stating(stock, fact, documents)


def distractor(stock: Stock, num_documents: int, num_distractors: int) -> LabelledCase:
    """Other facts have a value of the same type."""
    fact = stock.fact(stock.attribute())
    misleading = distractors(stock, fact, num_distractors)
    documents = in_documents(stock, [fact, *misleading], num_documents)
    return stating(stock, fact, documents)


def wrong_distractor(stock: Stock) -> LabelledCase:
    """The answer takes the value of another fact; the question has the rest of its words."""
    fact = stock.fact(stock.attribute())
    # Opening hours are no date.
    dates = fact.attribute.type == "hours"
    other = stock.fact(fact.attribute if dates else stock.like(fact.attribute))
    documents = in_documents(stock, [fact, other], stock.turn([2, 3, 4, 5]))
    wrong = Fact(fact.attribute, fact.place, other.value)
    return stating(stock, fact, documents, other.statement, wrong.answer)


def several_facts(stock: Stock, num_facts: int, num_documents: tuple[int, ...]) -> LabelledCase:
    """One sentence of several facts, of the same place or not, in a document each."""
    facts = _several(stock, num_facts)
    documents = in_documents(stock, facts, stock.turn(num_documents))
    expected = grounded(documents, *(fact.statement for fact in facts))
    return make_case(stock, asked(stock, facts), documents, joined(stock, facts), expected)


def two_sentences(stock: Stock) -> LabelledCase:
    facts = _several(stock, 2)
    documents = in_documents(stock, facts, stock.turn([2, 3, 4, 5]))
    expected = [grounded(documents, fact.statement) for fact in facts]
    answer = stock.space.join(fact.answer for fact in facts)
    return make_case(stock, asked(stock, facts), documents, answer, *expected)


def _several(stock: Stock, count: int) -> list[Fact]:
    """Facts of different types, every other time of one place."""
    place = stock.place() if stock.turn([True, False], every=2) else None
    steps = {2: (0, 3), 3: (0, 3, 7)}[count]
    return [stock.fact(stock.attribute(step), place) for step in steps]


def twice_verbatim(stock: Stock) -> LabelledCase:
    fact = stock.fact(stock.attribute())
    documents = in_documents(stock, [fact], stock.turn([2, 3, 4]))
    again = stock.document(f"{fact.statement} {stock.filler(fact.place)}", fact.place, 0)
    documents.insert(stock.random.randint(0, len(documents)), again)
    return stating(stock, fact, documents)


def twice_near_verbatim(stock: Stock) -> LabelledCase:
    """Two documents differ in punctuation, case or spelling: one source, or either of two."""
    fact = stock.fact(stock.attribute())
    variant = _near(stock, fact.statement)
    documents = in_documents(stock, [fact], stock.turn([2, 3, 4]))
    documents.insert(stock.random.randint(0, len(documents)), variant)
    sources = cite(documents, fact.statement, variant)
    either = ExpectedVerdict(verdict="redundant", sources=sources, relation="either")
    expected = ExpectedVerdict(verdict="grounded", sources=sources, acceptable=(either,))
    return make_case(stock, fact.question, documents, fact.answer, expected)


def _near(stock: Stock, statement: str) -> str:
    spelled = statement
    for british, american in _SPELLINGS.items():
        spelled = spelled.replace(british, american)
    other = spelled if spelled != statement else f"“{statement[:-1]}”."
    marked = f"{statement[:-1]}!"
    variants = [marked, statement.upper(), other, statement.lower()]
    return str(stock.turn(variants))


def twice_reworded(stock: Stock) -> LabelledCase:
    """Two documents say the same in different words: either carries the answer."""
    fact = stock.fact(stock.attribute())
    reworded = fact.say(fact.attribute.reworded)
    documents = in_documents(stock, [fact], stock.turn([2, 3, 4]))
    again = stock.document(reworded, fact.place, stock.turn([0, 1]))
    documents.insert(stock.random.randint(0, len(documents)), again)
    sources = cite(documents, fact.statement, reworded)
    expected = ExpectedVerdict(verdict="redundant", sources=sources, relation="either")
    return make_case(stock, fact.question, documents, fact.answer, expected)


def memory(stock: Stock) -> LabelledCase:
    question, answer = stock.turn(stock.tables["memory"])
    documents = stock.irrelevant(stock.turn([2, 3, 4]))
    return make_case(stock, question, documents, answer, UNSUPPORTED)


def invented_after(stock: Stock) -> LabelledCase:
    """A sentence with a source, then one that nothing said."""
    fact = stock.fact(stock.attribute())
    documents = in_documents(stock, [fact], 3)
    answer = f"{fact.answer} {stock.turn(stock.tables['invented'])}"
    expected = grounded(documents, fact.statement), UNSUPPORTED
    return make_case(stock, fact.question, documents, answer, *expected)


def invented_value(stock: Stock) -> LabelledCase:
    """A value that stands nowhere, of a place of which nothing is said; others have like ones."""
    attribute = stock.attribute()
    siblings = [stock.fact(attribute) for _ in range(stock.turn([2, 3, 4]))]
    invented = stock.fact(attribute)
    documents = in_documents(stock, siblings, len(siblings))
    expected = ExpectedVerdict(verdict="unsupported", at_any_reliance=True)
    return make_case(stock, invented.question, documents, invented.answer, expected)


def restated(stock: Stock) -> LabelledCase:
    """A sentence with a source, then one that says the same again."""
    fact = stock.fact(stock.attribute())
    documents = in_documents(stock, [fact], 3)
    answer = f"{fact.answer} {fact.say(fact.attribute.restated)}"
    expected = grounded(documents, fact.statement), FOLLOWS
    return make_case(stock, fact.question, documents, answer, *expected)


def earlier_turn(stock: Stock) -> LabelledCase:
    """The answer was said before; the documents are about something else."""
    fact = stock.fact(stock.attribute())
    documents = stock.irrelevant(3)
    messages = [
        {
            "role": role,
            "content": content.replace("{statement}", fact.statement).replace(
                "{question}", fact.question
            ),
        }
        for role, content in stock.turn(stock.tables["conversations"])
    ]
    return make_case(stock, fact.question, documents, fact.answer, CONVERSATION, messages=messages)


def numbers_only(stock: Stock) -> LabelledCase:
    """The answer is the value alone; every other time another fact has a like one."""
    fact = stock.fact(stock.attribute())
    misleading = distractors(stock, fact, stock.turn([0, 1]))
    documents = in_documents(stock, [fact, *misleading], 3)
    return stating(stock, fact, documents, answer=fact.say(fact.attribute.short))


def few_sources(stock: Stock) -> LabelledCase:
    """One to four sentences in all."""
    fact = stock.fact(stock.attribute())
    in_first, in_second = stock.turn([(1, 0), (1, 1), (2, 1), (2, 2)])
    documents = [stock.document(fact.statement, fact.place, in_first - 1)]
    if in_second:
        place = stock.place()
        documents.append(stock.document(stock.filler(place), place, in_second - 1))
    return stating(stock, fact, stock.shuffled(documents))


def in_language(stock: Stock) -> LabelledCase:
    """One source, a distractor, two facts, in turn."""
    several = partial(several_facts, num_facts=2, num_documents=(2, 3))
    with_other = partial(distractor, num_documents=3, num_distractors=1)
    builders: list[Builder] = [one_source, with_other, several]
    return builders[stock.index % len(builders)](stock)


KINDS: dict[str, Builder] = {
    "one_source": one_source,
    "distractor_2": partial(distractor, num_documents=2, num_distractors=1),
    "distractor_5": partial(distractor, num_documents=5, num_distractors=2),
    "distractor_10": partial(distractor, num_documents=10, num_distractors=4),
    "two_facts": partial(several_facts, num_facts=2, num_documents=(2, 3, 4, 6)),
    "three_facts": partial(several_facts, num_facts=3, num_documents=(3, 4, 5, 7)),
    "two_sentences": two_sentences,
    "twice_verbatim": twice_verbatim,
    "twice_near_verbatim": twice_near_verbatim,
    "twice_reworded": twice_reworded,
    "memory": memory,
    "wrong_distractor": wrong_distractor,
    "invented_after": invented_after,
    "earlier_turn": earlier_turn,
    "table_row": table_row,
    "list_item": list_item,
    "numbers_only": numbers_only,
    "heading": heading,
    "shortened": shortened,
    "lowercased": lowercased,
    "stripped": stripped,
    "few_sources": few_sources,
    "german": in_language,
    "french": in_language,
    "spanish": in_language,
    "chinese": in_language,
    "restated": restated,
    "invented_value": invented_value,
    "sibling_items": sibling_items,
    "item_and_sentence": item_and_sentence,
}

CASES_PER_KIND = 8
# Of the kinds' number and the attributes' no multiple of one another: all attributes get used.
_STEP = 5


def cases_of(
    split: Split, kinds: Collection[str] = tuple(KINDS), first: int = CASES_PER_KIND
) -> Iterator[LabelledCase]:
    """The first cases of these kinds in one half, equal at every call."""
    for number, (kind, build) in enumerate(KINDS.items()):
        language = kind if kind in LANGUAGES else "english"
        for index in range(first if kind in kinds else 0):
            yield build(Stock(split, kind, index, _STEP * number, language))
