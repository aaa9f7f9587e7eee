"""Where the sentences of running text end, in the language that it is written in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate, pairwise

import sentencex

# Unpaired surrogates, which a broken text may hold and sentencex does not accept.
_SURROGATE = re.compile("[\ud800-\udfff]")
# Quotation marks and brackets in a row; what so many of them open and close says nothing.
_MAX_MARKS = 16
_RUN = re.compile(r"[\"'`´«»‹›„‚“”‘’「」『』()\[\]{}]{17,}")
_WINDOW = 8_192

_CLOSING = re.compile(r"[*_`\"”»)\]]+(?:\s+|\Z)|(?<=[。｡！？])[』」）】》〉”’]+\s*")
_OPENING = re.compile(r"(?<=\s)[\"'”“„»«‘‚]+\Z")
# Full stops of scripts in which they stand for nothing else, with what closes after them.
_STOP = re.compile(r"[。｡！？।॥؟۔።։។៕။]+[）】』」》〉)\]]*\s*")
_BRACKET = re.compile(r"[（【「『《〈(\[）】」』》〉)\]]")
_PAIRS = dict(zip("（【「『《〈([", "）】」』》〉)]", strict=True))
# A quotation that the sentence goes on after: "yes", he said.
_GOES_ON = re.compile(r"(?:と|って)")
# Languages that write the third as "3.".
_ORDINALS = re.compile(r"bs|cs|da|de|et|eu|fi|fo|hr|hsb|hu|is|lb|lv|nb|nn|no|pl|se|sk|sl|sr|tr")
_ORDINAL = re.compile(r"(?<![\d.,])\d{1,2}\.\s+\Z")
# A number or an abbreviation, if a lower-case letter comes next.
_SHORT = re.compile(r"(?:\d|(?<!\w)\w{1,4})\.\s+\Z")
# Titles before a name, in French, Spanish and Portuguese.
_TITLES = {"fr": "MM?", **dict.fromkeys(("es", "pt"), "[Ss]r(?:t?as?|es)?")}
# Abbreviations that stand before the number of an article, a page, a figure, and so on.
_REFERENCE = re.compile(
    r"(?<!\w)(?:§§?|abb|abs|al|anm|art|arts|ch|cf|eq|ec|fig|figs|fn|kap|lit|nn?|nos?|nr|nrs|núm|num"
    r"|odst|pp?|p[áa]gs?|par|pkt|poz|rn|sec|sect|ss?|str|tab|ust|vol|z|ziff|č|čl|ч|гл|п|пп|рис|с|ст"
    r"|стр|табл|т|άρθρ|αρ|αριθ|παρ|σελ|κεφ)\.\s*\Z",
    re.IGNORECASE,
)
# Thai and Lao have no full stop: a space ends a sentence, or a part of one.
_SPACED = re.compile(r"(?<=[\u0e01-\u0eff])[”’\"»)]*[ \u00a0]+(?=[“‘\"«(]?[\u0e01-\u0eff])")
_SPACED_LETTER = re.compile("[\u0e01-\u0eff]")
_MIN_SPACED = 40


def sentence_ends(text: str, language: str) -> list[int]:
    """Where sentences end, ascending, by sentencex; the last at the end of the text.

    The rest is what it does not know: full stops before a digit or a bracket, which in Chinese or
    Hindi end a sentence too; ordinals and references such as "3. Mai" and "Art. 5"; Thai and Lao,
    whose sentences end in spaces. Quotation marks and mark-up that close belong to what they close.
    """
    readable = _SURROGATE.sub("?", _RUN.sub(_without_marks, text))
    ends = {_with_closing(text, end) for end in _segmented(readable, language)}
    ends.update(
        stop for part in pairwise(sorted({0, *ends, len(text)})) for stop in _stops(text, *part)
    )
    ends = {end for end in ends if not _goes_on(text, end, language)}
    return sorted({*ends, *_spaces(text), len(text)} - {0})


def _segmented(text: str, language: str) -> Iterator[int]:
    """The ends of sentencex.

    Its time grows with the square of the text, so a long text is read in windows. Each begins with
    the sentence that the window before did not see the end of.
    """
    start = 0
    while len(text) - start > _WINDOW:
        window = text[start : start + _WINDOW]
        ended = list(map(len, sentencex.segment(language, window)))[:-1]
        yield from (start + end for end in accumulate(ended))
        start += sum(ended) or _WINDOW
    last = map(len, sentencex.segment(language, text[start:]))
    yield from (start + end for end in accumulate(last))


def _without_marks(run: re.Match[str]) -> str:
    return run[0][:_MAX_MARKS] + "-" * (len(run[0]) - _MAX_MARKS)


def _with_closing(text: str, end: int) -> int:
    """The end after what closes there, or before a quotation mark that opens."""
    closing = _CLOSING.match(text, end) if end and not text[end - 1].isspace() else None
    if closing:
        return closing.end()
    if text[end : end + 1].isalnum() and (opening := _OPENING.search(text, max(0, end - 4), end)):
        return opening.start()
    return end


def _goes_on(text: str, end: int, language: str) -> bool:
    """Whether the full stop before this end is that of an abbreviation or a number."""
    before, after = text[max(0, end - 16) : end], text[end : end + 2]
    if _SHORT.search(before) and after[:1].islower():
        return True
    if language in _TITLES and re.search(rf"(?<!\w)(?:{_TITLES[language]})\.\s+\Z", before):
        return True
    if _ORDINALS.fullmatch(language) and _ORDINAL.search(before):
        return after[:1].isalpha()
    if before.rstrip()[-1:] in ("」", "』", "）") and _GOES_ON.match(after):
        return True
    return after[:1].isdigit() and _REFERENCE.search(before) is not None


def _stops(text: str, start: int, end: int) -> Iterator[int]:
    """Where else in [start, end) a full stop ends a sentence, outside of brackets."""
    stops = [stop for stop in _STOP.finditer(text, start, end) if stop.end() < end]
    if not stops:
        return
    enclosed = _enclosed(text, start, end)
    for stop in stops:
        if not any(first < stop.end() <= last for first, last in enclosed):
            yield stop.end()


def _enclosed(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """From each bracket or quotation mark that opens, to the mark that closes it."""
    opened: list[tuple[str, int]] = []
    enclosed = []
    for mark in _BRACKET.finditer(text, start, end):
        if mark[0] in _PAIRS:
            opened.append((_PAIRS[mark[0]], mark.start()))
        elif opened and opened[-1][0] == mark[0]:
            enclosed.append((opened.pop()[1], mark.start()))
    return enclosed


def _spaces(text: str) -> Iterator[int]:
    """The spaces of Thai and Lao at which what came before is long enough to be read alone."""
    start = 0
    for space in _SPACED.finditer(text):
        if len(_SPACED_LETTER.findall(text, start, space.start())) >= _MIN_SPACED:
            start = space.end()
            yield start
