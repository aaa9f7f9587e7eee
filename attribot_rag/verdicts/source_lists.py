"""Lists of sources in an answer: lines that begin with markers and state nothing else."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise

from attribot_rag.cached_property import cached_property
from attribot_rag.context import Document
from attribot_rag.context.intervals import Interval, at, overlapping, subtract
from attribot_rag.context.words import words
from attribot_rag.result.segments import markdown
from attribot_rag.verdicts.marker_syntax import (
    KnownLabels,
    WrittenMarker,
    called_label,
    is_number,
    name_in,
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
) -> SourceLists:
    """The lists of sources after what an answer states.

    A run of lines that begin with markers is one if no line states something, and if it has a title
    or all its labels stand in the text before. So is a line of a few words, a colon and markers.
    """
    return _Lines(response, markers, known, documents).lists()


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
    missing: Interval = (-1, -1)


@dataclass(frozen=True)
class _Lines:
    """The lines of an answer, read for lists."""

    response: str
    markers: Sequence[WrittenMarker]
    known: KnownLabels
    documents: Sequence[Document]

    def lists(self) -> SourceLists:
        lines: list[Interval] = []
        missing: list[WrittenMarker] = []
        definitions: dict[str, tuple[int, ...]] = {}
        for first, last in self._runs():
            entries = {i: entry for i in range(first, last) if (entry := self._entries.get(i))}
            title = self._title(first)
            begin = title[0] if title else first
            if not self._is_list([*entries.values()], title, begin):
                continue
            shown = [self._starts[i] for i in range(begin, last) if self._line(i).strip()]
            space = _SPACE.match(self.response, self._starts[last])
            lines += pairwise([*shown, space.end() if space else self._starts[last]])
            for entry in entries.values():
                if entry.missing[1] > 0:
                    missing.append(
                        WrittenMarker(entry.missing[0] - 1, entry.missing[1] + 1, entry.labels)
                    )
                name = name_in(entry.rest, self.known)
                if name is not None:
                    meant = self.known.of_label(name)
                    definitions.update((label.casefold(), meant) for label in entry.labels)
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
        code = markdown(self.response).code_blocks
        found = {}
        for index in range(len(self._starts) - 1):
            start, end = self._starts[index], self._starts[index + 1]
            entry = None if at(code, start) or start == end else self._entry(start, end)
            if entry is not None:
                found[index] = entry
        return found

    def _entry(self, start: int, end: int) -> _Entry | None:
        text = self.response
        edges = (bisect_left(self._spans, (edge, edge)) for edge in (start, end))
        markers = self.markers[slice(*edges)]
        spans = [marker.span for marker in markers]
        if spans and _LEADS.match(text[start : spans[0][0]]):
            num_first = 1
            for (_, done), (begin, _) in pairwise(spans):
                if text[done:begin].strip(" ,;\t"):
                    break
                num_first += 1
            after = spans[num_first - 1][1]
            is_defined = text.startswith("[^", spans[0][0]) and text.startswith(":", after)
            labels = (*chain(*(marker.labels for marker in markers[:num_first])),)
            return _Entry(labels, text[after:end], is_defined=is_defined)
        titled = _TITLED.match(text[start : spans[0][0]]) if spans else None
        if titled and len(words(titled["title"])) <= _MAX_TITLE // 2:
            after_title = subtract((spans[0][0], end), spans)
            labels = (*chain(*(marker.labels for marker in markers)),)
            return _Entry(labels, "".join(text[a:b] for a, b in after_title), is_titled=True)
        if spans:
            return None
        if bare := _BARE.match(text, start, end):
            own = bare["defined"] or bare["missing"] or bare["counted"]
            rest, is_counted = text[bare.end() : end], bare["counted"] is not None
            return _Entry((own,), rest, is_counted=is_counted, missing=bare.span("missing"))
        line = _LEAD_AT.sub("", text[start:end])
        if called := called_label(line, self.known):
            return _Entry(called.labels, line[called.end :])
        name = line.strip("\\*_`|\n ")
        address = name if self.known.has(name) else self.known.of_address(name)
        return _Entry((address,), "") if address and not is_number(address) else None

    def _runs(self) -> Iterator[Interval]:
        """Lines [first, last) that begin with labels, with blank and continued lines between."""
        first = last = -1
        for index in range(len(self._starts) - 1):
            if index in self._entries:
                if first < 0 or self._entries[index].is_titled:
                    if first >= 0:
                        yield first, last
                    first = index
                last = index + 1
            elif first >= 0 and _CONTINUED.match(self._line(index)) and self._line(index).strip():
                last = index + 1
            elif first >= 0 and self._says(index):
                yield first, last
                first = -1
        if first >= 0:
            yield first, last

    def _says(self, index: int) -> bool:
        """Whether a line has words, its tags aside."""
        return any(map(str.isalnum, _TAGS.sub("", self._line(index))))

    def _title(self, first: int) -> list[int]:
        """The lines of the title above a list, with what stands between; empty without one."""
        lines: list[int] = []
        for index in range(first - 1, -1, -1):
            line = self._line(index)
            if not self._says(index) and not _HEADING.match(line):
                continue
            if not self._is_title(index):
                break
            lines = list(range(index, first))
            if not line.lstrip().startswith("|"):
                break
        return lines

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

    def _is_list(self, entries: Sequence[_Entry], title: Sequence[int], begin: int) -> bool:
        stated = (
            self._states(self._entries[i]) if i in self._entries else self._says(i)
            for i in range(begin)
        )
        if not any(stated):
            return False
        start = self._starts[begin]
        cited = {x.casefold() for m in self.markers if m.start < start for x in m.labels}
        is_called = any(self.known.is_called(self._line(index)) for index in title)
        for entry in entries:
            is_cited = bool(entry.labels) and all(x.casefold() in cited for x in entry.labels)
            is_sure = bool(title) or entry.is_titled
            if entry.is_counted and not (is_called or name_in(entry.rest, self.known)):
                return False
            is_title = is_sure or (entry.is_defined and is_cited)
            if self._states(entry, is_sure=is_title, is_cited=is_cited):
                return False
            if not (is_sure or is_cited):
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
