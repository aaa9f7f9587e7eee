"""Citations in answers that are Markdown, as GitHub's own renderer shows them."""

import re
from dataclasses import replace
from itertools import pairwise

import cmarkgfm
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.attributions import attribution

from attribot_rag.attribution import Check, Verdict
from attribot_rag.context.splitting.splitter import sentences, split_spans
from attribot_rag.result.answer_text import markdown
from attribot_rag.result.citations import place_of

WORDS = st.sampled_from(
    ["The ferry is old.", "It *costs* 18 crowns.", "See `a. b` there.", "塔很高。", "Is it `x`?"]
)
LINE = st.lists(WORDS, min_size=1, max_size=3).map(" ".join)
CODE = st.sampled_from(
    ["x = items[0]", "# One. Two.", "  return x", "", "| a | b |", "key:", "  - value  "]
)
CODES = st.lists(CODE, min_size=1, max_size=4)
CELL = st.sampled_from(["Old.", "84", "", "a \\| b", "`x` y.", "**Red.**"])


def _fence(fence: str, info: str, lines: list[str], closed: bool) -> str:
    return "\n".join([fence + info, *lines, *([fence] if closed else [])])


@st.composite
def tables(draw: st.DrawFn) -> str:
    columns = draw(st.integers(1, 3))
    edges = draw(st.booleans()) or columns == 1

    def row(cells: list[str]) -> str:
        joined = " | ".join(cells)
        return f"| {joined} |" if edges else joined

    heads = draw(
        st.lists(st.sampled_from(["Name", "Age. Old."]), min_size=columns, max_size=columns)
    )
    sizes = draw(st.lists(st.integers(1, 4), max_size=3))
    body = [draw(st.lists(CELL, min_size=size, max_size=size)) for size in sizes]
    body = [["x", *cells[1:]] for cells in body]
    return "\n".join([row(heads), row(["---"] * columns), *map(row, body)])


BLOCKS = st.one_of(
    LINE,
    LINE.map("# {} #".format),
    LINE.map("{}\n===".format),
    LINE.map("{}\n---".format),
    st.tuples(LINE, st.sampled_from(["  ", "\\"]), LINE).map(lambda t: f"{t[0]}{t[1]}\n{t[2]}"),
    st.builds(
        _fence, st.sampled_from(["```", "~~~~"]), st.sampled_from(["", "py"]), CODES, st.just(True)
    ),
    CODES.map(lambda lines: "\n".join(f"    {line or 'x'}" for line in lines)),
    tables(),
    st.sampled_from(["___", "***", "<div>Old. Red.</div>"]),
)
# Not in lists, and not above dashes: there, renderers disagree on what is a definition.
DEFINITION = st.just("[a]: http://x.org/y")
LISTED = st.tuples(st.sampled_from(["- ", "> ", "1. "]), BLOCKS)


def _contained(mark: str, block: str) -> str:
    further = mark if mark == "> " else " " * len(mark)
    return "\n".join(
        (mark if index == 0 else further) + line for index, line in enumerate(block.split("\n"))
    )


ANSWERS = st.builds(
    lambda blocks, gap, last: gap.join([*blocks, last]),
    st.lists(st.one_of(BLOCKS, DEFINITION, LISTED.map(lambda item: _contained(*item))), max_size=5),
    st.sampled_from(["\n\n", "\n", "\n\n\n"]),
    st.one_of(BLOCKS, st.builds(_fence, st.just("```"), st.just("py"), CODES, st.just(False))),
)


def cited(answer: str, *checks: Check) -> tuple[str, list[tuple[int, int]]]:
    """Each sentence cites a document of its own: the cited answer, and its number of numbers."""
    spans = split_spans(answer, sentences)
    verdicts = tuple(
        Verdict(start=start, end=end, kind="grounded", source_ids=(index,), checks=checks)
        for index, (start, end) in enumerate(spans)
    )
    rows: list[list[float] | None] = [[0.0] * len(answer) for _ in spans]
    result = attribution(answer, rows, documents=len(spans), verdicts=verdicts)
    return result.to_cited_text(), spans


def rendered(text: str) -> str:
    html: str = cmarkgfm.github_flavored_markdown_to_html(text)
    return html


def counts(html: str) -> list[int]:
    return [html.count(f"<{tag}") for tag in ("table", "tr", "td", "pre", "h1", "h2", "hr")]


@given(ANSWERS)
def test_every_number_shows_and_every_block_stays(answer: str) -> None:
    if not answer.strip():
        return
    text, spans = cited(answer)
    before, after = rendered(answer), rendered(text)
    assert counts(before) == counts(after), text
    for number in range(1, len(spans) + 1):
        assert after.count(f"[{number}]") == 1, text
    code = re.findall(r"<pre.*?</pre>", before, re.DOTALL)
    assert code == re.findall(r"<pre.*?</pre>", after, re.DOTALL), text


CHECK = Check(start=0, end=1, kind="number", value="7.50", source_value="7", source=0)
CHECKS = st.sampled_from(((), (CHECK,), (CHECK, replace(CHECK, source_value=None, source=None))))
REMARK = r"(?: \(7 in \[1\](?:; 7\.50 is not in the source)?\))?"


@given(st.one_of(ANSWERS, st.text(max_size=60)), st.booleans(), CHECKS)
def test_without_numbers_and_remarks_it_is_the_answer(
    answer: str, has_returns: bool, checks: tuple[Check, ...]
) -> None:
    """To the character: indentation, line ends and spaces before them."""
    answer = answer.replace("\n", "\r\n") if has_returns else answer
    if not answer.strip() or re.search(r"\[\d+\]", answer):
        return
    text, spans = cited(answer, *checks)
    assert text.count("(7 in [1]") == bool(checks) * len(spans)
    places = sorted(
        (place_of(answer, len(answer[:end].rstrip())) for _, end in spans),
        key=lambda place: place.position,
    )
    edges = [0, *(place.position for place in places), len(answer)]
    parts = [answer[start:end] for start, end in pairwise(edges)]
    pattern = re.escape(parts[0])
    for place, part in zip(places, parts[1:], strict=True):
        pattern += re.escape(place.before) + r"\[\d+\]" + REMARK
        pattern += re.escape(place.after) + re.escape(part)
    assert re.fullmatch(pattern, text)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("Use `a. b`, then ``c ` d``.", ["`a. b`", "``c ` d``"]),
        ("```py\nx\n```\nSo.\n~~~\ny\n~~~", ["```py\nx\n```", "~~~\ny\n~~~"]),
        ("It is:\n\n    x = 1\n\n    y\n\nSo.", ["    x = 1\n\n    y"]),
        ("```markdown\nIt is `old`.\n```", ["`old`"]),
        ("No `code\n\nhere at all, \\`nor here`.", []),
        ("> ```\n> x\n> ```\n> So.", ["> ```\n> x\n> ```"]),
    ],
)
def test_code_in_an_answer(answer: str, code: list[str]) -> None:
    assert [answer[start:end].rstrip() for start, end in markdown(answer).code] == code
