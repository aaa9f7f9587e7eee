"""Lists of sources in an answer: lines that begin with markers and state nothing else."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise

from attribot_rag.cached_property import cached_property
from attribot_rag.context import Document
from attribot_rag.context.text import Interval, merge, overlapping, subtract, words
from attribot_rag.result.answer_text import IN_RUN, markdown, runs
from attribot_rag.verdicts.marker_syntax import (
    KnownLabels,
    WrittenMarker,
    called_label,
    is_number,
    name_in,
    names_of,
)

# What may stand before the marker with which a line begins: marks of lists, quotes, tables, bold.
_LEAD = r"[\s>|*+•·–—_#-]*(?:\d{1,3}[.)][ \t]+)?[*_]*"
_LEADS = re.compile(rf"{_LEAD}\Z")
_TITLED = re.compile(rf"{_LEAD}(?P<title>[^\W\d][^\n:：.!?\[\]]{{0,60}})[:：][*_]*\s*\Z")
# A label without brackets that begins a line: of a list that counts, or of a definition.
_BARE = re.compile(
    r"[\s>*+•–—_-]*(?:\[\^?(?P<defined>[^\]\n]+)\]:|\[(?P<missing>\d{1,3})\]|(?P<counted>\d{1,3})[.)])"
    r"\s+(?=\S)"
)
_LEAD_AT = re.compile(rf"\A{_LEAD}")
_SPACE = re.compile(r"\s*")
_CONTINUED = re.compile(r"(?:[ ]{2,}|\t)")
_ITEM = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)])\s")
_HEADING = re.compile(r"\s*(?:#{1,6}\s|(\*\*|__)[^*_]+\1[:：]?\s*\Z|<[^<>]+>\s*\Z)")
_COLON = re.compile(r"[:：][\s*_]*\Z")
_STOP = re.compile(r"[^\W\d_]{2}[.!?。！？।][\W]*\Z")
_QUOTED = re.compile(r"\"[^\"\n]*\"|“[^”\n]*”|„[^“”\n]*[“”]|«[^»\n]*»|「[^」\n]*」")
_IN_THE_END = re.compile(r"\s*\([^()\n]*\)\W*\Z")
_LEFT_OUT = re.compile(r"…|\.{3}")
_ADDRESS = re.compile(r"\w+://\S+|\]\([^()\s]*\)|\[\^?\d{1,3}\]")
_TAGS = re.compile(r"</?[a-z][^<>]*>", re.IGNORECASE)
_MAX_TITLE = 8  # words
_MIN_REPEATED = 5  # words
_REPEATED_SHARE = 0.75


@dataclass(frozen=True)
class SourceLists:
    """The lines of the lists, titles included, and the labels that they define.

    A definition says by a name of the prompt which document a label of the answer means. `missing`
    are markers of no document.
    """

    lines: tuple[Interval, ...] = ()
    missing: tuple[WrittenMarker, ...] = ()
    definitions: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def source_lists(
    response: str,
    markers: Sequence[WrittenMarker],
    known: KnownLabels,
    documents: Sequence[Document],
    json: Sequence[Interval] = (),
) -> SourceLists:
    """The lists of sources after what an answer states; none in its `json`.

    A run of lines that begin with markers is one if no line states something, and if it has a title
    or all its labels stand in the text before. So is a line of a few words, a colon and markers.
    """
    return _Lines(response, markers, known, documents, json).lists()


@dataclass(frozen=True)
class _Entry:
    """A line that begins with labels; `rest` is its text without them.

    It may have a title of its own, define a footnote, or begin with no more than a number.
    """

    labels: tuple[str, ...]
    rest: str
    is_titled: bool = False
    is_defined: bool = False
    is_counted: bool = False
    missing: WrittenMarker | None = None


@dataclass(frozen=True)
class _Lines:
    """The lines of an answer, read for lists."""

    response: str
    markers: Sequence[WrittenMarker]
    known: KnownLabels
    documents: Sequence[Document]
    json: Sequence[Interval]

    def lists(self) -> SourceLists:
        lines: list[Interval] = []
        missing: list[WrittenMarker] = []
        definitions: dict[str, tuple[int, ...]] = {}
        for first, last in self._runs():
            entries = [self._entries[i] for i in range(first, last) if i in self._entries]
            begin = self._title(first)
            if not self._is_list(entries, begin, first):
                continue
            shown = [self._starts[i] for i in range(begin, last) if self._line(i).strip()]
            space = _SPACE.match(self.response, self._starts[last])
            lines += pairwise([*shown, space.end() if space else self._starts[last]])
            for entry in entries:
                missing += [entry.missing] if entry.missing else []
                if meant := self._meant(entry):
                    own = (x for x in entry.labels if is_number(x) or not self.known.has(x))
                    definitions.update((label.casefold(), meant) for label in own)
        return SourceLists(tuple(sorted(lines)), tuple(missing), definitions)

    @cached_property
    def _starts(self) -> tuple[int, ...]:
        return (*markdown(self.response).line_starts, len(self.response))

    @cached_property
    def _spans(self) -> list[Interval]:
        return [marker.span for marker in self.markers]

    def _line(self, index: int) -> str:
        return self.response[self._starts[index] : self._starts[index + 1]]

    @cached_property
    def _entries(self) -> dict[int, _Entry]:
        others = merge([*markdown(self.response).code_blocks, *self.json])
        return {
            index: entry
            for index, (start, end) in enumerate(pairwise(self._starts))
            if start < end
            and not overlapping(others, (start, end))
            and (entry := self._entry(start, end))
        }

    def _entry(self, start: int, end: int) -> _Entry | None:
        text = self.response
        edges = (bisect_left(self._spans, (edge, edge)) for edge in (start, end))
        markers = self.markers[slice(*edges)]
        spans = [marker.span for marker in markers]
        if spans:
            before = text[start : spans[0][0]]
            leads, titled = _LEADS.match(before), _TITLED.match(before)
            if not leads and not (titled and len(words(titled["title"])) <= _MAX_TITLE // 2):
                return None
            own = runs(text, spans, IN_RUN)[0] if leads else spans
            labels = (*chain(*(marker.labels for marker in markers[: len(own)])),)
            rest = "".join(text[slice(*part)] for part in subtract((own[0][0], end), own))
            is_defined = text.startswith("[^", own[0][0]) and text.startswith(":", own[-1][1])
            return _Entry(labels, rest, is_titled=not leads, is_defined=is_defined)
        if bare := _BARE.match(text, start, end):
            label = bare["defined"] or bare["missing"] or bare["counted"]
            first, last = bare.span("missing")
            missing = WrittenMarker(first - 1, last + 1, (label,)) if bare["missing"] else None
            rest, is_counted = text[bare.end() : end], bare["counted"] is not None
            return _Entry((label,), rest, is_counted=is_counted, missing=missing)
        line = _LEAD_AT.sub("", text[start:end])
        if called := called_label(line, self.known):
            return _Entry(called.labels, line[called.end :])
        name = line.strip("\\*_`|\n ")
        address = name if self.known.has(name) else self.known.of_address(name)
        return _Entry((address,), "") if address and not is_number(address) else None

    def _meant(self, entry: _Entry) -> tuple[int, ...]:
        """The documents that a line means by a name of theirs, or by a quotation."""
        names = (label for label in entry.labels if not is_number(label))
        name = name_in(entry.rest, self.known) or next(filter(self.known.has, names), None)
        return self.known.of_label(name) if name else self._titled(entry) or self._quoted(entry)

    def _titled(self, entry: _Entry) -> tuple[int, ...]:
        """The documents with whose title a line begins: of several titles, the longest."""
        by_title: dict[str, list[int]] = defaultdict(list)
        for index, document in enumerate(self.documents):
            for name in names_of(document):
                by_title[name].append(index)
        for name in sorted(by_title, key=len, reverse=True):
            if re.match(rf"[\W_]*{re.escape(name)}\s*(?:[^\w\s]|\Z)", entry.rest, re.IGNORECASE):
                return tuple(by_title[name])
        return ()

    def _quoted(self, entry: _Entry) -> tuple[int, ...]:
        """The documents that have a line's quotation, or all of the line, word for word."""
        rest = _IN_THE_END.sub("", entry.rest)
        quotes = [quote[0] for quote in _QUOTED.finditer(rest)] or [rest]
        parts = [words(part.casefold()) for quote in quotes for part in _LEFT_OUT.split(quote)]
        if sum(map(len, parts)) < _MIN_REPEATED:
            return ()
        return tuple(
            index
            for index, text in enumerate(self._said_by_documents)
            if all(f" {' '.join(part)} " in text for part in parts if part)
        )

    @cached_property
    def _said_by_documents(self) -> list[str]:
        return [f" {' '.join(words(document.text.casefold()))} " for document in self.documents]

    def _runs(self) -> Iterator[Interval]:
        """Lines [first, last) that begin with labels, with blank and continued lines between."""
        run: list[int] = []
        for index in range(len(self._starts) - 1):
            entry, line = self._entries.get(index), self._line(index)
            goes_on = bool(run and line.strip() and _CONTINUED.match(line))
            if (goes_on and not entry) or (entry and not (run and entry.is_titled)):
                run.append(index)
            elif run and (entry or self._says(index)):
                yield run[0], run[-1] + 1
                run = [index] if entry else []
        if run:
            yield run[0], run[-1] + 1

    def _says(self, index: int) -> bool:
        """Whether a line has words, its tags aside."""
        return any(map(str.isalnum, _TAGS.sub("", self._line(index))))

    def _title(self, first: int) -> int:
        """The line in which the title above a list begins; the list's first without one."""
        begin = first
        for index in range(first - 1, -1, -1):
            line = self._line(index)
            if not self._says(index) and not _HEADING.match(line):
                continue
            begin = index if self._is_title(index) else begin
            if begin > index or not line.lstrip().startswith("|"):
                break
        return begin

    def _is_title(self, index: int) -> bool:
        line = self._line(index)
        if overlapping(self._spans, (self._starts[index], self._starts[index + 1])):
            return False
        if len(words(line)) > _MAX_TITLE or (_STOP.search(line) and not _COLON.search(line)):
            return False
        if line.startswith("<"):
            return self.known.is_called(line)
        if _HEADING.match(line) or _COLON.search(line) or line.lstrip().startswith("|"):
            return True
        is_alone = index == 0 or not self._says(index - 1)
        return is_alone and not _ITEM.match(line) and len(words(line)) <= _MAX_TITLE // 2

    def _is_list(self, entries: Sequence[_Entry], begin: int, first: int) -> bool:
        stated = (
            self._states(self._entries[i]) if i in self._entries else self._says(i)
            for i in range(begin)
        )
        if not any(stated):
            return False
        start = self._starts[begin]
        cited = {x.casefold() for m in self.markers if m.start < start for x in m.labels}
        is_called = any(self.known.is_called(self._line(i)) for i in range(begin, first))
        for entry in entries:
            is_cited = bool(entry.labels) and all(x.casefold() in cited for x in entry.labels)
            is_sure = begin < first or entry.is_titled
            is_title = is_sure or (entry.is_defined and is_cited)
            is_named = is_called or not entry.is_counted or name_in(entry.rest, self.known)
            if not (is_named and (is_sure or is_cited)):
                return False
            is_quotation = entry.is_defined and is_cited and self._quoted(entry)
            if not is_quotation and self._states(entry, is_sure=is_title, is_cited=is_cited):
                return False
        return True

    def _states(self, entry: _Entry, *, is_sure: bool = False, is_cited: bool = False) -> bool:
        """Whether the text beside the labels states something, where a title would not."""
        shown = _QUOTED.sub(" ", _ADDRESS.sub(" ", _TAGS.sub(" ", entry.rest)))
        said = words(shown.casefold())
        of = [i for label in entry.labels for i in self.known.of_label(label)]
        titles = (words(self.documents[i].title.casefold()) for i in of)
        if not said or said in titles:
            return False
        held = {word for i in of for word in words(self.documents[i].text.casefold())}
        share = sum(word in held for word in said) / len(said)
        if len(said) >= (_MIN_REPEATED if is_cited else 2) and share >= _REPEATED_SHARE:
            return True
        return not is_sure and len(said) > 2 and _STOP.search(shown) is not None
