"""Made-up facts: the tables of each half, and what one case draws from them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.halves import Split

LANGUAGES = ("german", "french", "spanish", "chinese")
_FOLDER = Path(__file__).parent / "tables"


@dataclass(frozen=True, kw_only=True, eq=False)
class Attribute:
    """Statements about a place {n}, with a value {v}, in several ways.

    Attributes of one `type` have values of one type. Values are drawn from `values` or `range`,
    those of persons from the half's people. Languages other than English have no more than a
    question and a statement.
    """

    type: str
    question: str
    statement: str
    answer: str = ""
    reworded: str = ""
    restated: str = ""
    short: str = ""
    heading: str = ""
    columns: Sequence[str] = ()
    cell: str = ""
    item: str = ""
    values: Sequence[str] = ()
    range: Sequence[int] = ()


@dataclass(frozen=True, eq=False)
class Fact:
    """An attribute of a place with its value."""

    attribute: Attribute
    place: str
    value: str

    def say(self, template: str) -> str:
        """One of the attribute's templates, filled in, with a capital at its beginning."""
        text = template.format(n=self.place, v=self.value)
        return text[:1].upper() + text[1:]

    @property
    def question(self) -> str:
        return self.say(self.attribute.question)

    @property
    def statement(self) -> str:
        return self.say(self.attribute.statement)

    @property
    def answer(self) -> str:
        return self.say(self.attribute.answer or self.attribute.statement)


@cache
def tables(split: Split, language: str = "english") -> Mapping[str, Any]:
    """The tables of one half: names, attributes and sentences that say nothing of interest."""
    texts: dict[str, Any] = json.loads((_FOLDER / f"{split}.json").read_text(encoding="utf-8"))
    return texts if language == "english" else {**texts, **texts["languages"][language]}


class Stock:
    """The stock that a case draws from its half: no place, value or filler is drawn twice.

    `index` counts the cases of a kind; the attributes go round with it, from `first` on.
    """

    def __init__(
        self, split: Split, kind: str, index: int, first: int, language: str = "english"
    ) -> None:
        self.split, self.kind, self.index = split, kind, index
        self.tables = tables(split, language)
        self.random = Random(f"{split} {kind} {index}")
        self.space = "" if language == "chinese" else " "
        self.attributes = [Attribute(**attribute) for attribute in self.tables["attributes"]]
        self._first = first
        self._places = self._shuffled(self.tables["places"])
        self._fillers = self._shuffled(self.tables["fillers"])
        self._drawn: set[str] = set()

    def _shuffled(self, values: Sequence[str]) -> Iterator[str]:
        return iter(self.random.sample(values, len(values)))

    def attribute(self, step: int = 0) -> Attribute:
        """The attribute whose turn it is, or one that comes so many steps later."""
        return self.attributes[(self._first + self.index + step) % len(self.attributes)]

    def like(self, attribute: Attribute) -> Attribute:
        """The other attribute of the same type."""
        rest = (other for other in self.attributes if other != attribute)
        return next(other for other in rest if other.type == attribute.type)

    def place(self) -> str:
        return next(self._places)

    def fact(self, attribute: Attribute, place: str | None = None) -> Fact:
        """A fact with a new value, of a new place if none is given."""
        value = next(value for value in self._values(attribute) if value not in self._drawn)
        self._drawn.add(value)
        return Fact(attribute, place or self.place(), value)

    def _values(self, attribute: Attribute) -> Iterator[str]:
        if attribute.type == "person":
            return self._shuffled(self.tables["people"])
        if attribute.values:
            return self._shuffled(attribute.values)
        low, high = attribute.range
        # One half has even numbers only, the other odd ones.
        return self._shuffled([str(number) for number in range(low, high + 1, 2)])

    def filler(self, place: str) -> str:
        """A sentence about a place which answers no question."""
        text = next(self._fillers).format(n=place)
        return text[:1].upper() + text[1:]

    def document(self, sentence: str, place: str, num_fillers: int) -> str:
        """The sentence among so many fillers about its place."""
        sentences = [self.filler(place) for _ in range(num_fillers)]
        sentences.insert(self.random.randint(0, num_fillers), sentence)
        return self.space.join(sentences)

    def irrelevant(self, count: int, most: int = 2) -> list[str]:
        """So many documents of at most so many fillers."""
        return [
            self.document(self.filler(place), place, self.random.randrange(most))
            for place in (self.place() for _ in range(count))
        ]

    def shuffled(self, documents: Sequence[str]) -> list[str]:
        return self.random.sample(documents, len(documents))

    def turn(self, values: Sequence[Any], every: int = 1) -> Any:
        """The value whose turn it is; each has `every` turns at a time."""
        return values[self.index // every % len(values)]
