"""The model's own markers where citations are shown: which stay, and what is said of the others."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Literal, get_args

from attribot_rag.context.splitting.blocks import TAG
from attribot_rag.context.text import Interval, merge, subtract, words
from attribot_rag.errors import InvalidInput
from attribot_rag.result import Basis, Citations, CitedSentence, Marker, Result
from attribot_rag.result.answer_text import on_one_line, runs
from attribot_rag.result.citations import is_in_json
from attribot_rag.result.remarks import words_for

Markers = Literal["audited", "written", "removed"]

_BETWEEN_MARKERS = re.compile(r"[ \t]*(?:[,;、，；&]|and\b)?[ \t]*")
_CLAUSE_END = re.compile(r"[,;:.!?()\n–—\]]")
_MAX_PHRASE = 4  # words
_FEW = 2
_MIN_WORD = 4  # letters


@dataclass(frozen=True)
class OwnMarkers:
    """The markers of one sentence.

    `removed` are the characters of those that are not shown. `cited` are the documents that the
    others cite, `covered` those that only markers which are not shown cite rightly. `remark` names
    the wrong labels in words.
    """

    removed: tuple[Interval, ...] = ()
    cited: frozenset[int] = frozenset()
    covered: frozenset[int] = frozenset()
    remark: str = ""


def own_markers(
    attribution: Result, citations: Citations, sentence: CitedSentence, markers: Markers
) -> OwnMarkers:
    """What becomes of the markers in a sentence.

    'written': all stay. 'removed': none does. 'audited': a marker stays unless the audit does not
    support it, or citations are numbered in another way; so does one that begins a line, or stands
    where nothing is stated, as in a list of sources. What is a part of JSON, XML, a link or an
    element always stays. Raises InvalidInput for another option.
    """
    if markers not in get_args(Markers):
        raise InvalidInput(f"markers={markers!r}; use one of {get_args(Markers)}")
    text = attribution.response
    by_place: dict[Interval, list[Marker]] = defaultdict(list)
    for marker in attribution.markers:
        if sentence.start <= marker.start < sentence.end:
            by_place[marker.start, marker.end].append(marker)
    if markers == "written":
        return OwnMarkers()
    parts = {place for place in by_place if is_part(text, *place)}
    for run in runs(text, merge(by_place), _BETWEEN_MARKERS):
        if _is_in_phrase(attribution, sentence, *run[0]):
            parts.update(place for place in run if place in by_place)
    if markers == "removed":
        return OwnMarkers(removed=tuple(spaces_and(text, by_place.keys() - parts)))
    states_nothing = sentence.verdict is not None and sentence.verdict.kind == "trivial"
    kept = parts | {
        place
        for place, group in by_place.items()
        if begins_line(text, *place)
        or (citations.by_marker and (states_nothing or not any(map(is_wrong, group))))
    }
    taken = by_place.keys() - kept
    right = {
        place: {m.document for m in group if m.document is not None and not is_wrong(m)}
        for place, group in by_place.items()
    }
    cited = frozenset(chain.from_iterable(right[place] for place in kept))
    return OwnMarkers(
        removed=tuple(spaces_and(text, taken)),
        cited=cited,
        covered=frozenset(chain.from_iterable(right[place] for place in taken)) - cited,
        remark="; ".join(
            _remarks(
                [m for m in chain(*by_place.values()) if is_wrong(m)], attribution.provenance.basis
            )
        ),
    )


def is_wrong(marker: Marker) -> bool:
    """Whether a marker has no document, or one without an effect on its sentence."""
    return marker.document is None or marker.supported is False


def without(text: str, start: int, end: int, removed: Sequence[Interval]) -> str:
    """The characters [start, end) of a text without those that are removed."""
    return "".join(text[first:last] for first, last in subtract((start, end), removed))


def is_part(text: str, start: int, end: int) -> bool:
    """Whether a marker is a link's address, an element's end, or stands in JSON or XML."""
    if not text.startswith("<", start):
        return text.startswith("](", start) or is_in_json(text, start)
    before, answer = text[:start].rpartition("\n")[2].rstrip(), text.lstrip()
    is_xml = answer.startswith("<") and not TAG.match(answer)  # of HTML's own
    return text.startswith("</", start) or is_xml or not before or before.endswith(">")


def _is_in_phrase(attribution: Result, sentence: CitedSentence, start: int, end: int) -> bool:
    """Whether a sentence needs a marker: as its subject, or after words that only introduce it.

    Such words are few, and none but a short one is a word of the documents. If the sentence ends
    there, they are a clause of their own, and the last is short, as in ", as stated in [2]".
    """
    before = attribution.response[sentence.start : start]
    after = attribution.response[end : sentence.end]
    if not before.strip():
        return after.lstrip(" \t")[:1].islower()
    clause = _CLAUSE_END.split(before)[-1]
    phrase = words(clause.casefold())
    told = [word for word in phrase if len(word) >= _MIN_WORD]
    if not 0 < len(phrase) <= _MAX_PHRASE or any(map(partial(_is_told, attribution), told)):
        return False
    ends_short = len(phrase[-1]) < _MIN_WORD
    if not words(after):
        return bool(told) and ends_short and clause != before
    return len(phrase) == 1 or bool(told and (ends_short or len(phrase) == _FEW))


def _is_told(attribution: Result, word: str) -> bool:
    pattern = re.compile(rf"\b{re.escape(word)}\b", re.IGNORECASE)
    return any(pattern.search(document.text) for document in attribution.documents)


def begins_line(text: str, start: int, end: int) -> bool:
    """Whether a marker begins a line that goes on after it, as an entry of a list does."""
    is_first = not text[:start].rpartition("\n")[2].strip()
    return is_first and bool(text[end:].partition("\n")[0].strip())


def _remarks(wrong: Sequence[Marker], basis: Basis) -> Iterator[str]:
    no_effect = [words_for(key, basis=basis) for key in ("no_effect", "no_effects")]
    for is_missing in (False, True):
        of = [marker.text for marker in wrong if (marker.document is None) == is_missing]
        labels = [f"[{on_one_line(label)}]" for label in dict.fromkeys(of)]
        if labels:
            one, many = ("is missing", "are missing") if is_missing else no_effect
            yield f"the model cites {', '.join(labels)}, which {one if len(labels) == 1 else many}"


def spaces_and(text: str, markers: Iterable[Interval]) -> list[Interval]:
    """The characters of markers, of what parts them, and of the space before them."""
    removed = []
    for run in runs(text, merge(markers), _BETWEEN_MARKERS):
        start, end = run[0][0], run[-1][1]
        begins_line = not text[:start].rpartition("\n")[2].strip()
        ends_line = not text[end:].partition("\n")[0].strip()
        if begins_line and not ends_line:
            end += len(text[end:]) - len(text[end:].lstrip(" \t"))
        else:
            start = len(text[:start].rstrip() if begins_line else text[:start].rstrip(" \t"))
        removed.append((start, end))
    return merge(removed)
