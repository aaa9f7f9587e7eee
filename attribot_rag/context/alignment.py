"""Forms of a text that are aligned with it by character, and the text that two have in common."""

from __future__ import annotations

import html
import re
import sys
import unicodedata
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import NamedTuple, TypeAlias

import numpy
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein, Postfix

from attribot_rag.cached_property import cached_property
from attribot_rag.context.text import Interval, find_all, num_unspaced, shared_length

_SPACE = re.compile(r"\s{2,}|[^\S ]|\A\s|\s\Z")
# Separators in a row, but the last one separately: it may be the sign of a number.
_SEPARATORS = re.compile(r"[ .,:;/-]+(?=[ .,:;/-])|[ .,:;/-]")


@dataclass(frozen=True, eq=False)
class AlignedText:
    """A form of the text `source`, with characters replaced or left out.

    `source_spans` [characters of `text`, 2] has for each character the characters [start, end) of
    `source` that it stands for, ascending. Several characters may stand for one (ss for ß), or one
    for several (é for an escape sequence).
    """

    source: str
    text: str
    source_spans: Integers

    @classmethod
    def of(cls, source: str) -> AlignedText:
        """The text as it is."""
        starts = numpy.arange(len(source))
        return cls(source, source, numpy.stack([starts, starts + 1], axis=1))

    def unescaped(self) -> AlignedText:
        """The text without any escaping, however deep, to compare with another text.

        A document with its own escape sequences loses these too, so unescape both texts.
        """
        form = self
        for _ in range(_MAX_DEPTH):
            outer, form = form, form._replaced(_ESCAPE, meaning)
            if outer.text == form.text:
                break
        return form

    def single_spaced(self) -> AlignedText:
        """The text with one space between words, and none around them."""

        def space(match: re.Match[str]) -> str:
            return " " if match.start() and match.end() < len(self.text) else ""

        return self._replaced(_SPACE, space)

    def letters(self) -> AlignedText:
        """The casefolded (NFKD) letters and digits, with nothing between them.

        White space, case, mark-up, punctuation and typography are left out. A separator between two
        digits stays (1.5 is not 15), and so do minus, per cent and currency signs.
        """
        letters = [*map(_letters_of, self.text)]
        for silent in _SILENT.finditer(self.text):
            letters[slice(*silent.span())] = [""] * len(silent[0])
        lengths = numpy.fromiter(map(len, letters), numpy.int64, len(letters))
        form = AlignedText(self.source, "".join(letters), self.source_spans.repeat(lengths, axis=0))
        return form._replaced(_SEPARATORS, _number_sign)

    def _replaced(
        self, pattern: re.Pattern[str], value: Callable[[re.Match[str]], str]
    ) -> AlignedText:
        lengths = numpy.ones(len(self.text), numpy.int64)
        starts, ends = self.source_spans.T.copy()
        pieces, done = list[str](), 0
        for match in pattern.finditer(self.text):
            first, last = match.span()
            if (new := value(match)) != match[0]:
                pieces += self.text[done:first], new
                lengths[first:last] = 0
                lengths[first] = len(new)
                ends[first] = ends[last - 1]
                done = last
        text = "".join([*pieces, self.text[done:]])
        return AlignedText(
            self.source, text, numpy.stack([starts, ends], axis=1).repeat(lengths, axis=0)
        )

    @cached_property
    def index(self) -> TextIndex:
        return TextIndex(self.text)

    def source_span(self, start: int, end: int) -> Interval:
        """The characters of `source` for [start, end) of `text`; not empty."""
        return int(self.source_spans[start, 0]), int(self.source_spans[end - 1, 1])

    def span_of(self, interval: Interval) -> Interval:
        """The characters of `text` for these characters of `source`."""
        start, end = self.source_spans[:, 0].searchsorted(interval).tolist()
        return start, end

    def gap(self, index: int) -> str:
        """The characters of `source` between the ones before and at this position of `text`."""
        start = self.source_spans[index - 1, 1] if index else 0
        return self.source[start : self.source_spans[index, 0] if index < len(self.text) else None]

    def is_whole(self, start: int, end: int) -> bool:
        """Whether [start, end) of `text` cuts through no character of `source`."""
        edges = (place for place in (start, end) if 0 < place < len(self.text))
        starts = self.source_spans[:, 0]
        return all(starts[place - 1] != starts[place] for place in edges)


