"""Passages that say something else than a sentence that they nearly say."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from rapidfuzz.distance import Indel

from attribot_rag.result.verdict import Rival
from attribot_rag.support.wording import Claim, Passage, RetrievedText, Word, Wording

_MOST_INSERTED = 2  # words inside a sentence that otherwise quotes a passage
_MOST_AROUND = 5  # words of such a sentence that are not quoted
_LEAST_WORDS = 2  # words that a rival must share with a sentence
_MOST_ALIKE = 0.6  # share of a sentence's words, by weight, in a passage with another number
MIN_WORDS = (4, 2)
"""The least number of words, and of content words, of a sentence that a passage says word for word.
"""


def rivals_of(claim: Claim, cited: Sequence[Passage], retrieved: RetrievedText) -> Iterator[Rival]:
    """The passages that have another number or name for the same thing.

    A passage is a rival if

    - it is the sentence with one more short word inside, such as "not";
    - it has all other words of the sentence, and says nothing else;
    - it is cited, and has one other number before the same word, and the sentence's number nowhere
      or before another word;
    - it is cited, the sentence ends with a number, and the passage has one other number after the
      same two words;
    - it is not cited, counts the same with one other number, and has most words of the sentence,
      which the cited text has all.

    A number from which the sentence concludes is no rival: if a ticket costs 18 crowns, two cost
    36.
    """
    reported: set[int] = set()
    keys = frozenset[str]().union(*(retrieved.wording.keys(each.with_context) for each in cited))
    is_said = not retrieved.wording.lacking(retrieved.wording.content(claim.text), keys)
    for passage in retrieved.passages:
        if change := _left_out(claim.text, passage, retrieved.wording):
            after, their_after = change.following
            yield _rival(claim, [after], passage, [*change.theirs, their_after])
        elif pair := _replaced_facts(claim, passage, retrieved.wording):
            reported.update(word.start for word in pair[0])
            yield _rival(claim, pair[0], passage, pair[1])
        elif (
            is_said
            and passage not in cited
            and (two := _other_number(claim, passage, retrieved.wording))
        ):
            yield _rival(claim, [two[0]], passage, [two[1]])
    yield from _rivals_by_number(claim, cited, retrieved.wording, reported)


def _replaced_facts(
    claim: Claim, passage: Passage, wording: Wording
) -> tuple[list[Word], list[Word]] | None:
    """The numbers or the names of a sentence that a passage lacks, and those that it has instead.

    None if other words differ too, or if the sentence may conclude from those of the passage.
    """
    words = wording.content(claim.text)
    own = frozenset(word.key for word in words)
    theirs = wording.lacking(wording.content(passage.text), own)
    differs = wording.lacking(words, wording.keys(passage.with_context))
    premises = wording.keys(claim.earlier)
    is_drawn = len(differs) > len(theirs) and not wording.lacking(theirs, premises)
    if not differs or not theirs or is_drawn:
        return None
    num_same, changed = len(own - {word.key for word in differs}), [*differs, *theirs]
    is_one_kind = all(x.is_number for x in changed) or all(x.is_name for x in changed)
    return (differs, theirs) if num_same >= _LEAST_WORDS and is_one_kind else None


def _other_number(claim: Claim, passage: Passage, wording: Wording) -> tuple[Word, Word] | None:
    """The number of a sentence, and the other one that a passage has for the same thing.

    The passage must count the same with its only number, such as euros, and have most of the
    sentence's other words, with the rarest ones. If it has another name, it may be an exception:
    "In Berlin, hotels may cost 140 euros."
    """
    keys, words = wording.keys(passage.text), wording.words(claim.text)
    own = {word.key for word in words}
    others = [word for word in words if not word.is_number]
    names = [word for word in wording.words(passage.text) if word.is_name]
    if wording.covered(others, keys) < _MOST_ALIKE or wording.lacking(names, own):
        return None
    theirs = list(_placed_numbers(wording.words(passage.text)))
    for number, place, _ in _placed_numbers(words):
        same = {other.key: other for other, at, _ in theirs if at == place}
        if len(place) > 1 or len(same) != 1 or own & same.keys() or number.key in keys:
            continue
        rarest = wording.rarest(word for word in others if word.key != place[0])
        if rarest and not wording.lacking(rarest, keys):
            return number, next(iter(same.values()))
    return None


def _rivals_by_number(
    claim: Claim, cited: Sequence[Passage], wording: Wording, reported: Collection[int]
) -> Iterator[Rival]:
    """The cited passages with one other number before the same word, or after the same words."""
    premises = wording.keys(claim.earlier)
    words = wording.content(claim.text)
    own = frozenset(word.key for word in words)
    others = [word for word in words if not word.is_number]
    about = [each for each in cited if not wording.lacking(others, wording.keys_for(each))]
    compared = about or cited
    known = frozenset[str]().union(*(wording.keys_for(passage) for passage in compared))
    places = [
        (number, place, passage)
        for passage in compared
        for number, place, _ in _placed_numbers(wording.words(passage.text))
    ]
    for number, place, is_last in _placed_numbers(wording.words(claim.text)):
        same_place = {
            other.key: (passage, other)
            for other, theirs, passage in places
            if theirs == place and other.key not in premises
        }
        if len(same_place) != 1 or number.start in reported or number.key in same_place:
            continue
        ((key, (passage, other)),) = same_place.items()
        if len(place) > 1:
            is_rival = is_last and key not in own
        elif wording.has(known, number.key):
            is_rival = any(same.key == number.key and len(at) == 1 for same, at, _ in places)
        else:
            is_rival = key not in own
        if is_rival:
            yield _rival(claim, [number], passage, [other])


def _placed_numbers(words: Sequence[Word]) -> Iterator[tuple[Word, tuple[str, ...], bool]]:
    """Each number with the keys of its neighbours: of what it counts, or of the two before it.

    What it counts is the first content word among the next three ("500 g of flour"). The last value
    says whether a number ends the text. If a word follows, the words before may belong to several
    numbers.
    """
    for index, number in enumerate(words):
        if not number.is_number:
            continue
        before = words[max(0, index - 2) : index]
        after = next((word for word in words[index + 1 : index + 4] if word.is_content), None)
        if after is not None and not after.is_number:
            yield number, (after.key,), False
        if len(before) == 2 and any(word.is_content for word in before):
            yield number, tuple(word.key for word in before), index == len(words) - 1


def _rival(
    claim: Claim, differs: Sequence[Word], passage: Passage, theirs: Sequence[Word]
) -> Rival:
    return Rival(
        start=claim.start + differs[0].start,
        end=claim.start + differs[-1].end,
        value=passage.text[theirs[0].start : theirs[-1].end],
        source=passage.source,
        document=passage.document,
        document_start=passage.start,
        document_end=passage.end,
    )


@dataclass(frozen=True)
class _Change:
    """Words inside a sentence that otherwise quotes a passage, and the passage's words for them."""

    words: Sequence[Word]
    theirs: Sequence[Word]
    following: tuple[Word, Word]
    """The next word, in the sentence and in the passage."""


