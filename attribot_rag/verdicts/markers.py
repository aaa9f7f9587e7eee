"""The citation markers of an answer: in its text, its lists of sources, its fields."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise

from attribot_rag.cached_property import cached_property
from attribot_rag.context import Context, Document
from attribot_rag.context.splitting.blocks import json_in, json_values
from attribot_rag.context.text import Interval, at, merge, overlapping, same_word, subtract, words
from attribot_rag.result import Marker
from attribot_rag.result.answer_text import (
    IN_RUN,
    AnswerMarks,
    adjacent_groups,
    markdown,
    markers_lead,
)
from attribot_rag.verdicts.marker_syntax import (
    KnownLabels,
    WrittenMarker,
    called_label,
    candidates,
    is_number,
    is_power,
    labels_in,
    name_in,
    names_of,
    private_signs,
)

_OPENED = re.compile(
    r"<(?P<tag>[a-z]\w*)(?:\s[^<>]*)?>\Z|(?P<same>\*{1,3}|_{1,3}|~~|\^)\Z", re.IGNORECASE
)
_RAISED_NUMBER = re.compile(r"<sup[^<>]*>\s*\d", re.IGNORECASE)
_MAX_TAG = 200
_INDEXED = re.compile(r"[^\W\d]\w*\Z")
_WORD_BEFORE = re.compile(r"\w+(?=\W*\Z)")
_MAX_WORD = 40
_MAX_RUN = 10
_MAX_TITLE_WORDS = 8  # of a title above a list of sources
_MIN_QUOTED_WORDS = 5  # of a line in such a list that may be a quotation
_MIN_REPEATED = 0.75  # share of a line's words in the document, from which it repeats the document


@dataclass(frozen=True)
class MarkedAnswer:
    """The markers of an answer, in order, and all its text that states nothing."""

    markers: tuple[WrittenMarker, ...] = ()
    marks: AnswerMarks = field(default_factory=AnswerMarks)


def read_markers(response: str, known: KnownLabels, documents: Sequence[Document]) -> MarkedAnswer:
    """The markers in a response.

    Text in brackets is a marker if it is a label of the prompt, if it is called a source or the
    like, or if another marker stands right before it. Next to a label, a number of no document is a
    label too. Code, text right after a name or a bracket (`items[1]`), and text copied from a
    document have no markers. Values of JSON and elements are markers if they are labels. These
    belong to the values around them, and a list of sources to the whole answer.
    """
    json = [
        span
        for span in json_in(response, 0, len(response))
        if not any(map(known.has, labels_in(response[slice(*span)], known)))
    ]
    fields, in_fields = json_fields(response, json, known, documents)
    written = _with_markup(response, _written(response, known, documents, json))
    in_text = (marker for marker in written if not at(fields, marker.start))
    markers = sorted([*in_text, *in_fields], key=lambda marker: marker.start)
    lists = _Lines(response, markers, known, documents, json).lists()
    markers = sorted([*markers, *lists.missing], key=lambda marker: marker.start)
    spans = [marker.span for marker in markers]
    tags = tag_pairs(response, spans, merge([*json, *markdown(response).code]))
    defined, in_lists = known.redefined(lists.definitions), merge(lists.lines)
    whole = (0, len(response))
    markers = [
        replace(
            marker,
            documents=tuple(map(defined.of_label, marker.labels)),
            scopes=(whole,) if at(in_lists, marker.start) else _scopes(marker, json, tags, whole),
        )
        for marker in markers
    ]
    leading = _leading(response, markers, lists.lines, documents)
    signs = (span for span in private_signs(response) if not overlapping(spans, span))
    closing = (tag for _, tag in tags if not at(spans, tag[0]))
    return MarkedAnswer(
        tuple(markers),
        AnswerMarks(
            trailing=sorted(({*spans} - leading).union(closing, signs)),
            leading=sorted(leading.union(tag for tag, _ in tags)),
            lists=lists.lines,
            json=json,
            fields=fields,
        ),
    )


def _scopes(
    marker: WrittenMarker,
    json: Sequence[Interval],
    tags: Sequence[tuple[Interval, Interval]],
    whole: Interval,
) -> tuple[Interval, ...]:
    """The texts that a marker is about, the smallest first: for an element, those around it."""
    if not marker.scopes or at(json, marker.start):
        return marker.scopes
    elements = ((opening[0], closing[1]) for opening, closing in tags)
    around = (span for span in elements if span[0] < marker.start and marker.end < span[1])
    return (*sorted(around, key=lambda span: span[1] - span[0]), whole)


def _leading(
    response: str,
    markers: Sequence[WrittenMarker],
    lists: Sequence[Interval],
    documents: Sequence[Document],
) -> set[Interval]:
    """The markers in the text, if they stand before their sentences; else none."""
    in_text = [marker for marker in markers if not marker.scopes]
    texts = [" ".join(documents[i].text for i in {*chain(*marker.documents)}) for marker in in_text]
    spans = [marker.span for marker in in_text]
    last_end = in_text[-1].end if in_text else 0
    end = next((start for start, _ in lists if start >= last_end), len(response))
    return {*spans} if markers_lead(response[:end], spans, texts) else set()


def _written(
    response: str, known: KnownLabels, documents: Sequence[Document], json: Sequence[Interval]
) -> list[WrittenMarker]:
    code = markdown(response).code
    leaves = (leaf for span in json for leaf in json_values(response, *span))
    strings = [leaf.span("string") for leaf in leaves if leaf["string"] is not None]
    markers: list[WrittenMarker] = []
    is_usual = known.are_written
    for found in candidates(response, known):
        start, end = found.start, found.end
        if not at(strings, start) if at(json, start) else at(code, start):
            continue
        follows_another = bool(markers) and markers[-1].end == start
        are_known = [known.has(label) for label in found.labels]
        is_known = all(are_known) or (is_usual and any(are_known) and not found.is_raised)
        is_known = is_known and not _is_index(response, start, end)
        if markers and start < markers[-1].end:
            continue
        latest = [*(marker.span for marker in markers[-_MAX_RUN:]), (start, end)]
        run = adjacent_groups(response, latest, IN_RUN)[-1][0][0]
        is_label = found.labels and (follows_another or found.is_called or is_known)
        if is_label and not _is_copied(response, run, end, documents):
            is_usual = is_usual or is_known
            scopes = ((start, end),) if found.is_field else ()
            markers.append(WrittenMarker(start, end, found.labels, scopes=scopes))
    return markers


def _with_markup(response: str, markers: Sequence[WrittenMarker]) -> Iterator[WrittenMarker]:
    """The markers with the mark-up around each marker, or around several neighbours."""
    spans: list[Interval] = []
    around = (_around(response, *marker.span) for marker in markers)
    for run in adjacent_groups(response, around, IN_RUN):
        start, end = _around(response, run[0][0], run[-1][1])
        run[0] = start, run[0][1]
        run[-1] = run[-1][0], end
        spans += run
    for marker, (start, end) in zip(markers, spans, strict=True):
        yield replace(marker, start=start, end=end)


def _around(response: str, start: int, end: int) -> tuple[int, int]:
    """[start, end) with the tags and marks that open right before it and close after it."""
    while opened := _OPENED.search(response[max(0, start - _MAX_TAG) : start]):
        closing = f"</{opened['tag']}>" if opened["tag"] else opened["same"]
        if not response.startswith(closing, end):
            break
        start, end = start - len(opened[0]), end + len(closing)
    return start, end


def _is_index(response: str, start: int, end: int) -> bool:
    """Whether plain brackets follow a name or a bracket, as an index in code does.

    So does a power (`m<sup>2</sup>`). A word of a script without capitals is no name, because such
    scripts need no space before a marker.
    """
    if response[start] not in "[(<" or response[start + 1] == "^" or not start:
        return False
    if response[start] == "<":
        return _RAISED_NUMBER.match(response, start) is not None and is_power(response, start)
    if _around(response, start, end) != (start, end):
        return False
    before = response[start - 1]
    if before in ")]}":
        return True
    word = _INDEXED.search(response, max(0, start - _MAX_WORD), start)
    return word is not None and (
        before == "_" or before.isdigit() or before.lower() != before.upper()
    )


def _is_copied(response: str, start: int, end: int, documents: Sequence[Document]) -> bool:
    """Whether a document has the same markers after the same word."""
    marked = response[start:end]
    brackets = marked.split()
    holding = [document.text for document in documents if brackets[-1] in document.text]
    if not holding:
        return False
    word = _WORD_BEFORE.search(response, max(0, start - _MAX_WORD), start)
    if word is None:
        return any(text.lstrip().startswith(marked) for text in holding)
    pattern = re.compile(
        rf"\b{re.escape(word[0])}[^\w\[\]\n]*" + r"\s*".join(map(re.escape, brackets))
    )
    return any(pattern.search(text) for text in holding)


def markers_in(response: str, context: Context) -> MarkedAnswer:
    """The markers in a response to a prompt with these documents."""
    return read_markers(response, KnownLabels.of(context), context.documents)


def markers_of(
    markers: Iterable[WrittenMarker],
    supports: Callable[[int], bool | None] = lambda document: None,
) -> tuple[Marker, ...]:
    """The markers with their documents. `supports` audits one document."""
    return tuple(
        Marker(
            start=marker.start,
            end=marker.end,
            label=label,
            number=int(label) if label.isdecimal() else None,
            document=document,
            supported=supported,
        )
        for marker in markers
        for label, documents in zip(marker.labels, marker.documents, strict=True)
        for document, supported in [_audited(documents, supports)]
    )


def _audited(
    documents: Sequence[int], supports: Callable[[int], bool | None]
) -> tuple[int | None, bool | None]:
    """The first document of a label that supports the marked text, or else the first one."""
    audits = []
    for document in documents:
        audits.append(supports(document))
        if audits[-1]:
            return document, True
    return next(iter(documents), None), None if None in audits or not audits else False


# Marks that may stand before a marker at the beginning of a line: lists, quotes, tables, bold.
_LEAD = r"[\s>|*+•·–—_#-]*(?:\d{1,3}[.)][ \t]+)?[*_]*"
_LEADS = re.compile(rf"{_LEAD}\Z")
_TITLED = re.compile(rf"{_LEAD}(?P<title>[^\W\d][^\n:：.!?\[\]]{{0,60}})[:：][*_]*\s*\Z")
# A label without brackets that begins a line: in a numbered list, or in a definition.
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


@dataclass(frozen=True)
class SourceLists:
    """The lines of the lists, with titles, and the labels that they define.

    A definition says by a name in the prompt which document a label of the answer means. `missing`
    are markers of no document.
    """

    lines: tuple[Interval, ...] = ()
    missing: tuple[WrittenMarker, ...] = ()
    definitions: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Entry:
    """A line that begins with labels. `rest` is its text without them.

    It may have its own title, define a footnote, or begin with only a number.
    """

    labels: tuple[str, ...]
    rest: str
    is_titled: bool = False
    is_defined: bool = False
    is_counted: bool = False
    missing: WrittenMarker | None = None


@dataclass(frozen=True)
class _Lines:
    """The lines of an answer, read for lists of sources; none in its `json`."""

    response: str
    markers: Sequence[WrittenMarker]
    known: KnownLabels
    documents: Sequence[Document]
    json: Sequence[Interval]

    def lists(self) -> SourceLists:
        """The lists of sources after the statements of the answer.

        Neighbouring lines that begin with markers are a list if no line states something, and if
        the list has a title or the text before it has all its labels. So is a line of a few words,
        a colon and markers.
        """
        lines: list[Interval] = []
        missing: list[WrittenMarker] = []
        definitions: dict[str, tuple[int, ...]] = {}
        for first, last in self._line_groups():
            entries = [self._entries[i] for i in range(first, last) if i in self._entries]
            begin = self._title(first)
            if not self._is_list(entries, begin, first):
                continue
            shown = [self._starts[i] for i in range(begin, last) if self._line(i).strip()]
            space = _SPACE.match(self.response, self._starts[last])
            lines += pairwise([*shown, space.end() if space else self._starts[last]])
            for entry in entries:
                if entry.missing:
                    missing.append(entry.missing)
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
            if not leads and not (titled and len(words(titled["title"])) <= _MAX_TITLE_WORDS // 2):
                return None
            own = adjacent_groups(text, spans, IN_RUN)[0] if leads else spans
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
        """The documents that a line means, by their name or by a quotation."""
        names = (label for label in entry.labels if not is_number(label))
        name = name_in(entry.rest, self.known) or next(filter(self.known.has, names), None)
        return self.known.of_label(name) if name else self._titled(entry) or self._quoted(entry)

    def _titled(self, entry: _Entry) -> tuple[int, ...]:
        """The documents whose title begins the line; of several titles, the longest."""
        by_title: dict[str, list[int]] = defaultdict(list)
        for index, document in enumerate(self.documents):
            for name in names_of(document):
                by_title[name].append(index)
        for name in sorted(by_title, key=len, reverse=True):
            if re.match(rf"[\W_]*{re.escape(name)}\s*(?:[^\w\s]|\Z)", entry.rest, re.IGNORECASE):
                return tuple(by_title[name])
        return ()

    def _quoted(self, entry: _Entry) -> tuple[int, ...]:
        """The documents that have a line's quotation, or the whole line, word for word."""
        rest = _IN_THE_END.sub("", entry.rest)
        quotes = [quote[0] for quote in _QUOTED.finditer(rest)] or [rest]
        parts = [words(part.casefold()) for quote in quotes for part in _LEFT_OUT.split(quote)]
        if sum(map(len, parts)) < _MIN_QUOTED_WORDS:
            return ()
        return tuple(
            index
            for index, text in enumerate(self._said_by_documents)
            if all(f" {' '.join(part)} " in text for part in parts if part)
        )

    @cached_property
    def _said_by_documents(self) -> list[str]:
        return [f" {' '.join(words(document.text.casefold()))} " for document in self.documents]

    def _line_groups(self) -> Iterator[Interval]:
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
        """Whether a line has words, without its tags."""
        return any(map(str.isalnum, _TAGS.sub("", self._line(index))))

    def _title(self, first: int) -> int:
        """The line in which the title above a list begins; without one, the list's first line."""
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
        if len(words(line)) > _MAX_TITLE_WORDS or (_STOP.search(line) and not _COLON.search(line)):
            return False
        if line.startswith("<"):
            return self.known.is_called(line)
        if _HEADING.match(line) or _COLON.search(line) or line.lstrip().startswith("|"):
            return True
        is_alone = index == 0 or not self._says(index - 1)
        return is_alone and not _ITEM.match(line) and len(words(line)) <= _MAX_TITLE_WORDS // 2

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
        """Whether the text next to the labels states something, and is not just a title."""
        shown = _QUOTED.sub(" ", _ADDRESS.sub(" ", _TAGS.sub(" ", entry.rest)))
        said = words(shown.casefold())
        indices = [i for label in entry.labels for i in self.known.of_label(label)]
        titles = (words(self.documents[i].title.casefold()) for i in indices)
        if not said or said in titles:
            return False
        repeated = {word for i in indices for word in words(self.documents[i].text.casefold())}
        share = sum(word in repeated for word in said) / len(said)
        if len(said) >= (_MIN_QUOTED_WORDS if is_cited else 2) and share >= _MIN_REPEATED:
            return True
        return not is_sure and len(said) > 2 and _STOP.search(shown) is not None


