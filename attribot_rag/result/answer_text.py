"""The text of an answer: its mark-up, the segments to judge, and how to show it safely."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain, pairwise
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_block import table

from attribot_rag.cached_property import cached_property
from attribot_rag.context.splitting.blocks import json_values
from attribot_rag.context.splitting.splitter import Splitter, split_spans
from attribot_rag.context.text import Interval, at, merge, overlapping, subtract, words

_NEWLINE = re.compile(r"\r\n?|\n")
_BLANK_LINE = r"\n[ \t\r]*\n"
_INLINE_CODE = re.compile(rf"(?<![`\\])(`+)(?!`)(?:(?!{_BLANK_LINE}).)+?(?<!`)\1(?!`)", re.DOTALL)
_PROSE = ("markdown", "md", "text", "txt", "plaintext")
_BLOCKS = ("fence", "code_block", "html_block", "table_open", "heading_open", "hr")
_PARSER = MarkdownIt("commonmark").disable("inline")
# After all other blocks, as in GitHub's parser, or a list's item could be read as a cell.
_PARSER.block.ruler.before("lheading", "gfm_table", table, {"alt": ["paragraph", "reference"]})
_SPACE = re.compile(r"\s*")
_STOPPED = re.compile(r"[.!?…。！？؟।॥։።][\"'”’»)\]*_]*[ \t]*\Z")
_MAX_CLOSING = 20
_MAX_RUN = 200
IN_RUN = re.compile(r"[ \t,;]*")
_LINE_BEGINS = re.compile(r"(?:\A|\n)[ \t]*(?:(?:[-*+•>#|]+|\d{1,3}[.)])[ \t]*)*[*_~]*\Z")
_MAX_COMPARED = 300
_AFTER_MARK = re.compile(r"[\s.,]*")
Split = Callable[[int, int], Sequence[Interval]]
# Terminal controls (C0, DEL, C1), marks that turn the reading direction, invisible tags, halves of
# surrogate pairs. Joiners stay: several scripts and emoji need them.
_ACTIVE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
_UNSEEN = re.compile("[\u00ad\u200b\u2060\ufeff]")
_LINE_BREAK = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_ABSOLUTE = re.compile(r"/|[A-Za-z]:[\\/]")
_WORD_JOINER = "\u2060"
_MARKDOWN = re.compile(
    r"^\d+(?=[.)](?:\s|$))"  # the number of a list's item
    r"|^[-+=#:]"  # other items, headings, rules
    r"|[\\`*_\[\]|~^$]"  # emphasis, code, links, tables, math
    r"|\.(?=[^\W\d_])|:(?=[/A-Za-z])|(?<!\d):(?=[\d+-])|/(?=/)",  # addresses, emoji by name
    re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    """Lines [first, last) of a text. `kind` is the token type of markdown-it, or 'reference'.

    `level` is 0 outside of lists and quotes. `markup` is the fence, the '#'s, or the line under a
    heading.
    """

    kind: str
    first: int
    last: int
    level: int
    markup: str = ""
    info: str = ""


@dataclass(frozen=True)
class Markdown:
    """A text that is read as GitHub's Markdown."""

    text: str

    @cached_property
    def line_starts(self) -> tuple[int, ...]:
        return (0, *(match.end() for match in _NEWLINE.finditer(self.text)))

    def line_at(self, position: int) -> int:
        """The index of the line that contains this character."""
        return bisect_right(self.line_starts, position) - 1

    def line(self, index: int) -> Interval:
        """The characters of a line, without its line break."""
        start = self.line_starts[index]
        end = _NEWLINE.search(self.text, start)
        return start, end.start() if end else len(self.text)

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks that are not running text, in order."""
        env: dict[str, Any] = {}
        blocks = []
        for token in _PARSER.parse(self.text, env):
            if token.type in _BLOCKS and token.map:
                first, last = token.map
                info = token.info.strip().lower()
                blocks.append(Block(token.type, first, last, token.level, token.markup, info))
        references = [*env.get("references", {}).values(), *env.get("duplicate_refs", ())]
        lines = (reference["map"] for reference in references)
        blocks += [Block("reference", first, last, 0) for first, last in lines]
        return tuple(sorted(blocks, key=lambda block: block.first))

    @cached_property
    def code_blocks(self) -> tuple[Interval, ...]:
        """Characters of the code blocks, with their fences. Fenced prose does not count."""
        blocks = (block for block in self.blocks if block.info not in _PROSE)
        return tuple(
            (self.line(block.first)[0], self.line(block.last - 1)[1])
            for block in blocks
            if block.kind in ("fence", "code_block")
        )

    @cached_property
    def inline_code(self) -> tuple[Interval, ...]:
        """Characters of the code in running text, with its backticks."""
        prose = (block for block in self.blocks if block.info in _PROSE)
        fences = (self.line(line) for block in prose for line in (block.first, block.last - 1))
        gaps = subtract((0, len(self.text)), merge((*self.code_blocks, *fences)))
        matches = (match for gap in gaps for match in _INLINE_CODE.finditer(self.text, *gap))
        return tuple(match.span() for match in matches)

    @cached_property
    def code(self) -> tuple[Interval, ...]:
        return tuple(sorted((*self.code_blocks, *self.inline_code)))


@lru_cache(maxsize=16)
def markdown(text: str) -> Markdown:
    """The text as Markdown. Each text is parsed only once."""
    return Markdown(text)


@dataclass(frozen=True)
class AnswerMarks:
    """Characters of an answer that say nothing: ascending, disjoint intervals.

    `trailing` marks, such as markers and closing tags, belong to the text before them; `leading`
    ones to the text after them. `lists` are the lines of lists of sources. `json` is all JSON; its
    values `fields` are labels.
    """

    trailing: Sequence[Interval] = ()
    leading: Sequence[Interval] = ()
    lists: Sequence[Interval] = ()
    json: Sequence[Interval] = ()
    fields: Sequence[Interval] = ()

    @cached_property
    def all(self) -> Sequence[Interval]:
        """All marks, in order."""
        return sorted((*self.trailing, *self.leading))


def adjacent_groups(
    text: str, spans: Iterable[Interval], between: re.Pattern[str]
) -> list[list[Interval]]:
    """Groups of spans. Within a group, only text that matches `between` separates them."""
    groups: list[list[Interval]] = []
    for span in spans:
        if groups and between.fullmatch(text, groups[-1][-1][1], span[0]):
            groups[-1].append(span)
        else:
            groups.append([span])
    return groups


def markers_lead(text: str, markers: Sequence[Interval], texts: Sequence[str]) -> bool:
    """Whether the markers of an answer stand before the text that they mark.

    They do if the answer begins with a marker and does not end with one. Otherwise, the `texts`
    that the markers cite are compared with the text before and after each marker.
    """
    cited_by = dict(zip(markers, texts, strict=True))
    groups = [
        (group[0][0], group[-1][1], " ".join(map(cited_by.__getitem__, group)))
        for group in adjacent_groups(text, markers, IN_RUN)
    ]
    begins = bool(groups) and not any(map(str.isalpha, text[: groups[0][0]]))
    free = [group for group in groups if _is_free(text, group[0])]
    ends = bool(free) and not any(map(str.isalnum, text[free[-1][1] :]))
    if not free or begins != ends:
        return bool(free) and begins
    edges = [0, *chain.from_iterable((start, end) for start, end, _ in free), len(text)]
    votes = 0.0
    for index, (start, end, cited) in enumerate(free):
        before = text[max(edges[2 * index], start - _MAX_COMPARED) : start]
        after = text[end : min(edges[2 * index + 3], end + _MAX_COMPARED)]
        held = frozenset(words(cited.casefold()))
        votes += _share(after, held) - _share(before, held)
    return votes > 0 or (begins and votes == 0)


def _is_free(text: str, start: int) -> bool:
    """Whether a marker stands between sentences: after a full stop, or where a line begins."""
    before = text[max(0, start - _MAX_CLOSING) : start]
    return _LINE_BEGINS.search(before) is not None or _STOPPED.search(before) is not None


def _share(text: str, held: frozenset[str]) -> float:
    said = words(text.casefold())
    return sum(word in held for word in said) / len(said) if said else 0.0


def segments(
    text: str, first: int, last: int, splitter: Splitter, marks: AnswerMarks
) -> Iterator[tuple[Interval, bool]]:
    """Divide [first, last) into segments. Yields each one, and whether it is a sentence.

    A block of code is one sentence, and no sentence ends within inline code. In JSON, each string,
    number and truth value is a sentence, unless it is a label. The text between them and lists of
    sources are no sentences.
    """
    done = first
    split = partial(sentence_spans, text, marks, splitter)
    for start, end, kind in _wholes(text, first, last, marks):
        yield from _sentences(text, done, start, split)
        if kind == "json":
            yield from _values(text, start, end, split, marks)
        else:
            yield (start, end), kind == "code"
        done = end
    yield from _sentences(text, done, last, split)


def _sentences(text: str, first: int, last: int, split: Split) -> Iterator[tuple[Interval, bool]]:
    """The sentences of running text."""
    code = overlapping(markdown(text).inline_code, (first, last))
    spans = split(first, last) if first < last else ()
    starts = [
        start
        for start, _ in spans
        if not any(code_start < start for code_start, _ in at(code, start))
    ]
    return ((sentence, True) for sentence in pairwise([*starts, last]))


def _wholes(text: str, first: int, last: int, marks: AnswerMarks) -> Iterator[tuple[int, int, str]]:
    """[start, end) of JSON, code and lists of sources, which are not split as text.

    White space after a block of code belongs to it.
    """
    spans = [(start, end, "json") for start, end in marks.json if first <= start and end <= last]
    lists = overlapping(marks.lists, (first, last))
    spans += [(max(start, first), min(end, last), "list") for start, end in lists]
    taken = sorted((start, end) for start, end, _ in spans)
    for start, end in markdown(text).code_blocks:
        space = _SPACE.match(text, end, last)
        end = space.end() if space else end
        if first <= start and end <= last and not overlapping(taken, (start, end)):
            spans.append((start, end, "code"))
    return iter(sorted(spans))


def _values(
    text: str, first: int, last: int, split: Split, marks: AnswerMarks
) -> Iterator[tuple[Interval, bool]]:
    done = first
    for leaf in json_values(text, first, last):
        yield (done, leaf.start()), False
        if at(marks.fields, leaf.start()):
            yield leaf.span(), False
        else:
            yield from ((sentence, True) for sentence in _of_leaf(leaf, split))
        done = leaf.end()
    yield (done, last), False


def _of_leaf(leaf: re.Match[str], split: Split) -> Iterator[Interval]:
    """The sentences of a JSON string, with its quotes. Text in quotes is not split."""
    if leaf["string"] is None:
        return iter([leaf.span()])
    later = [start for start, _ in split(*leaf.span("string"))[1:]]
    return pairwise([leaf.start(), *later, leaf.end()])


def sentence_spans(
    text: str, marks: AnswerMarks, splitter: Splitter, first: int, last: int
) -> list[Interval]:
    """Characters of the sentences in [first, last) of a text with these marks.

    Text without a word belongs to the sentence before it. So do trailing marks, and white space at
    the beginning of a sentence. Leading marks belong to the sentence after them. No sentence ends
    within a mark.
    """
    starts = [first]
    for start, end in split_spans(_readable(text, marks, first, last), splitter)[1:]:
        position = _border(text, marks, max(first + start, starts[-1]), first + end)
        if starts[-1] < position < last:
            starts.append(position)
    spans: list[Interval] = []
    begin = first
    for start, end in pairwise([*starts, last]):
        has_words = _has_words(text, marks, start, end)
        if not has_words and end < last and overlapping(marks.leading, (start, end)):
            continue
        if not has_words and spans and begin == start:
            begin = spans.pop()[0]
        spans.append((begin, end))
        begin = end
    return spans


def _has_words(text: str, marks: AnswerMarks, start: int, end: int) -> bool:
    kept = subtract((start, end), overlapping(marks.all, (start, end)))
    return any(any(map(str.isalnum, text[a:b])) for a, b in kept)


def _readable(text: str, marks: AnswerMarks, first: int, last: int) -> str:
    """[first, last) of a text, with its marks replaced for the splitter.

    After a full stop, white space replaces trailing marks and tags. A word replaces a leading
    marker, because it begins a sentence and may be its subject.
    """
    readable = ""
    done, is_after_stop = first, False
    for start, end in overlapping(marks.all, (first, last)):
        leads = bool(at(marks.leading, start))
        start, end = max(start, first), min(end, last)
        between = text[done:start]
        is_run = is_after_stop and not between.strip(" \t,;")
        is_after_stop = is_run or _STOPPED.search(between[-_MAX_CLOSING:]) is not None
        readable += " " * len(between) if is_run else between
        if leads and text[start] != "<":
            begins = "\nX" if text[:start].endswith("\n") and end - start > 1 else "X"
            readable += begins.ljust(end - start, "x")
            is_after_stop = False
        else:
            readable += " " * (end - start) if is_after_stop else text[start:end]
        done = end
    return readable + text[done:last]


def _border(text: str, marks: AnswerMarks, start: int, end: int) -> int:
    """Where the sentence begins that the splitter returned as [start, end)."""
    position = start
    for first, last in overlapping(marks.trailing, (start, end)):
        if text[position:first].strip():
            break
        after = _AFTER_MARK.match(text, last, max(last, end))
        position = after.end() if after else last
    if position == start:
        for first, last in reversed(overlapping(marks.leading, (start - _MAX_RUN, start + 1))):
            if text[last:position].strip():
                break
            position = min(position, first)
    return max(position, end - len(text[position:end].lstrip()))


def visible(text: str) -> str:
    """The text with control characters made visible: ESC as `␛`, others as `<U+202E>`.

    Line breaks become line feeds, and tabs stay. Soft hyphens and zero-width spaces are removed.
    """
    text = _UNSEEN.sub("", _LINE_BREAK.sub("\n", text))
    return _ACTIVE.sub(lambda match: _picture(match.group()), text)


def on_one_line(text: str) -> str:
    """The text with single spaces for all white space, and visible control characters."""
    return " ".join(visible(text).split())


def file_name(path: str) -> str:
    """An absolute path without its folders, which other people must not see; else the text."""
    return re.split(r"[\\/]", path)[-1] or path if _ABSOLUTE.match(path) else path


def escape_markdown(text: str) -> str:
    """The text with escapes, so that Markdown (CommonMark, GitHub's) shows it literally.

    HTML, links, pictures, addresses, mentions, headings, lists, quotes, tables, code, math and
    emphasis have no effect. Lines stay lines, without white space at their ends.
    """
    text = "\n".join(line.strip() for line in visible(text).split("\n"))
    text = _MARKDOWN.sub(_escaped, text)
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # An escaped @ still makes an address, so a word joiner separates it from the next character.
    return text.replace("@", "@" + _WORD_JOINER)


def _picture(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"<U+{code:04X}>"


def _escaped(match: re.Match[str]) -> str:
    mark = match.group()
    return f"{mark}\\" if mark.isdigit() else f"\\{mark}"
