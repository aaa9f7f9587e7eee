"""The citations of each sentence, and where they are in the text that is shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from rapidfuzz.distance import Levenshtein

from attribot_rag.cached_property import cached_property
from attribot_rag.context.alignment import places_in
from attribot_rag.context.splitting.blocks import json_in
from attribot_rag.context.splitting.splitter import language_of, make_splitter
from attribot_rag.context.text import Interval, at
from attribot_rag.result.answer_text import (
    AnswerMarks,
    Block,
    Markdown,
    markdown,
    markers_lead,
    segments,
)
from attribot_rag.result.result import Result
from attribot_rag.result.verdict import Relation, Verdict

MIN_SCORE = 1.0
MIN_SHARE = 0.5
# The rest of a link after its text, or a tag. No citation is put in these, or in code.
_LINK_OR_TAG = re.compile(
    r"\]\((?:<[^<>\n]*>|[^()\s]*)(?:\s+(?:\"[^\"\n]*\"|'[^'\n]*'))?\s*\)|<[A-Za-z/!?][^<>]*>"
)
_NO_QUOTE_MARK = re.compile(r"[^>\t]")
_CONTAINERS = re.compile(r"(?:[ \t]*(?:>|[-+*][ \t]|\d{1,9}[.)][ \t]))*[ \t]*")
_ONLY_MARKS = re.compile(r"(?:[ \t]*(?:>|[-+*]|\d{1,9}[.)]))*[ \t]*#{0,6}[ \t]*\Z")
_PIPE = re.compile(r"(?<!\\)\|")
_CLOSING_MARKS = re.compile(r"[ \t]+#+[ \t]*\Z")
_KEY = re.compile(r'"(?:[^"\\]|\\.)*"\s*:\s*\Z')
_MAX_KEY = 100
_EMPTY_LINE = re.compile(r"\r?\n[ \t]*\r?\n")
_RAW = ("fence", "code_block", "html_block")
_MIN_SIMILARITY = 0.6


@dataclass(frozen=True)
class CitedSentence:
    """Characters [start, end) of a sentence, and the ids of the sources that it cites, best first.

    `relation` is the verdict's: with 'either', any one of the sources is enough. `verdict` is None
    for a result without verdicts.
    """

    start: int
    end: int
    source_ids: tuple[int, ...]
    relation: Relation = "each"
    verdict: Verdict | None = None

    @property
    def named(self) -> tuple[int, ...]:
        """The sources that the sentence cites, and then those that support or contradict it."""
        verdict = self.verdict
        if verdict is None or verdict.support is None:
            return self.source_ids
        support = verdict.support
        says = support.source_ids if verdict.kind == "unsupported" else ()
        rivals = (rival.source for rival in support.rivals)
        return tuple(dict.fromkeys((*self.source_ids, *says, *rivals)))


@dataclass(frozen=True)
class Citations:
    """The sentences of a response, and the `numbers` of the cited documents.

    Documents are numbered from 1 in the order of first citation. If the model wrote markers such as
    [2], documents have the numbers that the prompt gives them, unless `numbering` is 'by_citation'.
    Documents with the same label in the prompt then share a number, and `names` has the labels that
    are not numbers, by document.
    """

    sentences: tuple[CitedSentence, ...]
    numbers: dict[int, int]
    names: Mapping[int, str] = field(default_factory=dict)
    by_marker: bool = False

    def __iter__(self) -> Iterator[CitedSentence]:
        return iter(self.sentences)

    def __len__(self) -> int:
        return len(self.sentences)


def cite(
    attribution: Result, *, min_score: float = MIN_SCORE, min_share: float = MIN_SHARE
) -> Citations:
    """The citations of each sentence of the answer, from its verdict.

    Without verdicts, a rule of thumb selects the sources, if scores are in nats. Every document
    that contains a cited source gets a number. So does a document that a remark names.

    Args:
        attribution: The result whose answer is cited.
        min_score: The least score of a cited source for the sentence, in nats, without verdicts.
        min_share: The least share of the best source's score, without verdicts.
    """
    cited = [
        CitedSentence(verdict.start, verdict.end, verdict.source_ids, verdict.relation, verdict)
        for verdict in attribution.verdicts
    ] or list(_cited_by_rule(attribution, min_score, min_share))
    by_marker = attribution.numbering == "by_marker" and any(
        marker.document is not None for marker in attribution.markers
    )
    numbers: dict[int, int] = {}
    for sentence in cited:
        for source_id in sentence.named:
            for document in attribution.sources[source_id].documents:
                in_prompt = attribution.prompt_numbers.get(document, document + 1)
                numbers.setdefault(document, in_prompt if by_marker else len(numbers) + 1)
    names = attribution.prompt_names if by_marker else {}
    return Citations(tuple(cited), numbers, names, by_marker)


def _cited_by_rule(
    attribution: Result, min_score: float, min_share: float
) -> Iterator[CitedSentence]:
    """The sentences of an answer without verdicts, with the sources of the best scores."""
    text = attribution.response
    cited_texts = {
        (marker.start, marker.end): ""
        if marker.document is None
        else attribution.documents[marker.document].text
        for marker in attribution.markers
    }
    spans = sorted(cited_texts)
    lead = markers_lead(text, spans, [cited_texts[span] for span in spans])
    json = [span for span in json_in(text, 0, len(text)) if span not in cited_texts]
    marks = AnswerMarks(leading=spans if lead else (), trailing=() if lead else spans, json=json)
    option = attribution.provenance.options.get("language")
    texts = (document.text for document in attribution.documents)
    splitter = make_splitter("sentence", str(option or language_of(text, texts)))
    for span, is_sentence in segments(text, 0, len(text), splitter, marks):
        source_ids = _best_sources(attribution, span, min_score, min_share) if is_sentence else ()
        yield CitedSentence(*span, source_ids)


def _best_sources(
    attribution: Result, span: Interval, min_score: float, min_share: float
) -> tuple[int, ...]:
    if attribution.unit != "nats":
        return ()
    ranked = attribution.top(len(attribution.sources), *span)
    least = max(min_score, min_share * ranked[0].score) if ranked else min_score
    return tuple(ranking.source.id for ranking in ranked if ranking.score >= least)


@dataclass(frozen=True)
class Mark:
    """The numbers of cited documents: '1', or '1 or 2' if either document is enough.

    `names` replace the numbers if the prompt names the documents so.
    """

    numbers: tuple[int, ...]
    names: tuple[str, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        return self.names or tuple(map(str, self.numbers))

    def __str__(self) -> str:
        return " or ".join(self.labels)


def mark_of(documents: Iterable[int], citations: Citations) -> Mark | None:
    """The mark of these documents, without those that have no number; None if none has one."""
    names = {
        citations.numbers[i]: citations.names.get(i, "")
        for i in {*documents} & {*citations.numbers}
    }
    return named_mark(names) if names else None


def named_mark(names: Mapping[int, str]) -> Mark:
    """The mark of some numbers, with their names if they have any."""
    numbers = tuple(sorted(names))
    labels = tuple(names[number] or str(number) for number in numbers)
    return Mark(numbers, labels if any(names.values()) else ())


@dataclass(frozen=True)
class Place:
    """A position in the answer, with the separators around a citation there."""

    position: int
    before: str = " "
    after: str = ""


def place_of(text: str, end: int) -> Place:
    """Where to put the citation of a sentence that ends at `end`.

    It goes into the same table cell, before the line under a heading, or after a block of code:
    where the number is visible and does not change the block.
    """
    return _places(text).of(end)


def place_below_json(text: str, start: int, end: int) -> Place | None:
    """The place below the JSON that has these characters as a value, else None.

    That is below the line in which the JSON ends, or below its fence.
    """
    places = _places(text)
    return next(
        (places.below_json(json) for json in at(places.json, start) if end <= json[1]), None
    )


def is_in_json(text: str, position: int) -> bool:
    """Whether a character is part of JSON, or of the fence around it."""
    return bool(at(_places(text).json, position))


def value_at(text: str, start: int, end: int) -> str:
    """These characters of JSON, with the key before them."""
    before = text[max(0, start - _MAX_KEY) : start]
    key = _KEY.search(before)
    return f"{key[0] if key else ''}{text[start:end]}"


@lru_cache(maxsize=4)
def _places(text: str) -> _Places:
    return _Places(text, markdown(text))


@dataclass(frozen=True)
class _Places:
    """The places for citations in one text."""

    text: str
    read: Markdown

    @cached_property
    def _blocks(self) -> dict[int, Block]:
        """The block of each line that is not running text."""
        return {
            line: block for block in self.read.blocks for line in range(block.first, block.last)
        }

    @cached_property
    def _wholes(self) -> list[Interval]:
        """Spans that must not be split, in order; of overlapping ones, the first."""
        wholes: list[Interval] = []
        links = (match.span() for match in _LINK_OR_TAG.finditer(self.text))
        for start, end in sorted((*self.read.inline_code, *links)):
            if not wholes or start >= wholes[-1][1]:
                wholes.append((start, end))
        return wholes

    @cached_property
    def json(self) -> list[Interval]:
        """Characters of the JSON, in order."""
        return list(json_in(self.text, 0, len(self.text)))

    def below_json(self, json: Interval) -> Place:
        """The place below the line in which the JSON ends, or below its fence."""
        line = self.read.line_at(json[1] - 1)
        block = self._blocks.get(line)
        if block is not None and block.kind in _RAW and (place := self._below(block)):
            return place
        end = self.read.line(line)[1]
        is_followed = bool(self.text[end:].strip()) and not _EMPTY_LINE.match(self.text, end)
        return Place(end, before="\n\n", after="\n" if is_followed else "")

    def of(self, end: int) -> Place:
        """The place in the line of the last character, or in the nearest possible line above."""
        while end > 0:
            line = self.read.line_at(end - 1)
            end = self._after_marks(line, end)
            block = self._blocks.get(line)
            if block is None:
                return Place(self._outside(end))
            place = self._in_block(block, line, end)
            if place is not None:
                return place
            hidden = block.first if block.kind in _RAW else line
            end = len(self.text[: self.read.line(hidden)[0]].rstrip())
            if not end:
                return Place(self.read.line(block.first)[0], before="", after="\n\n")
        return Place(end, before="")

    def _after_marks(self, line: int, end: int) -> int:
        """The end of the line, if only the marks of a list item or a heading stand before `end`."""
        start, stop = self.read.line(line)
        if _ONLY_MARKS.match(self.text[start:end]):
            return max(end, start + len(self.text[start:stop].rstrip()))
        return end

    def _in_block(self, block: Block, line: int, end: int) -> Place | None:
        """The place in a line of a block, or below the block; None if it would not be visible."""
        if block.kind == "table_open":
            return Place(self._in_row(block, line, end))
        if block.kind == "heading_open":
            return self._in_heading(block, line, end)
        return self._below(block) if block.kind in _RAW else None

    def _outside(self, end: int) -> int:
        """The position after spans that must not be split, and before a line's last backslash."""
        for start, last in at(self._wholes, end):
            if start < end:
                return last
        if self.text[end : end + 1] not in ("\r", "\n"):
            return end
        num_backslashes = len(self.text[:end]) - len(self.text[:end].rstrip("\\"))
        return end - num_backslashes % 2

    def _in_heading(self, heading: Block, line: int, end: int) -> Place | None:
        """The place before the marks that close a heading; None in the line under it."""
        if "#" in heading.markup:
            closing = _CLOSING_MARKS.search(self.text[self.read.line(line)[0] : end])
            return Place(end - len(closing[0]) if closing else self._outside(end))
        is_underline = line == heading.last - 1
        return None if is_underline else Place(self._outside(end))

    def _in_row(self, table: Block, line: int, end: int) -> int:
        """Move a position into a cell that is rendered: surplus cells of a row are not."""
        separator = table.first + 1
        line = table.first if line == separator else line
        num_columns = len(self._cell_ends(separator))
        last_cell_end = self._cell_ends(line)[:num_columns][-1]
        start = self.read.line(line)[0]
        limit = start + len(self.text[start:last_cell_end].rstrip())
        return end if start < end < limit else limit

    def _cell_ends(self, line: int) -> list[int]:
        """The ends of a row's cells: at its pipes, or at the end of the line."""
        start, end = self.read.line(line)
        end = start + len(self.text[start:end].rstrip())
        first = start + len(self._containers(start, end))
        pipes = [match.start() for match in _PIPE.finditer(self.text, first, end)]
        if pipes and pipes[0] == first:
            pipes = pipes[1:]
        return pipes if pipes and pipes[-1] == end - 1 else [*pipes, end]

    def _below(self, block: Block) -> Place | None:
        """A new line below a block; None if it would be part of the block, or end a list."""
        last = block.last - 1
        while last > block.first and not self._content(last):
            last -= 1
        start, end = self.read.line(last)
        prefix = ""
        if block.kind == "fence":
            if last == block.first or not _closes(self._content(last), block.markup):
                return None
            prefix = _NO_QUOTE_MARK.sub(" ", self._containers(start, end))
        elif block.level:
            return None
        newline = "\r\n" if self.text.startswith("\r\n", end) else "\n"
        empty_line = newline + prefix.rstrip()
        is_followed = last + 1 < len(self.read.line_starts) and self._content(last + 1)
        return Place(
            end,
            before=(empty_line if block.kind == "html_block" else "") + newline + prefix,
            after=empty_line if is_followed else "",
        )

    def _containers(self, start: int, end: int) -> str:
        """The marks of quotes and lists at the beginning of a line."""
        marks = _CONTAINERS.match(self.text, start, end)
        return marks[0] if marks else ""

    def _content(self, line: int) -> str:
        """A line without white space and marks of quotes around it."""
        return self.text[slice(*self.read.line(line))].strip(" \t>")