def _changes(text: str, passage: Passage, wording: Wording) -> list[_Change]:
    """What a sentence changes inside its quotation of a passage.

    Words before and after the quoted ones do not count: they may introduce the sentence. Empty if
    the sentence does not quote the passage.
    """
    words, theirs = wording.words(text), wording.words(passage.text)
    codes = Indel.opcodes([word.key for word in theirs], [word.key for word in words])
    changed = [code for code in codes if code.tag != "equal"]
    num_quoted = len(words) - sum(code.dest_end - code.dest_start for code in changed)
    if num_quoted < max(MIN_WORDS[0], len(words) - _MOST_AROUND):
        return []
    return [
        _Change(
            words[code.dest_start : code.dest_end],
            theirs[code.src_start : code.src_end],
            (words[code.dest_end], theirs[code.src_end]),
        )
        for code in changed
        if code.src_start > 0 and code.src_end < len(theirs)
        if code.dest_start > 0 and code.dest_end < len(words)
    ]


def inserted_words(text: str, passages: Sequence[Passage], wording: Wording) -> list[Word]:
    """One or two words that a sentence adds inside a quotation of a passage, such as "not"."""
    for passage in passages:
        changes = _changes(text, passage, wording)
        added = [word for change in changes for word in change.words]
        if 0 < len(added) <= _MOST_INSERTED and not any(change.theirs for change in changes):
            return wording.lacking(added, wording.keys(passage.with_context))
    return []


def _left_out(text: str, passage: Passage, wording: Wording) -> _Change | None:
    """The short word, such as "not", that a sentence lacks inside a quotation of a passage.

    An article or a preposition is no such word: much of the retrieved text has it. Nor is "is" in
    "is open" if the sentence has "opens".
    """
    changes = _changes(text, passage, wording)
    if len(changes) != 1 or changes[0].words or len(changes[0].theirs) != 1:
        return None
    (short,), (after, their_after) = changes[0].theirs, changes[0].following
    is_same = after.text.casefold() == their_after.text.casefold()
    is_lacking = is_same and not wording.has(wording.keys(text), short.key)
    return changes[0] if is_lacking and wording.is_rare_and_short(short) else None
