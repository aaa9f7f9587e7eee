"""Locating retrieved documents in a prompt: whole documents first, then parts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property

from attribot_rag.context.intervals import Interval
from attribot_rag.context.locating.escapes import Unescaped
from attribot_rag.context.locating.location import Location
from attribot_rag.context.locating.locator import Locator, single_spaced
from attribot_rag.context.locating.parts import find_parts
from attribot_rag.context.locating.text_index import Work


class LocatedDocuments:
    """Different documents, located in a prompt as long as there is time, by their texts.

    `whole` are the locations of whole documents, `parts` those of the other documents' parts. Both
    the prompt and the documents are read as they are, then without their escape sequences.
    `crowded` are documents with further places. `index` is that of the prompt.

    `threshold` is the least similarity of a fuzzy location (rapidfuzz partial ratio, 0 to 1).
    `occupied` are characters of the prompt that are no document's own, such as earlier turns.
    """

    def __init__(
        self,
        prompt: str,
        documents: Collection[str],
        *,
        threshold: float,
        occupied: Sequence[Interval] = (),
        work: Work | None = None,
    ) -> None:
        self._prompt = prompt
        self._work = work or Work()
        self._plain = Locator(prompt, threshold=threshold, work=self._work)
        self.crowded = self._plain.crowded
        self.index = self._plain.index
        places = {text: self._places(text) for text in self._work.in_time(documents)}
        self.whole = {text: located for text, located in places.items() if located}
        missing = [text for text in places if text not in self.whole]
        covered = [(place.start, place.end) for at in self.whole.values() for place in at]
        self.parts = self._parts(missing, [*covered, *occupied]) if missing else {}

    @cached_property
    def _unescaped(self) -> Unescaped:
        return Unescaped.of(self._prompt)

    @cached_property
    def _locator(self) -> Locator:
        text = self._unescaped.text
        if text == self._prompt:
            return self._plain
        return self._plain.of(text)

    def _places(self, document: str) -> list[Location]:
        if places := self._plain.locate_unchanged(document):
            return places
        unescaped, locator = Unescaped.of(document), self._locator
        is_known = unescaped.text == document and locator is self._plain
        places = (locator.locate_changed if is_known else locator.locate)(unescaped.text)
        if unescaped.text in locator.crowded:
            self.crowded.add(document)
        return [self._unescaped.located(place, unescaped) for place in places]

    def _parts(
        self, documents: Sequence[str], occupied: Sequence[Interval]
    ) -> dict[str, list[Location]]:
        texts = {document: Unescaped.of(document) for document in documents}
        parts = find_parts(
            self._locator.normalised,
            dict.fromkeys(unescaped.text for unescaped in texts.values()),
            [self._unescaped.within(interval) for interval in occupied],
            self._work,
        )
        late = self._work.left
        late.update(text for text, unescaped in texts.items() if unescaped.text in late)
        return {
            text: [self._unescaped.located(part, unescaped) for part in parts[unescaped.text]]
            for text, unescaped in texts.items()
            if unescaped.text in parts
        }


def texts_in_prompt(prompt: str, texts: Collection[str]) -> frozenset[str]:
    """The texts that the prompt holds as a whole or in part, whatever their form.

    A text is not in the prompt if all that stands there of it belongs to another whole text.
    """
    plain = single_spaced(prompt)
    present = {text for text in texts if single_spaced(text) in plain}
    distinct = sorted(set(texts))
    if len(present) < len(distinct):
        located = LocatedDocuments(prompt, distinct, threshold=1)
        present.update(located.whole, located.parts)
    return frozenset(present)