# Marks without meaning: link targets, rules and separator rows of tables, marks before a line.
_SILENT = re.compile(
    r"(?<=\])\([^()\s]*(?:\([^()\s]*\)[^()\s]*)*(?:\s+[\"'][^\"'\n]*[\"'])?\)"
    r"|^[ \t]*[|:=*_+-][ \t|:=*_+-]{2,}$"
    r"|^[ \t]*(?:(?:[-*+•‣◦]|\#{1,6}|>)[ \t]+|>)+",
    re.MULTILINE,
)
_MARKUP = frozenset("*_`~\\>[](){}\"'«»‹›„‚“”‘’´")
_DASHES = frozenset("-‐‑‒–—―−﹘﹣－")
_RAISED = ("<super>", "<sub>", "<fraction>")  # 10² is not 102
_LIKE_LETTERS = frozenset("%‰°#")
_SEPARATING = frozenset(" -.,:;/")


def _number_sign(separator: re.Match[str]) -> str:
    """The sign of the number that begins after these separators, or nothing."""
    text, start, end = separator.string, *separator.span()
    if not text[end : end + 1].isdecimal():
        return ""
    while start and text[start - 1] in _SEPARATING:
        start -= 1
    before, between = text[start - 1 : start], text[start:end]
    if before.isdigit():
        return between.strip()[:1] or " "
    return "-" if between.endswith("-") and (not before or between != "-") else ""


@cache
def _unified(character: str) -> str:
    """A character without case, with one kind of white space, of dashes and of quotes.

    It becomes several characters if it stands for several (an ellipsis, a ligature).
    """
    if character.isspace():
        return " "
    if character in _DASHES:
        return "-"
    if character in "«»„“”":
        return '"'
    if character in "‹›‚‘’´`":
        return "'"
    return unicodedata.normalize("NFKC", character).casefold()


@cache
def _letters_of(character: str) -> str:
    """A character's folded letters, or a separator; "" for mark-up."""
    if character.isspace() or character == "|":
        return " "
    if character in _DASHES:
        return "-"
    if character in _MARKUP or unicodedata.category(character) in ("Cf", "Cs"):
        return ""
    once = unicodedata.normalize("NFKD", character.casefold()).casefold()
    letters = unicodedata.normalize("NFKD", once)
    kept = "".join(letter if _is_kept(letter) else _separator(letter) for letter in letters)
    return f"^{kept}" if unicodedata.decomposition(character).startswith(_RAISED) else kept


def _is_kept(character: str) -> bool:
    category = unicodedata.category(character)
    return (
        character.isalnum()
        or category in ("Mn", "Mc", "Sc")
        or character in _LIKE_LETTERS
        or (category == "Sm" and character not in "|~<>−⁄")
    )


def _separator(character: str) -> str:
    if character.isspace():
        return " "
    return character if character in _SEPARATING else "."


_HEX = "[0-9a-fA-F]"
_ESCAPE = re.compile(
    rf"&(?:amp;)+|&(?:#\d{{1,7}}|#[xX]{_HEX}{{1,6}}|[A-Za-z][A-Za-z0-9]{{1,31}});"
    rf"|\\u[dD][89abAB]{_HEX}{{2}}\\u[dD][c-fC-F]{_HEX}{{2}}"
    rf"|\\(?:u{_HEX}{{4}}|U{_HEX}{{8}}|x{_HEX}{{2}}|\r?\n[ \t]*|[nrtbfvae0NLP_/\\\"' ])"
    r"|'{2,}|\"{2,}|(?:'\n[ \t]+'|\"\n[ \t]+\")"
)
# Escapes of JSON, Python and YAML that stand for another character.
_CHARACTERS = dict(zip("nrtbfvae0NLP_", "\n\r\t\b\f\v\a\x1b\0\x85\u2028\u2029\xa0", strict=True))
# How deep escapes within escapes are read.
_MAX_DEPTH = 8


