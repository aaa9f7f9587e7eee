"""Finds numbers, dates and units of a sentence that differ from its sources."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import chain, combinations, permutations
from typing import Literal

from attribot_checks.numerals import addresses, has_address
from attribot_checks.quantities import Quantity, converted, same_amount
from attribot_checks.reading import Date, Reading, StatedValue, read_prompt, spoken_of, value_check
from attribot_checks.vocabulary import HUNDREDTHS, WORDS, Unit
from attribot_rag.annotation import Check, Interval, is_rounded, same_word

_ValueKind = Literal["number", "date", "unit", "address"]
_Found = list[tuple[int, Quantity]]  # numbers by their sources
_MOST_CHECKED = 50  # numbers of a sentence
_MOST_DERIVED = 24  # numbers for sums and differences
_MIN_NOUN = 3
_IN = re.compile(r"(?:\s[^\W\d_]+){1,2}\s")
# Words that mean a minus: 3 % less is -3 %.
_LESS = re.compile(rf"(?<!\w)(?:{'|'.join(WORDS['falling'].values())})", re.IGNORECASE)


@dataclass(frozen=True)
class Comparison:
    """Compares the values of a sentence with its sources' values, which are given by id.

    A value is not reported if `prompt_texts`, which the model also saw, have it with the same noun
    or unit.
    """

    sentence: Reading
    sources: dict[int, Reading]
    prompt_texts: tuple[str, ...]

    def checks(self) -> Iterator[Check]:
        for start, end in addresses(self.sentence.text):
            yield from self._of_address(start, end)
        for date in self.sentence.dates:
            yield from self._of_date(date)
        altered = list(self._of_codes())
        yield from altered
        for quantity in self.sentence.quantities[:_MOST_CHECKED]:
            if any(check.start <= quantity.start < check.end for check in altered):
                continue
            if quantity.values and not quantity.key and quantity.value != 1:
                yield from self._of_quantity(quantity)

    @cached_property
    def _numbers(self) -> frozenset[Decimal]:
        return frozenset().union(*(source.numbers for source in self.sources.values()))

    @cached_property
    def _prompts(self) -> list[Reading]:
        return [read_prompt(text, self.sentence.language) for text in self.prompt_texts]

    @cached_property
    def _quantities(self) -> _Found:
        return [(key, number) for key, text in self.sources.items() for number in text.quantities]

    @cached_property
    def _amounts(self) -> set[tuple[Unit | None, Decimal]]:
        return {(number.unit, value) for _, number in self._quantities for value in number.values}

    def _of_quantity(self, quantity: Quantity) -> Iterator[Check]:
        if quantity.clock:
            yield from self._of_clock(quantity)
        elif quantity.values & self._numbers:
            same = [(key, n) for key, n in self._quantities if quantity.values & n.values]
            yield from self._of_unit(quantity, same)
            yield from self._of_sign(quantity, same)
        elif self._is_equal(quantity) or self._is_derived(quantity) or self._is_coded(quantity):
            return
        elif self.sentence.is_year(quantity) and not (quantity.ordinal or quantity.bound):
            yield from self._of_year(quantity)
        else:
            yield from self._of_number(quantity)

    def _is_equal(self, quantity: Quantity) -> bool:
        """Whether a source has the number, rounded or in another unit."""
        if any(same_amount(quantity, number) for _, number in self._quantities):
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
        pairs = [*combinations(numbers, 2)]
        derived = {sum(numbers, Decimal(0)), *(b - a for a, b in pairs), *map(sum, pairs)}
        if quantity.is_percent or not quantity.has_whole or self._is_one_in(quantity):
            derived.update(_ratios(numbers, quantity))
        if not (quantity.is_percent or quantity.ordinal):
            wholes = (Decimal(1), *numbers)
            derived.update(a * b for a, b in pairs if a > 1)
            derived.update(share * whole / 100 for share in self._shares for whole in wholes)
        scale = 100 if quantity.unit in HUNDREDTHS else 1
        values = {value / scale for value in quantity.values}
        return bool(values & derived or quantity.values & self._spans)

    def _is_one_in(self, quantity: Quantity) -> bool:
        """Whether it is the second number of a share, as in 'one in four'."""
        ones = (number.end for number in self.sentence.quantities if number.values == {1})
        return any(_IN.fullmatch(self.sentence.text, end, quantity.start) for end in ones)

    @cached_property
    def _shares(self) -> set[Decimal]:
        return {value for _, n in self._quantities if n.is_percent for value in n.values}

    @cached_property
    def _spans(self) -> set[Decimal]:
        """Years between two years, and one year less, for an age before the birthday."""
        texts = (self.sentence, *self.sources.values())
        years = sorted({year for text in texts for year in text.years})[:_MOST_DERIVED]
        spans = {later - year for year, later in combinations(years, 2)}
        return {Decimal(span - less) for span in spans for less in (0, 1)}

    def _is_coded(self, quantity: Quantity) -> bool:
        """Whether it is part of a code that a source or a prompt groups differently."""
        own = (code for code in self.sentence.codes if code.start <= quantity.start < code.end)
        texts = (*self.sources.values(), *self._prompts)
        return any(code.is_same(other) for code in own for text in texts for other in text.codes)

    def _of_codes(self) -> Iterator[Check]:
        """Checks of codes that a source has with other digits, unless they are dates or numbers."""
        others = [(key, code) for key, text in self.sources.items() for code in text.codes]
        dates = [date.start for date in self.sentence.dates]
        wholes = {number.span for number in self.sentence.quantities}
        for code in self.sentence.codes:
            alike = [(key, other) for key, other in others if code.is_altered(other)]
            is_value = code.span in wholes or any(code.start <= date < code.end for date in dates)
            if alike and not is_value and not any(code.is_same(other) for _, other in others):
                key, other = alike[0]
                shown = self.sources[key].text[slice(*other.span)]
                yield value_check("number", self.sentence.text, code.span, key, shown)

    def _of_address(self, start: int, end: int) -> Iterator[Check]:
        """A check of an address that no text has, with the sources' address of the same kind."""
        texts = {key: source.text for key, source in self.sources.items()}
        address = self.sentence.text[start:end]
        if not any(has_address(text, address) for text in (*texts.values(), *self.prompt_texts)):
            others = {
                text[slice(*span)]: key for key, text in texts.items() for span in addresses(text)
            }
            alike = [
                (key, other) for other, key in others.items() if ("@" in other) == ("@" in address)
            ]
            yield value_check(
                "address", self.sentence.text, (start, end), *(alike[0] if len(alike) == 1 else ())
            )

    def _of_unit(self, quantity: Quantity, same: _Found) -> Iterator[Check]:
        unit, span = quantity.unit, quantity.unit_span
        units = [number.unit for _, number in same]
        if unit is None or span is None or not same or None in units:
            return
        others = [*filter(None, units)]
        has_share = any(other.is_percent for other in (unit, *others))
        is_share = has_share and not {unit, *others}.intersection(HUNDREDTHS)
        is_same = any(other.has_name_of(unit) for other in others)
        if is_share or is_same or any(same_amount(quantity, n) for _, n in self._quantities):
            return
        shown = self.sentence.text[slice(*span)]
        for key, number in same:
            if number.unit_span is not None:
                other = self.sources[key].text[slice(*number.unit_span)]
                if not same_word(shown.lower(), other.lower()) and not self._is_in_prompt(quantity):
                    yield value_check("unit", self.sentence.text, span, key, other)
                return

    def _of_sign(self, quantity: Quantity, same: _Found) -> Iterator[Check]:
        """A check if all sources have the other sign, after the same word or for a temperature.

        Something that fell or was lost is not checked.
        """
        same = [(key, number) for key, number in same if quantity.unit == number.unit]
        has_minus = quantity.minus is not None
        if not same or any(has_minus == (number.minus is not None) for _, number in same):
            return
        texts = (self.sentence, *(self.sources[key] for key, _ in same))
        is_cold = quantity.unit is not None and quantity.unit.dimension == "temperature"
        is_alike = is_cold or any(quantity.before == number.before for _, number in same)
        if quantity.unit and is_alike and not any(_LESS.search(text.text) for text in texts):
            places = [(key, number.with_unit, True) for key, number in same]
            yield self._beside("number", quantity.with_unit, places)

    def _of_clock(self, time: Quantity) -> Iterator[Check]:
        """A check of a time that no source has, if a source has another one. 6 may mean 18:00."""
        clocks = [(key, number) for key, number in self._quantities if number.clock]
        plain = {
            hour for _, number in self._quantities if not number.clock for hour in number.values
        }
        has_duration = any(n.unit and n.unit.dimension == "duration" for _, n in self._quantities)
        own = {
            hour for number in self.sentence.quantities if number.clock for hour in number.values
        }
        others = [(key, number) for key, number in clocks if not number.values & own]
        texts = (number for text in self._prompts for number in text.quantities if number.clock)
        known = (time.values & number.values for number in (*(n for _, n in clocks), *texts))
        if others and not (any(known) or has_duration or plain & {*time.values, time.value % 12}):
            places = [(key, n.span, n.before == time.before) for key, n in others]
            yield self._beside("number", time.span, places)

    def _of_year(self, quantity: Quantity) -> Iterator[Check]:
        if any(quantity.values & text.numbers for text in self._prompts):
            return
        places = [
            (key, span, _word_before(source.text, span[0]) == quantity.before)
            for key, source in self.sources.items()
            for year, span in source.years.items()
            if year not in self.sentence.numbers
        ]
        yield self._beside("date", quantity.span, places)

    def _of_number(self, quantity: Quantity) -> Iterator[Check]:
        alike = [
            (key, number)
            for key, number in self._quantities
            if not number.key
            and number.values
            and not number.values & self.sentence.numbers
            and _is_alike(quantity, number)
        ]
        if any(_is_within(number, quantity) for _, number in alike):
            return
        if alike:
            if not self._is_in_prompt(quantity):
                differ = all(quantity.unit != number.unit for _, number in alike)
                differ &= quantity.unit is not None and all(n.unit for _, n in alike)
                places = [
                    (key, n.with_unit if differ else n.span, n.before == quantity.before)
                    for key, n in alike
                ]
                span = quantity.with_unit if differ else quantity.span
                yield self._beside("number", span, places)
        elif (
            not (quantity.in_words or quantity.ordinal)
            and (not quantity.may_be_counted or self._is_price(quantity))
            and not quantity.unscaled & self._numbers  # of a table in millions
            and not any(quantity.values & text.numbers for text in self._prompts)
        ):
            yield value_check("number", self.sentence.text, quantity.span)

    def _is_price(self, quantity: Quantity) -> bool:
        """Whether its unit is the sign or the code of a currency. 3 crowns may be on heads."""
        if quantity.unit is None or not quantity.unit.is_currency or quantity.unit_span is None:
            return False
        shown = self.sentence.text[slice(*quantity.unit_span)]
        return shown == shown.upper()

    def _is_in_prompt(self, quantity: Quantity) -> bool:
        return any(
            quantity.values & number.values
            and quantity.unit == number.unit
            and _is_alike(quantity, number)
            for text in self._prompts
            for number in text.quantities
            if not number.key
        )

    def _of_date(self, date: Date) -> Iterator[Check]:
        dates = [(key, other) for key, source in self.sources.items() for other in source.dates]
        in_prompt = (other for text in self._prompts for other in text.dates)
        if any(map(date.agrees, chain((other for _, other in dates), in_prompt))):
            return
        if self._is_part(date, [other for _, other in dates]):
            return
        own = self.sentence.dates
        differing = [(key, other) for key, other in dates if not any(map(other.agrees, own))]
        if differing:
            places = [(key, other.span, other.has_day == date.has_day) for key, other in differing]
            yield self._beside("date", date.span, places)
        elif not {field for field in date.readings[0] if field is not None} <= self._numbers:
            yield value_check("date", self.sentence.text, date.span)

    def _is_part(self, date: Date, dates: Iterable[Date]) -> bool:
        """Whether a source has the day apart from its month, as in '2 to 11 May'."""
        days = {value for _, number in self._quantities for value in number.values}
        return any(
            day in days and any(month == other.readings[0][1] for other in dates)
            for _, month, day in date.readings
            if day is not None
        )

    def _beside(
        self, kind: _ValueKind, span: Interval, places: Iterable[tuple[int, Interval, bool]]
    ) -> Check:
        """A check with the value of the row or sentence that the sentence is about.

        `places` are the sources' values by source; the last value says whether each is likely.
        """
        values = []
        for key, place, is_likely in places:
            source = self.sources[key]
            statement = next(text for text in source.statements if place[0] < text.end)
            values.append(StatedValue(key, source.text[slice(*place)], statement, is_likely))
        texts = chain.from_iterable(source.statements for source in self.sources.values())
        value = spoken_of(self.sentence.text, values, texts) if values else None
        shown = () if value is None else (value.source, value.shown)
        return value_check(kind, self.sentence.text, span, *shown)


