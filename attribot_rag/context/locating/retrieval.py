"""Locating retrieved documents and earlier turns in a prompt."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence

from attribot_rag.cached_property import cached_property
from attribot_rag.context.context import Context, ContextOptions
from attribot_rag.context.document import Documents, documents_of
from attribot_rag.context.intervals import Interval, merge
from attribot_rag.context.locating.aligned_text import AlignedText
from attribot_rag.context.locating.location import Location
from attribot_rag.context.locating.locator import Locator
from attribot_rag.context.locating.parts import find_parts
from attribot_rag.context.locating.sources import divide
from attribot_rag.context.locating.text_index import Work
from attribot_rag.context.splitting.splitter import make_splitter, split_spans
from attribot_rag.context.tokens import TokenizedText
from attribot_rag.context.words import single_spaced
from attribot_rag.errors import DocumentsNotLocated


def locate_context(
    prompt: TokenizedText,
    documents: Documents,
    options: ContextOptions,
    *,
    earlier_turns: Sequence[str] = (),
    message: str = "",
    is_in_time: Callable[[], bool] | None = None,
) -> Context:
    """Locate the documents and the earlier turns in the prompt, and divide documents into sources.

    `message` is the user's last message, after the earlier turns; '' for a prompt without messages.
    `is_in_time` is called before each document: False where time is up. Raises InvalidInput without
    documents, DocumentsNotLocated if the prompt holds none of them.
    """
    retrieved = documents_of(documents)
    conversation = find_turns(prompt.text, earlier_turns)
    holders: dict[str, list[int]] = defaultdict(list)
    for index, document in enumerate(retrieved):
        holders[document.text].append(index)
    work = Work(is_in_time)
    located = LocatedDocuments(
        prompt.text, holders, threshold=options.fuzzy_threshold, occupied=conversation, work=work
    )
    places = located.whole | located.parts
    splitter = make_splitter(options.source_unit, options.language)
    cuts = {text: split_spans(text, splitter) for text in work.rest_in_time(places)}
    places = {text: places[text] for text in cuts}

    def indices(texts: Collection[str]) -> tuple[int, ...]:
        return tuple(index for index, document in enumerate(retrieved) if document.text in texts)

    late = indices(work.left)
    if not places:
        raise DocumentsNotLocated(
            f"none of the documents ({len(retrieved)}) stands in the prompt, of "
            f"{len(prompt.text):,} characters; the first begins {retrieved[0].text[:60]!r}; pass "
            "the chunks whose text was put into this prompt"
            + (f"; {len(late)} of them were not located in time" if late else "")
        )
    threshold = options.duplicate_threshold
    shares = _shares({text: parts for text, parts in located.parts.items() if text in cuts})
    return Context(
        documents=retrieved,
        prompt=prompt,
        sources=divide(located.index, places, cuts, holders, duplicate_threshold=threshold),
        regions=tuple(merge((x.start, x.end) for at in places.values() for x in at)),
        not_located=indices(holders.keys() - places),
        conversation=conversation,
        message=_find_last(prompt.text, message, conversation),
        partly_located={index: shares[retrieved[index].text] for index in indices(shares)},
        not_in_time=late,
        crowded=indices(located.crowded & cuts.keys()),
        language=options.language,
    )


def find_turns(prompt: str, turns: Sequence[str]) -> tuple[Interval, ...]:
    """The characters of these texts in the prompt, in their order, without absent texts."""
    places = []
    done = 0
    for turn in turns:
        text = turn.strip()
        start = prompt.find(text, done) if text else -1
        if start >= 0:
            done = start + len(text)
            places.append((start, done))
    return tuple(places)


def _find_last(prompt: str, message: str, turns: Sequence[Interval]) -> tuple[Interval, ...]:
    """The last place of the message after the turns, or nothing."""
    text = message.strip()
    start = prompt.rfind(text, turns[-1][1] if turns else 0) if text else -1
    return ((start, start + len(text)),) if start >= 0 else ()


def _shares(parts: Mapping[str, Sequence[Location]]) -> dict[str, float]:
    """The share of each text's characters in its parts, white space aside, if below 1."""
    shares = {}
    for text, places in parts.items():
        spans = merge(part.document_span for part in places if part.document_span)
        covered = sum(len("".join(text[slice(*span)].split())) for span in spans)
        shares[text] = covered / len("".join(text.split()))
    return {text: share for text, share in shares.items() if share < 1}


class LocatedDocuments:
    """Different documents, located in a prompt as long as there is time, by their texts.

    `whole` are the locations of whole documents, `parts` those of the other documents' parts. Both
    the prompt and the documents are read as they are, then without their escape sequences.
    `crowded` are documents with further places. `index` is that of the prompt.

    `threshold` is the least similarity of a fuzzy location, 0 to 1 (see `similar_passage`).
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
        self._threshold = threshold
        self._work = work or Work()
        self._plain = Locator(prompt, threshold=threshold, work=self._work)
        self.crowded = self._plain.crowded
        self.index = self._plain.prompt.index
        places = {text: self._places(text) for text in self._work.in_time(documents)}
        self.whole = {text: located for text, located in places.items() if located}
        missing = [text for text in places if text not in self.whole]
        covered = [(place.start, place.end) for at in self.whole.values() for place in at]
        self.parts = self._parts(missing, [*covered, *occupied]) if missing else {}

    @cached_property
    def _unescaped(self) -> AlignedText:
        return self._plain.prompt.unescaped()

    @cached_property
    def _locator(self) -> Locator:
        if self._unescaped.text == self._plain.prompt.text:
            return self._plain
        return Locator(self._unescaped.text, threshold=self._threshold, work=self._work)

    def _places(self, document: str) -> list[Location]:
        if places := self._plain.locate_unchanged(document):
            return places
        unescaped = AlignedText.of(document).unescaped()
        places = self._locator.locate(unescaped.text)
        if unescaped.text in self._locator.crowded:
            self.crowded.add(document)
        return [place.in_sources(unescaped, self._unescaped) for place in places]

    def _parts(
        self, documents: Sequence[str], occupied: Sequence[Interval]
    ) -> dict[str, list[Location]]:
        texts = {document: AlignedText.of(document).unescaped() for document in documents}
        parts = find_parts(
            self._locator.letters,
            dict.fromkeys(unescaped.text for unescaped in texts.values()),
            [self._unescaped.span_of(interval) for interval in occupied],
            self._work,
        )
        late = self._work.left
        late.update(text for text, unescaped in texts.items() if unescaped.text in late)
        return {
            text: [part.in_sources(unescaped, self._unescaped) for part in parts[unescaped.text]]
            for text, unescaped in texts.items()
            if unescaped.text in parts
        }


def texts_in_prompt(prompt: str, texts: Collection[str]) -> frozenset[str]:
    """The texts that stand in the prompt, as a whole or in part, in any form.

    A text is not in the prompt if all that stands there of it belongs to another whole text.
    """
    plain = single_spaced(prompt)
    present = {text for text in texts if single_spaced(text) in plain}
    distinct = sorted(set(texts))
    if len(present) < len(distinct):
        located = LocatedDocuments(prompt, distinct, threshold=1)
        present.update(located.whole, located.parts)
    return frozenset(present)