def meaning(match: re.Match[str]) -> str:
    """The text of an escape sequence; empty between the pieces of a literal."""
    escape = match[0]
    if escape[0] == "&":
        return "&" if escape.startswith("&amp;") else html.unescape(escape)
    if escape[0] != "\\":
        return "" if "\n" in escape else escape[0]  # pieces of a Python literal, quotes in CSV
    kind = escape[1]
    if kind == "u":
        units = bytes.fromhex(escape.replace("\\u", ""))
        return units.decode("utf-16-be", "surrogatepass")
    if kind in "Ux":
        code = int(escape[2:], 16)
        return chr(code) if code <= sys.maxunicode else escape
    return "" if kind in "\r\n" else _CHARACTERS.get(kind, kind)


Integers: TypeAlias = NDArray[numpy.int64]

# Searching a short text is faster than indexing it.
_MIN_LENGTH = 32_768
_GRAM, _STRIDE = 16, 8
_COMMON = 64


class TextIndex:
    """A text in which many others are looked up by n-grams, with their places."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._ngrams = cache(self._indexed)

    def _indexed(self, length: int, stride: int) -> Mapping[str, Sequence[int]]:
        """The places of the n-grams that begin at multiples of the stride."""
        places: dict[str, list[int]] = {}
        for place in range(0, len(self.text) - length + 1, stride):
            places.setdefault(self.text[place : place + length], []).append(place)
        return places

    def hits(self, text: str, length: int, stride: int, most: int) -> Iterator[tuple[int, int]]:
        """Places of equal n-grams in another text and in this one, the rarest n-grams first.

        N-grams with more than 64 places are left out, and hits beyond `most`.
        """
        ngrams = self._ngrams(length, stride)
        places = [ngrams.get(text[at : at + length], ()) for at in range(len(text) - length + 1)]
        rare = [at for at, hits in enumerate(places) if 0 < len(hits) <= _COMMON]
        rare.sort(key=lambda at: len(places[at]))
        return islice(((at, place) for at in rare for place in places[at]), most)

    def find_all(self, needle: str) -> Iterator[int]:
        """The start of each place of the needle, ascending. Places do not overlap."""
        if len(self.text) < _MIN_LENGTH or len(needle) < _GRAM + _STRIDE:
            return find_all(self.text, needle)
        ngrams = self._ngrams(_GRAM, _STRIDE)
        places = [ngrams.get(needle[at : at + _GRAM], ()) for at in range(_STRIDE)]
        if any(len(hits) > _COMMON for hits in places):
            return find_all(self.text, needle)
        starts = sorted(place - at for at, hits in enumerate(places) for place in hits)
        return self._verified(needle, starts)

    def _verified(self, needle: str, starts: Iterable[int]) -> Iterator[int]:
        done = 0
        for start in starts:
            if start >= done and self.text.startswith(needle, start):
                yield start
                done = start + len(needle)


_MAX_PLACES = 64
# The text after a cut within a word, and the text before a passage without its beginning.
_CUT_AFTER = re.compile(r"[^\S\n]*(?:\Z|\n|…|\.\.|[\[\]<>(){}|\"”»*#=~])")
_CUT_BEFORE = re.compile(r"(?:\A|\n|…|\.\.|[\[\]<>(){}|\"“«*#=~])[^\S\n]*\Z")
_MAX_SPACE = 20
_BETWEEN_DIGITS = frozenset(".,:;/-")
_WITHIN_WORDS = frozenset("'’\u00ad\u200b\u200c\u200d\u2060\ufeff")


class CommonText(NamedTuple):
    """A run of characters that a document and the prompt have in common."""

    document_start: int
    prompt_start: int
    length: int

    @property
    def document_end(self) -> int:
        return self.document_start + self.length

    @property
    def prompt_end(self) -> int:
        return self.prompt_start + self.length

    @property
    def document_span(self) -> Interval:
        return self.document_start, self.document_end

    @property
    def prompt_span(self) -> Interval:
        return self.prompt_start, self.prompt_end


def common_runs(document: str, prompt: TextIndex, length: int, stride: int) -> Iterator[CommonText]:
    """Maximal common runs: all of at least `length` + `stride` - 1 characters, some shorter.

    A run is left out if every n-gram of this length has more than 64 places: such text is not
    specific to a document.
    """
    text = prompt.text
    hits = prompt.hits(document, length, stride, _MAX_PLACES * len(document))
    done: dict[int, int] = {}
    for at, place in sorted(hits):
        diagonal = place - at
        if at < done.get(diagonal, 0):
            continue
        before = Postfix.similarity(document[:at], text[max(0, diagonal) : place])
        after = shared_length(document[at:], text[place : diagonal + len(document)])
        done[diagonal] = at + after
        yield CommonText(at - before, place - before, before + after)


def at_words(document: AlignedText, prompt: AlignedText, run: CommonText) -> CommonText:
    """The run without incomplete words at its ends; empty if nothing remains.

    An incomplete word of the document stays if the prompt's text also ends there: at the end of a
    line, a quotation or an element, or before an ellipsis.
    """
    first, start, length = run
    while length and not _ends(document, prompt, first + length, start + length):
        length -= 1
    while length and not _begins(document, prompt, first, start):
        first, start, length = first + 1, start + 1, length - 1
    return CommonText(first, start, length)


def _ends(document: AlignedText, prompt: AlignedText, at: int, place: int) -> bool:
    if prompt.text[place - 1] == " " or not is_border(prompt, place):
        return False
    end = prompt.source_span(place - 1, place)[1]
    return is_border(document, at) or bool(_CUT_AFTER.match(prompt.source, end))


def _begins(document: AlignedText, prompt: AlignedText, at: int, place: int) -> bool:
    if prompt.text[place] == " " or not is_border(prompt, place):
        return False
    start = prompt.source_span(place, place + 1)[0]
    return is_border(document, at) or bool(
        _CUT_BEFORE.search(prompt.source[max(0, start - _MAX_SPACE) : start])
    )


def is_border(text: AlignedText, index: int) -> bool:
    """Whether this position is not inside a word, number or character.

    In scripts without spaces, every character is a word.
    """
    if not 0 < index < len(text.text):
        return True
    if " " in text.text[index - 1 : index + 1]:
        return True
    if not _BETWEEN_DIGITS.isdisjoint(text.text[index - 1 : index + 1]):
        return False
    if not text.is_whole(index, index):
        return False
    before, after = (text.source[text.source_spans[place, 0]] for place in (index - 1, index))
    if unicodedata.category(after)[0] == "M":
        return False
    return not _WITHIN_WORDS.issuperset(text.gap(index)) or num_unspaced(before + after) > 0


@dataclass(frozen=True)
class Location:
    """A place of a document in the prompt: characters [start, end) of the prompt.

    `offsets[i]` is the prompt's character for character `i` of the document; a last entry is for
    its end. Offsets never decrease. A part has only the characters `document_span` [start, end) of
    the document: characters before it map to `start`, characters after it to `end`. `is_escaped`
    says that the prompt has escape sequences for characters of the document.
    """

    start: int
    end: int
    offsets: Sequence[int]
    document_span: Interval | None = None
    is_escaped: bool = False

    def document_interval(self, start: int, end: int) -> Interval:
        """The document's characters for these characters of the prompt."""
        return self.document_offset(start), self.document_offset(end)

    def document_offset(self, prompt_offset: int) -> int:
        """The document's first character at or after this character of the prompt."""
        first, last = self.document_span or (0, len(self.offsets) - 1)
        return min(max(bisect_left(self.offsets, prompt_offset), first), last)

    def in_sources(self, document: AlignedText, prompt: AlignedText) -> Location:
        """The location mapped from two forms to their source texts."""
        start, end = prompt.source_span(self.start, self.end)
        indices = numpy.arange(len(document.source) + 1)
        characters = (document.source_spans[:, 0].searchsorted(indices, side="right") - 1).clip(0)
        places = numpy.asarray(self.offsets)[characters]
        starts, ends = prompt.source_spans[places.clip(max=len(prompt.source_spans) - 1)].T
        within = (indices - document.source_spans[characters, 0]).clip(0)
        offsets = numpy.minimum(starts + within, ends).clip(start, end)
        offsets[places == len(prompt.source_spans)] = end
        offsets[-1] = end
        span = document.source_span(*self.document_span) if self.document_span else None
        return Location(start, end, array("q", offsets.tobytes()), span)


