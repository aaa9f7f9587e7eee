"""The support of each judged sentence: whether the text that caused it says it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from rapidfuzz.distance import OSA

from attribot_rag.cached_property import cached_property
from attribot_rag.context.document import Document, Source
from attribot_rag.context.text import Interval
from attribot_rag.result.verdict import MissingWord, Rival, Support, Verdict
from attribot_rag.support.estimate import FULL, UNLIKELY, UNSURE, Signals, estimate
from attribot_rag.support.wording import Word, Wording

_HEADING = re.compile(r"^#{1,6}[ \t]+(.+)$", re.MULTILINE)
_NOT_JUDGED = ("trivial", "reasoning")
_NOT_DECIDED = ("cut", "pending")
_ANOTHER_SPELLING = 0.8  # of the letters of two words that are one
_similarity = OSA.normalized_similarity
_LEAST_OWN = 0.5  # of a sentence's words that a text has which says it
_LEAST_WORDS = 2  # that a rival shares with a sentence

Likelihoods = Sequence[tuple[int, int, float]]
"""The tokens of a question: their characters [start, end) in it, and log-likelihoods in nats."""
QuestionLikely = Callable[[str], Likelihoods | None]
"""Gives the likelihoods of the question's tokens after some text, None where no model can tell."""


@dataclass(frozen=True)
class Passage:
    """A source in one document: the characters [start, end) of it.

    `around` is what a reader knows besides: the document's title, the heading above the passage,
    and the sentence before it.
    """

    source: int
    document: int
    start: int
    end: int
    text: str
    around: str = ""

    @cached_property
    def read(self) -> str:
        """The text with what stands around it."""
        return f"{self.around}\n{self.text}"


class Retrieved:
    """What a model read: the sources of its documents, with their words."""

    def __init__(
        self, documents: Sequence[Document], sources: Sequence[Source], language: str
    ) -> None:
        self.passages = tuple(_passages(documents, sources))
        self.wording = Wording(language, [passage.text for passage in self.passages])

    def of(self, source_ids: Iterable[int]) -> tuple[Passage, ...]:
        """The places of some sources, in the order of the ids."""
        return tuple(
            passage
            for source in source_ids
            for passage in self.passages
            if passage.source == source
        )

    @cached_property
    def keys(self) -> frozenset[str]:
        """The keys of all words that the model read."""
        return self.wording.keys("\n".join(passage.read for passage in self.passages))


@dataclass(frozen=True, kw_only=True)
class Stated:
    """A sentence of the answer: the characters from `start` on of the response.

    `text` has white space for its markers. It answers the `question`; `earlier` is the sentence
    that it follows from.
    """

    start: int
    text: str
    question: str
    earlier: str = ""


def with_support(
    verdicts: Sequence[Verdict],
    response: str,
    retrieved: Retrieved,
    *,
    question: str,
    markers: Iterable[Interval] = (),
    question_likely: QuestionLikely | None = None,
) -> tuple[Verdict, ...]:
    """The same verdicts, each judged one with its support.

    Args:
        verdicts: The verdicts on the sentences of the response, with their checks.
        response: The answer.
        retrieved: What the model read.
        question: What was asked.
        markers: The model's own citation markers, which are no part of a sentence.
        question_likely: Asks the model that scores; without one, words alone decide.
    """
    readable = response
    for start, end in markers:
        readable = readable[:start] + " " * (end - start) + readable[end:]
    supported: list[Verdict] = []
    for verdict in verdicts:
        if verdict.kind in _NOT_JUDGED or verdict.reason in _NOT_DECIDED:
            supported.append(verdict)
            continue
        traced = verdict.traced(verdicts)
        earlier = None if verdict.follows is None else supported[verdict.follows]
        stated = Stated(
            start=verdict.start,
            text=readable[verdict.start : verdict.end],
            question=question,
            earlier="" if earlier is None else readable[earlier.start : earlier.end],
        )
        cited = replace(verdict, source_ids=traced.source_ids)
        support = support_of(stated, cited, retrieved, question_likely)
        if earlier is not None and support.kind != "contradicted":
            support = _inherited(support, earlier.support)
        supported.append(replace(verdict, support=support))
    return tuple(supported)


