"""Citations that the model wrote itself: which are read, and what their audit says."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from support.attributions import handmade

from attribot_rag import Attribution, Document
from attribot_rag.attribution import Marker, ResponseText, Verdict
from attribot_rag.context import Context, ContextOptions, TokenizedText, locate_context
from attribot_rag.context.text import subtract
from attribot_rag.verdicts.judging import MarkerAudit
from attribot_rag.verdicts.marker_syntax import KnownLabels
from attribot_rag.verdicts.markers import markers_in, markers_of, read_markers
from attribot_rag.verdicts.sentences import sentences_of

DOCUMENTS = ("Red. Old.", "New. Old.", "Blue.")
SCORES: dict[str, Sequence[float] | None] = {
    "Red.": (5.0, 0.2),
    "Old.": (0.1, 3.0),
    "New.": (0.4, -2.0),
    "Blue.": (0.3, 0.6),
}


def audited(
    response: str, scores: dict[str, Sequence[float] | None] | None = None, **fields: Any
) -> list[Marker]:
    """All markers, each judged with the tokens of its sentence."""
    attribution = handmade(response, DOCUMENTS, SCORES if scores is None else scores, **fields)
    return audits(attribution)


def loss_by(attribution: Attribution) -> Callable[[Sequence[int], Sequence[int]], float | None]:
    """Documents are worth what their sources are together; unknown if one has no score."""

    def loss_without(source_ids: Sequence[int], tokens: Sequence[int]) -> float | None:
        rows = [attribution.token_scores[source_id] for source_id in source_ids]
        if None in rows:
            return None
        return float(sum(row[token] or 0.0 for row in filter(None, rows) for token in tokens))

    return loss_without


def context_of(attribution: Attribution) -> Context:
    return Context(
        documents=attribution.documents,
        prompt=TokenizedText((), "", ()),
        sources=attribution.sources,
        regions=(),
        not_located=attribution.not_located,
    )


def audits(attribution: Attribution, cited: Sequence[int] = ()) -> list[Marker]:
    context = context_of(attribution)
    marked = markers_in(attribution.response, context)
    audit = MarkerAudit(marked.markers, context, loss_by(attribution), min_effect=1.0)
    response = ResponseText(attribution.response, attribution.token_spans)
    sentences = sentences_of(response, marked)
    return list(
        audit.of_answer(
            sentences,
            [
                Verdict(start=each.start, end=each.end, kind="grounded", source_ids=tuple(cited))
                for each in sentences
            ],
        )
    )


MARKERS: dict[tuple[int, ...], list[str]] = {
    (1,): ["【1】", "[Doc. 1]", "[citation:1]", "[来源1]"],
    (2,): ["【2†L4-L9】", "[passage #2]", "(see [2])"],
    (3,): [
        *("[^3]", "［3］", "[ID: 3]", "(Document 3)", "[[3]]", "[Document [3]]"),
        '[3](<a b.md> "A title")',
    ],
    (1, 2): ["[1][2]"],
    (1, 3): [
        *("[1; 3]", "[1] [3]", "[Sources: 1 and 3]", "[Source 1, Source 3]", "(sources 1, 3)"),
        "([1], [3])",
    ],
    (1, 2, 3): ["[1,2 , 3]", "[1-3]"],
}


@pytest.mark.parametrize(
    ("text", "numbers"), [(text, numbers) for numbers, texts in MARKERS.items() for text in texts]
)
def test_markers_and_their_numbers(text: str, numbers: tuple[int, ...]) -> None:
    response = f"It is red {text}. It is old."
    markers = audited(response)
    assert [marker.number for marker in markers] == [*numbers]
    assert [marker.document for marker in markers] == [number - 1 for number in numbers]
    verdicts = (Verdict(start=0, end=len(response), kind="trivial"),)
    attribution = handmade(response, DOCUMENTS, SCORES, markers=tuple(markers), verdicts=verdicts)
    assert attribution.to_cited_text(markers="removed") == "It is red. It is old."


@pytest.mark.parametrize(
    "response",
    [
        *("It was built long ago [1904].", "The codes are [2, 4]."),
        *("It is [a], [], (1), 1, [1.5], [-1], [1 or 1]].", "Use row[2] and f(x)[1] or m[0][3]."),
        *("Use `rows [2]` there.", "So:\n```\nx = [1]\n```", "So:\n\n    print [3]\n\nIt is."),
        *("[12] It is red [0].", "[404, 500]", "The range is [3-1].", "It is red [1"),
        *("It is red 1]", "The room (3) is red.", "The set [ID: 77] is red."),
    ],
)
def test_brackets_that_are_no_markers(response: str) -> None:
    assert audited(response) == []


@pytest.mark.parametrize(
    ("copied", "cited"),
    [
        ("It sank in 1904.[2]", "It sank in the war.[2]"),
        ("the mayor Tolk[1][3] said", "the mayor Tolk said [1][3]"),
        ("see the map [3] there", "see the red map there [3]"),
        ("[2] Voss, A Guide", "A Guide [2]"),
    ],
)
def test_a_marker_that_was_copied_from_a_document_is_none(copied: str, cited: str) -> None:
    documents = (f"{copied}.", "New.", "Blue.")
    scores: dict[str, Sequence[float] | None] = dict.fromkeys(documents, (0.0,))
    assert audits(handmade(copied, documents, scores)) == []
    assert audits(handmade(cited, documents, scores))


@pytest.mark.parametrize("text", ["塔高38米[2]。", "渡轮是红色的[1][3]。", "หอคอยสูง[2]"])
def test_a_script_without_spaces_needs_none_before_a_marker(text: str) -> None:
    assert audited(text)


@pytest.mark.parametrize("text", ["[source 12]", "【999†source】", "(Document 4)"])
def test_markers_of_sources_that_do_not_exist(text: str) -> None:
    (marker,) = audited(f"It is red {text}.")
    assert (marker.document, marker.supported) == (None, None)


@pytest.mark.parametrize("text", ["([1] " * 9_000, "[1,1" * 9_000, "[[(" * 9_000, "[1]" * 9_000])
def test_long_texts_come_to_an_end(text: str) -> None:
    known = KnownLabels({"1": (0,), "2": (1,), "kessel lock": (1,)})
    assert len(read_markers(text, known, [Document("The [1] tower.")]).markers) <= len(text) // 3


def test_a_marker_is_supported_by_a_source_of_its_document() -> None:
    markers = audited("It is red [1][2]. It is old [1, 2][3].")
    assert [(marker.document, marker.supported) for marker in markers] == [
        (0, True),
        (1, False),
        (0, True),
        (1, True),
        (2, False),
    ]


@pytest.mark.parametrize(
    ("response", "scores", "not_located", "expected"),
    [
        ("It is red [3].", {"Red.": (5.0,)}, (2,), (2, False)),
        ("It is red [2].", {"Red.": (5.0,), "New.": None}, (), (1, None)),
        ("It is red [3].", {"Red.": (5.0,)}, (), (2, None)),
        ("[1]", {"Red.": (5.0,)}, (), (0, None)),
    ],
    ids=["not located", "no score", "no source", "no sentence"],
)
def test_a_marker_without_scores_is_neither_supported_nor_not(
    response: str, scores: Any, not_located: tuple[int, ...], expected: tuple[int, bool | None]
) -> None:
    (marker,) = audited(response, scores, not_located=not_located)
    assert (marker.document, marker.supported) == expected


def test_the_effect_is_that_of_the_sentence_without_its_markers() -> None:
    attribution = handmade("It is red [1].", ["Red."], {"Red.": (0.0,)})
    row = (0.0, 0.0, 0.0, 9.0)
    assert attribution.response[slice(*attribution.token_spans[3])] == "[1]."
    (marker,) = audits(replace(attribution, token_scores=(row,)))
    assert marker.supported is False


def test_a_document_that_the_sentence_cites_supports_its_marker() -> None:
    """Each of a redundant group may have no effect of its own."""
    attribution = handmade("It is red [1][2][3].", DOCUMENTS, dict.fromkeys(SCORES, (0.0, 0.0)))
    ids = [source.id for source in attribution.sources if source.text in ("Red.", "New.")]
    assert [marker.supported for marker in audits(attribution, ids)] == [True, True, False]


TEXTS = tuple(f"The {name} was closed in 1904." for name in ("mill", "ferry", "post", "school"))


def labelled(form: str, labels: Iterable[object], texts: Sequence[str] = TEXTS) -> Context:
    """A prompt with documents of these labels."""
    prompt = "\n\n".join(map(form.format, labels, texts))
    return locate_context(TokenizedText((), f"{prompt}\n\nWhen?", ()), texts, ContextOptions())


def read(answer: str, form: str, labels: Iterable[object]) -> list[tuple[str, str, int | None]]:
    """The markers in an answer to a prompt with documents of these labels, and what they cite."""
    context = labelled(form, labels)
    markers = markers_of(markers_in(answer, context).markers)
    return [(answer[m.start : m.end], m.label, m.document) for m in markers]


FILES = ("mill.pdf", "A7-03", "Letters by boat", "20481")


@pytest.mark.parametrize(
    ("form", "labels", "marker", "expected"),
    [
        ("[{}] {}", FILES, "[mill.pdf]", [("mill.pdf", 0)]),
        ("[{}] {}", FILES, "(A7-03)", [("A7-03", 1)]),
        ("[{}] {}", FILES, "[Letters by boat; 20481]", [("Letters by boat", 2), ("20481", 3)]),
        ("[{}] {}", FILES, "[20481, S. 12]", [("20481", 3)]),
        ("Datei: {}\n{}", FILES, "(Datei: Letters by boat)", [("Datei: Letters by boat", 2)]),
        ("[Akte {}] {}", (1, 2, 3, 4), "[Akte 3]", [("3", 2)]),
        ("[T{}] {}", (1, 2, 3, 4), "(T2)", [("T2", 1)]),
        ("({}) {}", "abcd", "(b, d)", [("b", 1), ("d", 3)]),
        ("({}) {}", (1, 2, 3, 4), "(3)", [("3", 2)]),
        ("[{}] {}", ("1.1", "1.2", "2.1"), "[1.2, 2.1]", [("1.2", 1), ("2.1", 2)]),
        ("[{}] {}", ("1-2", "3-5", "6-9"), "[3-5]", [("3-5", 1)]),
        ("[{}] {}", ("00:01:10", "00:02:45", "00:09:30"), "[00:02:45]", [("00:02:45", 1)]),
        ('<chunk id="{}">{}</chunk>', ("1.1", "1.2", "2.1"), "[1.2]", [("1.2", 1)]),
        ("{{{}}} {}", (1, 2, 3, 4), "{2}", [("2", 1)]),
        ("<|file-{}|> {}", ("9a", "7c", "b3"), "<|file-7c|>", [("file-7c", 1)]),
        ("[{}] {}", ("m1", "m2", "m3"), "{{cite:m2}}", [("m2", 1)]),
        (
            "[turn0search{}] {}",
            range(3),
            "\ue200cite\ue202turn0search1\ue201",
            [("turn0search1", 1)],
        ),
        ("[{}] {}", (1, 2, 3, 4), "\\[2\\]", [("2", 1)]),
        ("[{}] {}", (1, 2, 3, 4), "<ref>2</ref>", [("2", 1)]),
        ("[{}] {}", (1, 2, 3, 4), "[2 und 3]", [("2", 1), ("3", 2)]),
        ("[{}] {}", (1, 2, 3, 4), "[2, 9]", [("2", 1), ("9", None)]),
        ("[{}] {}", FILES, "[mill.pdf, tower.pdf]", [("mill.pdf", 0), ("tower.pdf", None)]),
        ("[{}] {}", ("3f2b8a10-5c", "a81c77d2-0b"), "[a81c77d2]", [("a81c77d2-0b", 1)]),
        ("[{}] {}", ("3f2b8a10-5c", "a81c77d2-0b"), "(a81c77d2…)", [("a81c77d2-0b", 1)]),
    ],
)
def test_labels_of_the_prompt_are_markers(
    form: str, labels: Iterable[object], marker: str, expected: list[tuple[str, int | None]]
) -> None:
    answer = f"It was closed in 1904 {marker}. It is old."
    found = read(answer, form, labels)
    assert found == [(marker, label, document) for label, document in expected]


def test_a_bracket_is_closed_by_its_own_whatever_the_prompt_writes_within() -> None:
    known = KnownLabels({"2": (1,)}, signs=frozenset({("【", "†")}), are_written=True)
    marked = read_markers("It is old 【2】.", known, [Document(text) for text in ("A", "B")])
    assert [marker.labels for marker in marked.markers] == [("2",)]


@pytest.mark.parametrize(
    ("form", "labels", "answer"),
    [
        ("[{}] {}", FILES, "See [school.pdf] and A7-03, row[A7] and `[mill.pdf]`."),
        ("[{}] {}", FILES, "The Letters (Letters by boat) are old."),
        ("({}) {}", (1, 2, 3, 4), "First (1) the mill, then (2) the ferry."),
        ("[{}] {}", "abcd", "Use x[a] or f(b)."),
        ("Text: {1}", "abcd", "It is [a]."),
        ("[{}] {}", (1, 2, 3, 4), "It has 40 m², 10² or x², and 5 m<sup>2</sup>."),
        ("[{}] {}", (1, 2, 3, 4), "It has <b>2</b> decks, see [Figure 2], ages [2-9]."),
        ("[{}] {}", ("a81c-1", "a81d-2"), "It is [a81]."),
    ],
)
def test_what_is_no_label_is_no_marker(form: str, labels: Iterable[object], answer: str) -> None:
    assert read(answer, form, labels) == []


@pytest.mark.parametrize(
    "place",
    [
        *(", p. 3", " § 4", ": line 12", ", pp. 3-5", "，第3页", ", ch. 2, p. 14"),
    ],
)
def test_a_place_in_the_document_belongs_to_its_marker(place: str) -> None:
    for marker in (f"[2{place}]", f"[Source 2{place}]", f"(source 2{place})", f"【2{place}】"):
        (found,) = audited(f"It is red {marker}. It is old.")
        assert (found.number, found.document) == (2, 1)
        assert (found.start, found.end) == (10, 10 + len(marker))
    assert [m.number for m in audited(f"It is red [1{place}, 3].")] == [1, 3]


@pytest.mark.parametrize(
    "marker",
    [
        *("**[2]**", "^[2]^", '<a href="#s2">[2]</a>', "[[2]](#s2)", "<sup>2</sup>"),
        *(
            "<sup><b>[2]</b></sup>",
            "<sup>[2]</sup>",
            "<sup>(2)</sup>",
            "<cite>[1], [2]</cite>",
            "**[1]** **[2]**",
        ),
    ],
)
def test_a_marker_with_its_markup_belongs_to_the_sentence_before(marker: str) -> None:
    response = f"It is red.{marker} The mill is old.{marker}"
    attribution = handmade(response, DOCUMENTS, SCORES)
    context = context_of(attribution)
    marked = markers_in(response, context)
    sentences = sentences_of(ResponseText(response, attribution.token_spans), marked)
    assert [sentence.text.strip() for sentence in sentences] == [
        f"It is red.{marker}",
        f"The mill is old.{marker}",
    ]
    pieces = subtract((0, len(response)), [(marker.start, marker.end) for marker in marked.markers])
    left = "".join(response[start:end] for start, end in pieces)
    assert " ".join(left.replace(",", "").split()) == "It is red. The mill is old."


def test_one_of_the_documents_of_a_label_supports_its_marker() -> None:
    known = KnownLabels({"1": (0, 1), "2": (2,)})
    documents = tuple(map(Document, ("Red.", "Old.", "New.")))
    markers = read_markers("It is red [1] [2].", known, documents).markers
    effects: dict[int, bool | None] = {0: False, 1: True, 2: False}
    audit = markers_of(markers, effects.get)
    assert [(m.document, m.supported) for m in audit] == [(1, True), (2, False)]
    effects = {0: False, 1: None, 2: None}
    audit = markers_of(markers, effects.get)
    assert [(m.document, m.supported) for m in audit] == [(0, None), (2, None)]


HARBOUR = (
    "The harbour crane lifts 40 tonnes.",
    "The pilot boat leaves at six.",
    "The ice house was closed in 1911.",
)
ADDRESSES = tuple(f"https://orm.example/{name}" for name in ("crane", "guide", "town"))


def sentences_with_documents(
    answer: str, form: str = "[{}] {}", labels: Iterable[object] = (1, 2, 3)
) -> list[tuple[str, list[int | None]]]:
    """The judged sentences, each with the documents that the markers in it cite."""
    marked = markers_in(answer, labelled(form, labels, HARBOUR))
    spans = handmade(answer, HARBOUR, {}).token_spans
    markers = markers_of(marked.markers)
    return [
        (
            sentence.plain_text.strip(),
            [m.document for m in markers if sentence.start <= m.start < sentence.end],
        )
        for sentence in sentences_of(ResponseText(answer, spans), marked)
        if sentence.is_judged
    ]


_, BOAT, ICE = HARBOUR


@pytest.mark.parametrize(
    "answer",
    [
        f"[2] {BOAT} [3] {ICE}",
        f"[2] {BOAT}\n\n[3] {ICE}",
        f"[2] {BOAT[:-1]}\n[3] {ICE[:-1]}",
        f"- [2] {BOAT}\n- [3] {ICE}",
        f"**[2]** {BOAT} **[3]** {ICE}",
        f"[2]\n{BOAT}\n\n[3]\n{ICE}",
        f"(Source 2) {BOAT} (Source 3) {ICE}",
        f"This is what I found:\n\n[2] {BOAT}\n[3] {ICE}",
        f"{BOAT} [2] {ICE} [3]",
        f"{BOAT} [2]\n\n{ICE}\n[3]",
        f"[2] {BOAT[:-1]} [2]. {ICE} [3]",
    ],
)
def test_the_habit_of_the_answer_says_whether_markers_lead(answer: str) -> None:
    said = sentences_with_documents(answer)
    assert ["".join(filter(str.isalnum, text)) for text, _ in said] == [
        "".join(filter(str.isalnum, text)) for text in (BOAT, ICE)
    ]
    assert [{*documents} for _, documents in said] == [{1}, {2}]


def test_a_leading_marker_may_be_the_subject_of_its_sentence() -> None:
    said = sentences_with_documents("[2] says that it leaves. [3] says that it was closed.")
    assert [documents for _, documents in said] == [[1], [2]]


@pytest.mark.parametrize(
    ("answer", "words", "documents"),
    [
        ("It leaves at six [1]({guide}).", "It leaves at six .", [1]),
        ("It leaves at six [source]({guide}).", "It leaves at six .", [1]),
        ("It leaves at six ([orm.example]({guide})).", "It leaves at six .", [1]),
        ("It leaves at six. [The guide]({guide}#page=2)", "It leaves at six.", [1]),
        ("The [boat]({guide}) leaves at six.", "The [boat leaves at six.", [1]),
        ("It leaves at six <{guide}>.", "It leaves at six .", [1]),
        ("It leaves at six [1].\n\nSources:\n[1] {guide}", "It leaves at six .", [1]),
        ("It leaves at six.[^1]\n\n[^1]: [Guide]({guide})", "It leaves at six.", [1]),
    ],
)
def test_an_address_decides_before_a_number(
    answer: str, words: str, documents: list[int | None]
) -> None:
    shown = answer.format(guide=ADDRESSES[1])
    assert sentences_with_documents(shown, "URL: {}\n{}", ADDRESSES) == [(words, documents)]


def test_raised_digits_are_markers_but_after_units() -> None:
    answer = "It leaves at six.² It was closed¹ on 5 m²."
    assert sentences_with_documents(answer) == [
        ("It leaves at six.", [1]),
        ("It was closed on 5 m².", [0]),
    ]


def test_tags_around_a_marked_text_belong_to_it() -> None:
    answer = 'The boat <co: 2>leaves at six</co: 2>. <cite id="3">It was closed</cite> in 1911.'
    assert sentences_with_documents(answer) == [
        ("The boat leaves at six.", [1]),
        ("It was closed in 1911.", [2]),
    ]


def test_tags_that_cite_may_close_side_by_side() -> None:
    answer = "The <co: 1>boat <co: 2>leaves</co: 2></co: 1> at six."
    assert sentences_with_documents(answer) == [("The boat leaves at six.", [1, 0])]


def test_what_private_use_characters_enclose_is_no_sentence() -> None:
    answer = "It leaves at six. \ue200cite\ue202turn7\ue201 It was closed in 1911."
    assert [text for text, _ in sentences_with_documents(answer)] == [
        "It leaves at six.",
        "It was closed in 1911.",
    ]