# What closes the sentence before a part, and mark-up right before a word.
_CLOSING = re.compile(r"\A.*[\s.,;:!?…。、，！？]", re.DOTALL)
_OPENING = re.compile(r"(?<=\s)\S+\Z")
_WORD_START = re.compile(r"(?<=\s)\S")


def locate_passage(
    document: AlignedText, prompt: AlignedText, part: Interval, passage: Interval
) -> Location:
    """The location of a part of a document, [start, end) of its form, in a passage of the prompt.

    Common punctuation around both belongs to it. A word after white space begins with the opening
    mark-up that the prompt has before it.
    """
    lead = document.gap(part[0])
    lead = _CLOSING.sub("", lead) if part[0] else lead
    before = _claimed(lead[::-1], prompt.gap(passage[0])[::-1])
    after = _claimed(document.gap(part[1]), prompt.gap(passage[1]))
    first, last = document.source_span(*part)
    first, last = first - before[0], last + after[0]
    start, end = prompt.source_span(*passage)
    start, end = start - before[1], end + after[1]
    own, shown = document.source[first:last], prompt.source[start:end]
    places = range(len(own) + 1) if own == shown else places_in(_folded(shown), _folded(own))
    offsets = [start + place for place in places]
    for word in _WORD_START.finditer(own) if own != shown else ():
        index = word.start()
        if opening := _OPENING.search(shown, places[index - 1], places[index]):
            offsets[index] -= len(opening[0])
    around = [start] * first, [end] * (len(document.source) - last)
    return Location(start, end, array("q", around[0] + offsets + around[1]), (first, last))