def support_of(
    stated: Stated,
    verdict: Verdict,
    retrieved: Retrieved,
    question_likely: QuestionLikely | None = None,
) -> Support:
    """Compare a sentence with the sources that it cites, or else with the text that says it.

    A rival, or a check with another value, makes the support contradicted. It is full if the score
    is high enough, or no word is missing; if no number or name is missing, no word of the question
    that no text has is an unlikely one after the cited text, and that text is not the same sentence
    with another word.
    """
    wording = retrieved.wording
    words, question = wording.content(stated.text), wording.content(stated.question)
    cited = retrieved.of(verdict.source_ids)
    rivals = tuple(rivals_of(stated, cited, retrieved))
    differs = bool(rivals) or any(check.source_value is not None for check in verdict.checks)
    own = frozenset(word.key for word in words)
    nowhere = wording.lacking(question, retrieved.keys)
    repeated = [word for word in nowhere if wording.has(own, word.key)]
    if cited:
        signals = signals_of(stated, cited, retrieved)
        passages, score = cited, estimate(signals)
        is_unsure = UNSURE[0] < score < UNSURE[1]
    else:
        passages, score = says(stated, retrieved)
        signals, is_unsure = None, False
    if not passages:
        return Support(kind="contradicted" if differs else "none", rivals=rivals)
    foreign: frozenset[str] = frozenset()
    if question_likely is not None and (is_unsure or repeated):
        likely = question_likely(" ".join(passage.text.strip() for passage in passages)) or ()
        foreign = frozenset(word.key for word in repeated if _nats(word, likely) < UNLIKELY)
        if signals and is_unsure and likely:
            mean = sum(nats for _, _, nats in likely) / len(likely)
            score = estimate(replace(signals, question_likely=mean))
    known = wording.keys("\n".join([stated.earlier, *(passage.read for passage in passages)]))
    texts = "\n".join(passage.text for passage in passages)
    missing = _not_respelled(wording.lacking(words, known), wording.content(texts))
    elsewhere = wording.lacking(question, frozenset(word.key for word in nowhere))
    new = wording.lacking(missing, frozenset(word.key for word in elsewhere))
    facts = [word for word in new if word.is_number or word.is_name]
    telling = [*facts, *wording.telling(missing, words)]
    told = tuple(
        MissingWord(
            start=stated.start + word.start,
            end=stated.start + word.end,
            in_no_document=not wording.has(retrieved.keys, word.key),
        )
        for word in missing
        if word in telling or wording.has(foreign, word.key)
    )
    asked = wording.telling(wording.lacking(elsewhere, known), question)
    is_full = (
        (score >= FULL or not (missing or asked))
        and not foreign
        and not facts
        and not any(check.in_no_document for check in verdict.checks)
        and not (missing and _is_replaced(stated.text, missing, cited, wording))
    )
    return Support(
        kind="contradicted" if differs else "full" if is_full else "partial",
        score=round(score, 4),
        source_ids=tuple(dict.fromkeys(passage.source for passage in passages)),
        missing=told,
        missing_asked=tuple(dict.fromkeys(word.text for word in asked)),
        rivals=rivals,
    )


def _nats(word: Word, likelihoods: Likelihoods) -> float:
    """The log-likelihood of a word of the question."""
    return sum(nats for start, end, nats in likelihoods if start < word.end and word.start < end)


def _not_respelled(missing: Sequence[Word], words: Sequence[Word]) -> list[Word]:
    """The missing words of which no word is another spelling, as "meters" is of "metres"."""
    others = [word.text.casefold() for word in words if not (word.is_number or word.is_name)]

    def is_respelled(word: str) -> bool:
        alike = (other for other in others if other[0] == word[0])
        return any(_similarity(word, other) >= _ANOTHER_SPELLING for other in alike)

    return [
        word
        for word in missing
        if word.is_number or word.is_name or not is_respelled(word.text.casefold())
    ]


def _is_replaced(
    text: str, missing: Sequence[Word], passages: Sequence[Passage], wording: Wording
) -> bool:
    """Whether a passage is the sentence with one other word in the place of a missing one.

    The two stand beside the same word.
    """
    own = wording.keys(text)
    lost = {word.text.casefold() for word in missing}
    for passage in passages:
        theirs = wording.lacking(wording.content(passage.text), own)
        others = {word.text.casefold() for word in theirs}
        if len(lost) == len(others) == 1:
            around = _beside(theirs, passage.text, wording)
            return not around.isdisjoint(_beside(missing, text, wording))
    return False


def _beside(words: Sequence[Word], text: str, wording: Wording) -> set[tuple[str, str]]:
    """The keys of the words before and after some words of a text."""
    starts = {word.start for word in words}
    pairs = list(pairwise(wording.words(text)))
    before = {("before", first.key) for first, second in pairs if second.start in starts}
    return before | {("after", second.key) for first, second in pairs if first.start in starts}


def signals_of(stated: Stated, passages: Sequence[Passage], retrieved: Retrieved) -> Signals:
    """What is known of a sentence and the passages that it cites."""
    wording = retrieved.wording
    words, asked = wording.content(stated.text), wording.content(stated.question)
    findable = [word for word in asked if wording.has(retrieved.keys, word.key)]
    cited = wording.keys("\n".join([stated.earlier, *(passage.read for passage in passages)]))
    added = wording.lacking(words, frozenset(word.key for word in asked))
    return Signals(
        added_covered=wording.covered(added, cited) if added else 0.0,
        question_covered=wording.covered(findable, cited) if findable or not asked else 0.0,
        question_repeated=wording.covered(asked, wording.keys(stated.text)),
    )


