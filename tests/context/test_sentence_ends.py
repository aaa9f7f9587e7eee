"""Sentences in languages other than English, and the units of JSON, YAML, mails and logs."""

import json

import pytest
from support.attributions import handmade

from attribot_rag.context import ContextOptions, TokenizedText, locate_context
from attribot_rag.context.splitting.splitter import language_of, sentences
from attribot_rag.result.citations import cite

SENTENCES = [
    # a full stop ends a sentence before a digit or after a bracket, too
    ["渡轮于六点开航。", "38米是塔的高度！", "60人住在岛上。"],
    ["（渡し船は赤い。）", "塔は高い。"],
    ["他走了（见图3。）", "然后回来。", "【注：旧。】", "新的在此。"],
    ["पुल 1912 में बना।", "1950 में टूटा।", "नया पुल लाल है॥", "3 लोग आए।"],
    ["متى بُنيت المنارة؟", "1912 هو عام بنائها. ", "ثم أُغلقت."],
    ["彼は「はい。」と言った。", "船は出た。"],
    # the language is detected
    ["Die Fähre fährt seit dem 28. Oktober in der 2. Saison. ", "Sie ist rot."],
    ["Das steht in § 7 Abs. 1 Nr. 4 und in Art. 12 des Gesetzes. ", "Es gilt z. B. im Hafen."],
    ["Silta avattiin 6. kesäkuuta. ", "Se on uusi ja punainen."],
    ["Most byl otevřen 6. června podle čl. 5 odst. 2 zákona. ", "Je nový."],
    ["Ποιος έχτισε τον φάρο; ", "Ο φάρος χτίστηκε το 1912. ", "Πόσο ψηλός είναι;"],
    ["Hän astui laivaan satamassa. ", "”Meri on tyyni”, hän sanoi."],
    ["The ferry left at 6 p.m. ", "Dr. Holm was aboard."],
    # Thai ends in spaces, and its short phrases stay together
    [
        "เรือข้ามฟากสีแดงออกจากท่าเรือเก่าทุกวันเวลาหกโมงเช้า ",
        "หอคอยบนเกาะสูง 38 เมตรและสร้างขึ้นเมื่อหนึ่งร้อยปีก่อนโดยชาวประมง ",
        "ชาวเกาะมี 60 คน",
    ],
    # lines of JSON, and JSON that was cut
    ['{"id": 1, "text": "One. Two."}\n', '{"id": 2, "text": "One. Two."}\n'],
    ['"built": 1912,\n', '"owner": {\n  "town": "Holm"\n},\n', '"about": "It is r'],
    # entries of YAML, settings, mails
    ["name: Vega\n", "owner:\n  town: Holm\n", "  since: 1950\n", "on:\n  - 1\n", "  - 2\n"],
    ["---\nabout: |\n  It is red. ", "It leaves\n  at six.\n", "built: 1912\n"],
    ["HOST=localhost\n", "PORT=8000\n"],
    ["From: A. Holm\n", "To: B. Lund\n", "Subject: Fares\n\n", "The fare is 18. ", "Pay it."],
    ["**Built:** 1912\n", "**Owner:** Holm\n"],
    # records of a log
    [
        "2031-05-01T12:00:01Z INFO Pump on. Pressure 3. OK.\n",
        "2031-05-01T12:00:02Z ERROR Valve. Closed.\nTraceback:\n  in pump\nValueError\n",
        "2031-05-01T12:00:03Z INFO Off.",
    ],
    ["May  1 12:00:01 isle pump[7]: on. Go.\n", "May  1 12:00:02 isle pump[7]: off\n"],
    ["[ERROR] Valve. Closed.\n", "[INFO] Open. Now.\n\n", "That was all. ", "Call us."],
    [
        '10.0.0.1 - - [10/Oct/2031:13:55:36 +0000] "GET /a. B"\n',
        '10.0.0.2 - - [10/Oct/2031:13:55:37 +0000] "GET /"\n',
    ],
]


@pytest.mark.parametrize("pieces", SENTENCES)
def test_a_text_is_cut_where_its_readers_see_an_end(pieces: list[str]) -> None:
    assert sentences("".join(pieces)) == pieces


FERRY = {
    "name": "Vega",
    "built": 1912,
    "owner": {"town": "Holm", "since": 1950},
    "about": "It is red. It leaves at six.",
    "trips": [{"day": "Monday", "fare": 18}, {"day": "Sunday", "fare": 20}],
}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("fence", ["{}", "```json\n{}\n```", "The ferry:\n\n{}\n"])
def test_members_and_records_of_json(indent: int | str | None, fence: str) -> None:
    text = fence.format(json.dumps(FERRY, indent=indent))
    pieces = [" ".join(piece.split()) for piece in sentences(text)]
    assert "".join(sentences(text)) == text
    facts = ['"Vega"', "1912", '"Holm"', "is red.", "at six.", '"Monday"', '"Sunday"']
    (counts,) = {tuple(sum(fact in piece for fact in facts) for piece in pieces if piece[0] != "T")}
    assert counts == (1,) * len(facts)


@pytest.mark.parametrize(
    "text",
    [
        "The fare is due at once. It is 18\nand the rest: nothing at\nall.",
        'Set it to {"a": "b. C", "d": 1} now.',
        "He came at\n12:00:01 by train.",
        "See [1] there.\n[2] is a note.",
    ],
)
def test_prose_with_such_marks_is_prose(text: str) -> None:
    assert not any(piece.endswith("\n") for piece in sentences(text)[:-1])


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Der Turm steht auf der Insel und wurde 1912 gebaut.", "de"),
        ("La tour est sur l'île, elle a été construite en 1912.", "fr"),
        ("Башня стоит на острове, её построили в 1912 году.", "ru"),
        ("塔は島に立っていて、1912年に建てられた。", "ja"),
    ],
)
def test_short_answers_have_the_language_of_the_documents(text: str, language: str) -> None:
    assert language_of(text) == language
    assert language_of("1912.", ["38", text, "It is an English text about a tower."]) == language
    assert language_of("1912.") == "en"


def test_an_option_tells_the_language() -> None:
    text = "Viz čl. 5 a Dr. Holm. Konec."
    context = locate_context(TokenizedText((), text, ()), [text], ContextOptions(language="cs"))
    assert context.answer_language("It is an answer in English.") == "cs"


def test_an_answer_is_cut_in_the_language_of_its_documents() -> None:
    document = "Der Turm steht auf der Insel. Er wurde am 28. Oktober eröffnet."
    attribution = handmade("Am 28. Oktober.", [document], {document: (3.0,)})
    assert [
        attribution.response[sentence.start : sentence.end] for sentence in cite(attribution)
    ] == ["Am 28. Oktober."]