def _folded(text: str) -> str:
    """The text with each character unified if the result is a single character."""
    alike = map(_unified, text)
    return "".join(x if len(x) == 1 else y for x, y in zip(alike, text, strict=True))


def _claimed(document: str, prompt: str) -> tuple[int, int]:
    """How many leading characters of both texts are common punctuation.

    The prompt may lack the document's characters (mark-up that was removed), but not the reverse.
    """
    ours, theirs = (
        [(mark, end) for end, character in enumerate(text, 1) for mark in _unified(character)]
        for text in (document, prompt)
    )
    step, claimed = 0, (0, 0)
    for character, end in theirs:
        while step < len(ours) and ours[step][0] != character:
            step += 1
        if step == len(ours):
            break
        if character != " ":
            claimed = ours[step][1], end
        step += 1
    return claimed


_FEW_EDITS = 64


def places_in(other: str, text: str) -> list[int]:
    """For each character of a text, and for its end, its place in another text.

    The alignment has the fewest edits. A replaced character maps to its replacement, a missing one
    to the next character. Time grows with the length times the number of edits.
    """
    places = [len(other)] * (len(text) + 1)
    for edit in Levenshtein.opcodes(text, other, score_hint=_FEW_EDITS):
        for index in range(edit.src_start, edit.src_end):
            places[index] = min(edit.dest_start + index - edit.src_start, edit.dest_end)
    return places
