"""Numbers, dates and units of a sentence that its sources tell otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import combinations, permutations

from attribot_rag.attribution.verdict import Check, ValueKind
from attribot_rag.checks.dates import Date
from attribot_rag.checks.quantities import Quantity
from attribot_rag.checks.reading import Reading, read_prompt
from attribot_rag.checks.stems import same_word
from attribot_rag.checks.units import is_rounded, same_amount
from attribot_rag.checks.vocabulary import Unit

# Smaller numbers are often counted by the model, so that no source has them.
_LEAST_ALONE = 13
_MOST_CHECKED = 50  # numbers of a sentence
_MOST_DERIVED = 24  # numbers of which sums and differences are taken
_MIN_NOUN = 3


@dataclass(frozen=True)
class Comparison:
    """The values of a sentence beside those of its sources, by their ids.

    What stands in other texts that were `seen`, with the same noun or unit, is not told.
    """

    sentence: Reading
    sources: dict[int, Reading]
    seen: tuple[str, ...]

    def checks(self) -> Iterator[Check]:
        for date in self.sentence.dates:
            yield from self._of_date(date)
        for quantity in self.sentence.quantities[:_MOST_CHECKED]:
            if quantity.values and not quantity.key and quantity.value != 1:
                yield from self._of_quantity(quantity)

    @cached_property
    def _numbers(self) -> frozenset[Decimal]:
        return frozenset().union(*(source.numbers for source in self.sources.values()))

    @cached_property
    def _seen(self) -> list[Reading]:
        return [read_prompt(text, self.sentence.language) for text in self.seen]

    def _is_seen(self, quantity: Quantity) -> bool:
        return any(quantity.values & text.numbers for text in self._seen)

    @cached_property
    def _told(self) -> frozenset[Decimal]:
        """The numbers of the sentence itself."""
        return self.sentence.numbers

    @cached_property
    def _quantities(self) -> list[tuple[int, Quantity]]:
        return [(key, one) for key, source in self.sources.items() for one in source.quantities]

    @cached_property
    def _amounts(self) -> set[tuple[Unit | None, Decimal]]:
        return {(one.unit, value) for _, one in self._quantities for value in one.values}

    def _of_quantity(self, quantity: Quantity) -> Iterator[Check]:
        if quantity.values & self._numbers:
            yield from self._of_unit(quantity)
        elif self._is_equal(quantity) or self._is_derived(quantity):
            return
        elif self.sentence.is_year(quantity) and not quantity.ordinal:
            yield from self._of_year(quantity)
        else:
            yield from self._of_number(quantity)

    def _is_equal(self, quantity: Quantity) -> bool:
        """Whether a source has the number rounded or in another unit."""
        if any(same_amount(quantity, other) for _, other in self._quantities):
            return True
        return not quantity.ordinal and any(
            is_rounded(value, exact)
            for unit, exact in self._amounts
            if quantity.unit is None or unit is None or quantity.unit.has_name_of(unit)
            for value in quantity.values
        )

    def _is_derived(self, quantity: Quantity) -> bool:
        """Whether it is a sum, a difference or a share of the sources' numbers."""
        numbers = sorted(self._numbers)[:_MOST_DERIVED]
        derived = {sum(numbers, Decimal(0))}
        derived.update(a + b for a, b in combinations(numbers, 2))
        derived.update(b - a for a, b in combinations(numbers, 2))
        if quantity.is_percent:
            derived.update(round(100 * a / b, 0) for a, b in permutations(numbers, 2) if b)
        elif not quantity.ordinal:
            derived.update(a * b for a, b in combinations(numbers, 2) if a > 1)
        return bool(quantity.values & derived) or bool(quantity.values & self._spans)

    @cached_property
    def _spans(self) -> set[Decimal]:
        """Years from one year to another, and one less: an age before the birthday."""
        texts = (self.sentence, *self.sources.values())
        years = sorted({year for text in texts for year in text.years})[:_MOST_DERIVED]
        spans = {later - year for year, later in combinations(years, 2)}
        return {Decimal(span - less) for span in spans for less in (0, 1)}

    def _of_unit(self, quantity: Quantity) -> Iterator[Check]:
        same = [(key, one) for key, one in self._quantities if quantity.values & one.values]
        unit, span = quantity.unit, quantity.unit_span
        if unit is None or span is None or unit.is_percent or not same:
            return
        if any(
            one.unit is None or one.unit.is_percent or one.unit.has_name_of(unit) for _, one in same
        ) or any(same_amount(quantity, one) for _, one in self._quantities):
            return
        shown = self.sentence.text[slice(*span)]
        for key, other in same:
            if other.unit_span is not None:
                told = self.sources[key].text[slice(*other.unit_span)]
                if not same_word(shown.lower(), told.lower()) and not self._is_seen_alike(quantity):
                    yield Check(
                        start=span[0], end=span[1], kind="unit", value=shown, source_value=told,
                        source=key,
                    )  # fmt: skip
                return

    def _of_year(self, quantity: Quantity) -> Iterator[Check]:
        years = [
            (key, year, span)
            for key, source in self.sources.items()
            for year, span in source.years.items()
            if year not in self._told
        ]
        if self._is_seen(quantity):
            return
        alike = [
            (key, span)
            for key, _, span in years
            if _word_before(self.sources[key].text, span[0]) == quantity.before
        ]
        choice = alike or [(key, span) for key, _, span in years]
        if len(choice) == 1 or alike:
            key, span = choice[0]
            yield self._check("date", quantity, key, self.sources[key].text[slice(*span)])
        else:
            yield self._check("date", quantity, None, None)

    def _of_number(self, quantity: Quantity) -> Iterator[Check]:
        others = [
            (key, one)
            for key, one in self._quantities
            if not one.key and one.values and not one.values & self._told
        ]
        others = [(key, one) for key, one in others if _is_alike(quantity, one)]
        if others:
            if not self._is_seen_alike(quantity):
                key, other = max(others, key=lambda one: one[1].before == quantity.before)
                differs = None not in (quantity.unit, other.unit) and quantity.unit != other.unit
                told = self.sources[key].shown(other, with_unit=differs)
                yield self._check("number", quantity, key, told, with_unit=differs)
        elif (
            not (quantity.in_words or quantity.ordinal or quantity.is_percent or quantity.clock)
            and min(quantity.values) >= _LEAST_ALONE
            and not quantity.unscaled & self._numbers  # 6.21 million beside 6.21e6
            and not self._is_seen(quantity)
        ):
            yield self._check("number", quantity, None, None)

    def _is_seen_alike(self, quantity: Quantity) -> bool:
        """Whether a text that was seen has the number with the same noun or unit."""
        return any(
            quantity.values & one.values and quantity.unit == one.unit and _is_alike(quantity, one)
            for text in self._seen
            for one in text.quantities
            if not one.key
        )

    def _of_date(self, date: Date) -> Iterator[Check]:
        told = [(key, one) for key, source in self.sources.items() for one in source.dates]
        if any(date.agrees(one) for _, one in told):
            return
        if any(date.agrees(one) for text in self._seen for one in text.dates):
            return
        if self._is_part(date, [one for _, one in told]):
            return
        others = [(key, one) for key, one in told if not any(map(one.agrees, self.sentence.dates))]
        if not others:
            if {number for number in date.readings[0] if number is not None} <= self._numbers:
                return
            yield self._check("date", date, None, None)
            return
        key, other = max(others, key=lambda one: one[1].has_day == date.has_day)
        yield self._check("date", date, key, self.sources[key].text[other.start : other.end])

    def _is_part(self, date: Date, told: Iterable[Date]) -> bool:
        """Whether the day stands in a source apart from its month, as in '2 to 11 May'."""
        days = {value for _, one in self._quantities for value in one.values}
        return any(
            day in days and any(month == one.readings[0][1] for one in told)
            for _, month, day in date.readings
            if day is not None
        )

    def _check(
        self,
        kind: ValueKind,
        value: Quantity | Date,
        source: int | None,
        source_value: str | None,
        *,
        with_unit: bool = False,
    ) -> Check:
        start, end = value.start, value.end
        if with_unit and isinstance(value, Quantity):
            start, end = value.with_unit
        shown = self.sentence.text[start:end]
        return Check(
            start=start, end=end, kind=kind, value=shown, source_value=source_value,
            source=source,
        )  # fmt: skip


def _is_alike(first: Quantity, second: Quantity) -> bool:
    """Whether two numbers count or measure the same."""
    if (first.ordinal, first.clock) != (second.ordinal, second.clock):
        return False
    units = [one.unit for one in (first, second) if one.unit is not None]
    if len(units) == 2:
        if all(unit.is_currency for unit in units) and units[0] != units[1]:
            return first.before == second.before  # "3 Crown Courts" are no other price than "9 €"
        return units[0].dimension == units[1].dimension or units[0].has_name_of(units[1])
    if first.clock:
        return True
    if not all(unit.is_currency for unit in units):
        return False
    if not first.nouns or not second.nouns:
        return bool(first.before) and first.before == second.before
    return _share_noun(first.nouns, second.nouns)


def _share_noun(first: Sequence[str], second: Sequence[str]) -> bool:
    return any(
        same_word(a, b)
        for a in first
        for b in second
        if min(len(a), len(b)) >= _MIN_NOUN or not a.isascii()
    )


def _word_before(text: str, position: int) -> str:
    words = text[max(0, position - 40) : position].split()
    return words[-1].lower() if words else ""
