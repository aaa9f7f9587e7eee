"""Construction of cases: citations, distractors, documents."""

from __future__ import annotations

from collections.abc import Sequence

from attribot_rag.model.chat_messages import Message
from benchmarks.labelled.cases import ExpectedVerdict, LabelledCase, LabelledSource
from benchmarks.labelled.facts import Fact, Stock


def make_case(
    stock: Stock,
    question: str,
    documents: Sequence[str],
    answer: str,
    *expected: ExpectedVerdict,
    shown: Sequence[str] | None = None,
    messages: Sequence[Message] = (),
) -> LabelledCase:
    """A case whose prompt holds the documents unchanged, or `shown` in their place."""
    return LabelledCase(
        id=f"{stock.kind}-{stock.split}-{stock.index + 1}",
        kind=stock.kind,
        split=stock.split,
        question=question,
        documents=tuple(documents),
        shown=tuple(documents if shown is None else shown),
        messages=tuple(messages),
        answer=answer,
        expected=expected,
    )


def stating(
    stock: Stock, fact: Fact, documents: Sequence[str], sentence: str = "", answer: str = ""
) -> LabelledCase:
    """A case whose answer is the fact, from this sentence of the documents: its statement."""
    expected = grounded(documents, sentence or fact.statement)
    return make_case(stock, fact.question, documents, answer or fact.answer, expected)


def cite(documents: Sequence[str], *sentences: str) -> tuple[LabelledSource, ...]:
    """Every document that holds one of these sentences."""
    return tuple(
        LabelledSource(index, sentence, sentence)
        for sentence in sentences
        for index, document in enumerate(documents)
        if sentence in document
    )


def grounded(documents: Sequence[str], *sentences: str) -> ExpectedVerdict:
    return ExpectedVerdict(verdict="grounded", sources=cite(documents, *sentences))


UNSUPPORTED = ExpectedVerdict(verdict="unsupported")
CONVERSATION = ExpectedVerdict(verdict="conversation")
FOLLOWS = ExpectedVerdict(verdict="follows", follows=0)


def distractors(stock: Stock, fact: Fact, count: int) -> list[Fact]:
    """Facts with values of the same type, of the other attribute first; the first may share the
    fact's place."""
    other = stock.like(fact.attribute)
    facts = []
    for number in range(count):
        attribute = fact.attribute if number % 2 else other
        shares_place = number == 0 and stock.index % 2 == 1
        facts.append(stock.fact(attribute, fact.place if shares_place else None))
    return facts


def joined(stock: Stock, facts: Sequence[Fact]) -> str:
    """A sentence with all these facts."""
    first, *rest = (fact.answer[:-1] for fact in facts)
    rest = [clause[:1].lower() + clause[1:] for clause in rest]
    joiner: str = stock.turn(stock.tables["joiners"])
    return ", ".join([first, *rest[:-1]]) + joiner + rest[-1] + facts[0].answer[-1]


def asked(stock: Stock, facts: Sequence[Fact]) -> str:
    """All questions, in order."""
    return stock.space.join(fact.question for fact in facts)


def in_documents(stock: Stock, facts: Sequence[Fact], count: int, most: int = 1) -> list[str]:
    """A document for each fact, with up to so many fillers, among irrelevant ones; `count` in all.

    In any order.
    """
    documents = [
        stock.document(fact.statement, fact.place, stock.random.randint(0, most)) for fact in facts
    ]
    return stock.shuffled([*documents, *stock.irrelevant(count - len(documents))])