_TOKEN = re.compile(
    r'"(?P<string>(?:[^"\\]|\\.)*)"(?P<key>\s*:)?|(?P<open>[{\[])|(?P<close>[}\]])'
    r"|(?P<scalar>-?\d[\d.eE+-]*|true|false)"
)
_STATES = re.compile(r"[.!?。！？।]\W*\Z")


@dataclass
class _Container:
    """An object or a list of JSON, with the key that it is the value of."""

    start: int
    end: int
    key: str
    is_list: bool


@dataclass(frozen=True)
class _Value:
    """A string, number or truth value of JSON, at `leaf`, with its quotes.

    `keys` are its own key and those `around` it, innermost first.
    """

    leaf: Interval
    text: str
    is_string: bool
    keys: tuple[str, ...]
    around: Sequence[_Container]

    @property
    def in_list(self) -> bool:
        return bool(self.around) and self.around[0].is_list


def json_fields(
    response: str, spans: Sequence[Interval], known: KnownLabels, documents: Sequence[Document]
) -> tuple[list[Interval], list[WrittenMarker]]:
    """The values of JSON that state nothing, and the markers among them.

    A key that is called a source or the like has labels if one of its values is a label. So does
    any key whose values are all names of documents, marked as labels, or lists of their numbers,
    unless a document uses the key. Other values in an object with a label state nothing, unless
    they are sentences. JSON with only labels, and no key that says so, states them.
    """
    fields: list[Interval] = []
    markers: list[WrittenMarker] = []
    for span in spans:
        by_key: dict[str, list[_Value]] = defaultdict(list)
        values = _values(response, *span)
        for value in values:
            called = next((key for key in reversed(value.keys) if known.is_called(key)), None)
            by_key[called or next(iter(value.keys), "")].append(value)
        told = {
            value.leaf: _labels(value, known)
            for key, of_key in by_key.items()
            if _have_labels(key, of_key, known, documents)
            for value in of_key
            if not _STATES.search(value.text) or _labels(value, known)
        }
        if len(told) == len(values) and not any(map(known.is_called, by_key)):
            continue
        fields += told
        marked: set[int] = set()
        for value in values:
            labels = told.get(value.leaf, ())
            if labels and (value.in_list or value.around[0].start not in marked):
                marked.add(value.around[0].start)
                scopes = ((outer.start, outer.end) for outer in value.around)
                start, end = value.leaf[0] + value.is_string, value.leaf[1] - value.is_string
                markers.append(WrittenMarker(start, end, labels, scopes=(*scopes, span)))
    return sorted(fields), markers