def says(stated: Stated, retrieved: Retrieved) -> tuple[tuple[Passage, ...], float]:
    """The best passages that say a sentence, by their words alone, and their score.

    They have all its numbers and names, and say it equally well. Empty if no passage says it.
    """
    wording = retrieved.wording
    words = wording.content(stated.text)
    facts = [word for word in words if word.is_number or word.is_name]
    best: list[Passage] = []
    most = (FULL, 0.0)
    for passage in retrieved.passages if words else ():
        known = wording.keys(passage.read)
        if wording.lacking(facts, known):
            continue
        # Two neighbours know each other's words: the one that has them is cited.
        own = wording.covered(words, wording.keys(passage.text))
        rank = (estimate(signals_of(stated, [passage], retrieved)), own)
        if own >= _LEAST_OWN and rank >= most:
            best = [*best, passage] if rank == most else [passage]
            most = rank
    return tuple(best), most[0]


def rivals_of(stated: Stated, cited: Sequence[Passage], retrieved: Retrieved) -> Iterator[Rival]:
    """The passages that say another number, or another name, of the same thing.

    A rival has all other words of the sentence, and says nothing else; or it is cited, lacks a
    number of the sentence, and has one other number before the same word. What a conclusion is
    drawn from is no rival: if a ticket costs 18 crowns, two cost 36.
    """
    wording = retrieved.wording
    words = wording.content(stated.text)
    premises = wording.keys(stated.earlier)
    own = frozenset(word.key for word in words)
    told: set[int] = set()
    for passage in retrieved.passages:
        theirs = [word for word in wording.content(passage.text) if not wording.has(own, word.key)]
        differs = wording.lacking(words, wording.keys(passage.read))
        num_same = len(own - {word.key for word in differs})
        is_drawn = len(differs) > len(theirs) and not wording.lacking(theirs, premises)
        if not differs or not theirs or is_drawn:
            continue
        if num_same >= _LEAST_WORDS and _are_one_kind([*differs, *theirs]):
            told.update(word.start for word in differs)
            yield _rival(stated, differs, passage, theirs)
    known = wording.keys("\n".join(passage.read for passage in cited))
    for number, unit in _counted(wording.words(stated.text)):
        others = {
            other.key: (passage, other)
            for passage in cited
            for other, theirs in _counted(wording.words(passage.text))
            if theirs.key == unit.key and other.key not in premises
        }
        if len(others) == 1 and number.start not in told and not wording.has(known, number.key):
            ((passage, other),) = others.values()
            yield _rival(stated, [number], passage, [other])


def _counted(words: Sequence[Word]) -> Iterator[tuple[Word, Word]]:
    """The numbers with the words right after them."""
    for first, second in pairwise(words):
        if first.is_number and not second.is_number and second.is_content:
            yield first, second


def _rival(
    stated: Stated, differs: Sequence[Word], passage: Passage, theirs: Sequence[Word]
) -> Rival:
    return Rival(
        start=stated.start + differs[0].start,
        end=stated.start + differs[-1].end,
        value=passage.text[theirs[0].start : theirs[-1].end],
        source=passage.source,
        document=passage.document,
        document_start=passage.start,
        document_end=passage.end,
    )


def _are_one_kind(words: Sequence[Word]) -> bool:
    return all(word.is_number for word in words) or all(word.is_name for word in words)


def _inherited(support: Support, earlier: Support | None) -> Support:
    """The support of a conclusion: it has that of the sentence that it follows from."""
    if earlier is None:
        return support
    return replace(support, kind=earlier.kind, score=earlier.score, source_ids=earlier.source_ids)


def _passages(documents: Sequence[Document], sources: Sequence[Source]) -> Iterator[Passage]:
    """The places of all sources in the documents, in the order of the documents' text."""
    places = {
        (span.document, span.start, span.end): source.id
        for source in sources
        for occurrence in source.occurrences
        for span in occurrence.spans
    }
    before: Passage | None = None
    for (index, start, end), source in sorted(places.items()):
        document = documents[index]
        is_next = before is not None and before.document == index
        previous = before.text if before is not None and is_next else ""
        heading = _heading(document.text, start)
        around = "\n".join(filter(None, [document.title, heading, previous]))
        before = Passage(source, index, start, end, document.text[start:end], around)
        yield before


def _heading(text: str, end: int) -> str:
    """The last heading of Markdown that begins before this character."""
    *_, last = [None, *_HEADING.finditer(text, 0, end)]
    return "" if last is None else last[1]