def _ratios(numbers: Sequence[Decimal], quantity: Quantity) -> Iterator[Decimal]:
    """Quotients of two numbers, as exact as the quantity. For a share, also changes in percent."""
    exponent = quantity.value.as_tuple().exponent
    places = max(0, -exponent) if isinstance(exponent, int) else 0
    for a, b in permutations(numbers, 2):
        if b and quantity.is_percent:
            yield round(100 * a / b, places)
            yield round(100 * abs(a - b) / b, places)
        elif b:
            yield round(a / b, places)


def _is_within(number: Quantity, bound: Quantity) -> bool:
    """Whether a number is not beyond a bound."""
    value: float | None = float(number.value)
    if number.unit and bound.unit and number.unit != bound.unit:
        value = converted(float(number.value), number.unit, bound.unit)
    return value is not None and bound.bound * (value - float(bound.value)) > 0


def _is_alike(first: Quantity, second: Quantity) -> bool:
    if (first.ordinal, first.clock) != (second.ordinal, second.clock):
        return False
    units = [unit for unit in (first.unit, second.unit) if unit is not None]
    if len(units) == 2:
        if all(unit.is_currency for unit in units) and units[0] != units[1]:
            return first.before == second.before  # "3 Crown Courts" is not another price than "9 €"
        return units[0].dimension == units[1].dimension or units[0].has_name_of(units[1])
    if not all(unit.is_currency for unit in units):
        return False
    if not first.nouns or not second.nouns:
        return bool(first.before) and first.before == second.before
    return any(
        same_word(a, b)
        for a in first.nouns
        for b in second.nouns
        if min(len(a), len(b)) >= _MIN_NOUN or not a.isascii()
    )


def _word_before(text: str, position: int) -> str:
    words = text[max(0, position - 40) : position].split()
    return words[-1].lower() if words else ""