def _have_labels(
    key: str, values: Sequence[_Value], known: KnownLabels, documents: Sequence[Document]
) -> bool:
    """Whether the values of a key are labels."""
    are_known = [any(map(known.has, _labels(value, known))) for value in values]
    are_numbers = [not value.is_string for value in values]
    if known.is_called(key):
        is_count = known.is_count(key) and not any(value.in_list for value in values)
        return not is_count if all(are_numbers) else any(are_known)
    if not all(are_known):
        return False
    if not any(are_numbers):
        return not any(is_number(value.text.strip()) for value in values)
    used = {word for document in documents for word in words(document.text.casefold())}
    is_used = any(same_word(word, part) for word in used for part in words(key.casefold()))
    return all(value.in_list for value in values) and not is_used


def _labels(value: _Value, known: KnownLabels) -> tuple[str, ...]:
    if value.is_string:
        return labels_in(value.text, known)
    return (value.text,) if is_number(value.text) else ()


def _values(text: str, first: int, last: int) -> list[_Value]:
    values: list[_Value] = []
    opened: list[_Container] = []
    key = ""
    for token in _TOKEN.finditer(text, first, last):
        if token["open"]:
            opened.append(_Container(token.start(), last, key, token["open"] == "["))
        elif token["close"] and opened:
            opened.pop().end = token.end()
        elif token["scalar"] or (not token["key"] and (token["string"] or "").strip()):
            around = opened[::-1]
            keys = (*filter(None, (key, *(outer.key for outer in around))),)
            text_of = token["scalar"] or token["string"]
            values.append(_Value(token.span(), text_of, not token["scalar"], keys, around))
        key = token["string"] if token["key"] else ""
    return values


_MAX_OPEN = 50
_TAG = re.compile(r"<(?P<closing>/?)(?P<name>[a-z][\w.-]*)(?P<rest>[^<>]*)>", re.IGNORECASE)


def tag_pairs(
    response: str, markers: Sequence[Interval], others: Sequence[Interval]
) -> list[tuple[Interval, Interval]]:
    """The tags that open and close elements of any name; none in `others`, such as code.

    Markers contain none, but a marker may be the tag that closes an element.
    """
    opened: list[re.Match[str]] = []
    pairs: list[tuple[Interval, Interval]] = []
    for tag in _TAG.finditer(response):
        inside = at(markers, tag.start())
        is_within = at(others, tag.start()) or (inside and inside[0][0] != tag.start())
        if is_within or tag["rest"].endswith("/"):
            continue
        if not tag["closing"]:
            opened = [*opened[-_MAX_OPEN:], tag] if not inside else opened
            continue
        index = next(
            (i for i in reversed(range(len(opened))) if opened[i]["name"] == tag["name"]), None
        )
        if index is not None:
            pairs.append((opened[index].span(), tag.span()))
            del opened[index:]
    return pairs