def _closes(line: str, fence: str) -> bool:
    return not line.strip(fence[0]) and len(line) >= len(fence)


@dataclass(frozen=True)
class Offsets:
    """Maps characters of an answer to the text that the caller saw (`shown`)."""

    shown: str
    similarity: float
    _places: tuple[int, ...]

    @classmethod
    def between(cls, answer: str, shown: str) -> Offsets | None:
        """Align two texts. None if they have too little in common, or the second is blank.

        The second is a part of the answer, or the answer as a parser changed it: stripped, in
        capitals, or without mark-up.
        """
        return _offsets(answer, shown) if shown.strip() else None

    def interval(self, start: int, end: int) -> tuple[int, int]:
        """The characters [start, end) of the shown text; empty if it lacks them."""
        first = self._places[start]
        last = min(self._places[end - 1] + 1, self._places[end]) if start < end else first
        return first, max(first, last)


@dataclass(frozen=True)
class Shown:
    """Where a response is in its caller's text.

    It begins at character `start` of the model's answer. If the caller saw another text, `offsets`
    map the answer's characters to it. `is_lost` says that this mapping is unknown.
    """

    start: int = 0
    offsets: Offsets | None = None
    is_lost: bool = False

    def interval(self, start: int, end: int) -> tuple[int, int]:
        """Where the characters [start, end) of the response stand."""
        start, end = self.start + start, self.start + end
        return (start, end) if self.offsets is None else self.offsets.interval(start, end)


@lru_cache(maxsize=16)
def _offsets(answer: str, shown: str) -> Offsets | None:
    is_end = answer.rstrip().endswith(shown.rstrip())  # the prompt may stand before it
    if shown in answer and (is_end or 2 * len(shown) >= len(answer)):
        start, length = answer.rindex(shown), len(shown)
        places = [min(max(index - start, 0), length) for index in range(len(answer) + 1)]
        return Offsets(shown, length / len(answer), tuple(places))
    before, after = _without_case(answer), _without_case(shown)
    similarity = Levenshtein.normalized_similarity(before, after, score_cutoff=_MIN_SIMILARITY)
    if not similarity:
        return None
    return Offsets(shown, similarity, tuple(places_in(after, before)))


def _without_case(text: str) -> str:
    lower = text.lower()
    return lower if len(lower) == len(text) else text
