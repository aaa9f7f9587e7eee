"""Locating retrieved documents in a prompt: whole documents first, then parts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

from attribot_rag.context.intervals import Interval
from attribot_rag.context.locating.escapes import Unescaped
from attribot_rag.context.locating.location import Location
from attribot_rag.context.locating.locator import Locator, single_spaced
from attribot_rag.context.locating.parts import find_parts
from attribot_rag.context.locating.text_index import TextIndex, Work


@dataclass(frozen=True)
class LocatedDocuments:
    """The locations of documents, by their texts.

    `whole` and `parts` are those of whole documents and of the other documents' parts. `crowded`
    are documents with further places. `index` is that of the prompt.
    """

    whole: dict[str, list[Location]]
    parts: dict[str, list[Location]]
    crowded: frozenset[str]
    index: TextIndex


def locate_documents(
    prompt: str,
    documents: Collection[str],
    *,
    threshold: float,
    occupied: Sequence[Interval] = (),
    work: Work | None = None,
) -> LocatedDocuments:
    """Locate different documents in a prompt, as long as there is time.

    `threshold` is the least similarity of a fuzzy location (rapidfuzz partial ratio, 0 to 1).
    `occupied` are characters of the prompt that are no document's own, such as earlier turns.
    """
    work = work or Work()
    search = _Search(prompt, threshold, work)
    whole = {document: search.whole(document) for document in work.in_time(documents)}
    missing = [text for text, places in whole.items() if not places]
    covered = [(place.start, place.end) for places in whole.values() for place in places]
    parts = search.parts(missing, [*covered, *occupied]) if missing else {}
    whole = {text: places for text, places in whole.items() if places}
    return LocatedDocuments(whole, parts, frozenset(search.crowded), search.index)


class _Search:
    """Searches a prompt for documents as they are, then for both without their escape sequences."""

    def __init__(self, prompt: str, threshold: float, work: Work) -> None:
        self._prompt = prompt
        self._threshold = threshold
        self._work = work
        self._plain = Locator(prompt, threshold=threshold, work=work)
        self.crowded = self._plain.crowded
        self.index = self._plain.index

    @cached_property
    def _unescaped(self) -> Unescaped:
        return Unescaped.of(self._prompt)

    @cached_property
    def _locator(self) -> Locator:
        text = self._unescaped.text
        if text == self._prompt:
            return self._plain
        return Locator(text, threshold=self._threshold, work=self._work)

    def whole(self, document: str) -> list[Location]:
        """The places of the whole document."""
        if places := self._plain.locate_unchanged(document):
            return places
        unescaped, locator = Unescaped.of(document), self._locator
        is_known = unescaped.text == document and locator is self._plain
        places = (locator.locate_changed if is_known else locator.locate)(unescaped.text)
        if unescaped.text in locator.crowded:
            self.crowded.add(document)
        return [self._unescaped.located(place, unescaped) for place in places]

    def parts(
        self, documents: Sequence[str], occupied: Sequence[Interval]
    ) -> dict[str, list[Location]]:
        """The parts of documents, by the documents' texts."""
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

    This tells prompts apart: a text of which the prompt holds only what also belongs to another
    whole text is not in the prompt.
    """
    plain = single_spaced(prompt)
    present = {text for text in texts if single_spaced(text) in plain}
    distinct = sorted(set(texts))
    if len(present) < len(distinct):
        located = locate_documents(prompt, distinct, threshold=1)
        present.update(located.whole, located.parts)
    return frozenset(present)
