"""Support beside cause: whether the text that a sentence cites says it."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.attributions import handmade, supported, verdicts_of

from attribot_rag import Attribution, Document
from attribot_rag.annotation import sentences
from attribot_rag.attribution import Check, Verdict
from attribot_rag.display import answer_data
from attribot_rag.errors import InvalidInput
from attribot_rag.result.summary import summarize
from attribot_rag.result.verdict import MissingWord
from attribot_rag.runtime import Answer, AttributedRun, feedback_of
from attribot_rag.support.wording import Wording

GUARANTEE = "The guarantee lasts 24 months from the day of purchase."
RENT = "The monthly rent is 840 euros."
NOTICE = "The tenant gives notice three months before the end of a quarter."
OPEN = "The museum is open on Saturdays only."
FERRY = "The ferry Velmara carries 84 passengers."
HIGH = "The lighthouse is 38 metres high."
COOK = "The museum in Maren was built by Hilde Voss."
FILES = (
    Document(f"{GUARANTEE} Keep the receipt.", metadata={"title": "coffee-machine.md"}),
    Document(f"{RENT} {NOTICE}", metadata={"title": "lease.txt"}),
    Document(f"{OPEN} {COOK}", metadata={"title": "museum.md"}),
    Document(f"# Ferry\n\n{FERRY} It leaves at six.", metadata={"title": "boats.md"}),
    Document(HIGH),
)


def answered(
    answer: str, *cited: str | dict[str, Any] | None, question: str = "", files: Any = FILES
) -> Attribution:
    """An answer each sentence of which cites one sentence of a file, or has another verdict."""
    texts = [piece.strip() for file in map(Document.of, files) for piece in sentences(file.text)]
    named = dict.fromkeys(text for text in texts if text)
    verdicts = [
        text
        if isinstance(text, dict)
        else {"kind": "grounded", "source_ids": ([*named].index(text),)}
        if text
        else {"kind": "unsupported", "reliance": 0.5}
        for text in cited
    ]
    scores = {text: [9.0 * (text == own) for own in cited] for text in named}
    made = handmade(answer, files, scores, verdicts=verdicts_of(answer, *verdicts))
    return supported(made, question)


# Answers whose cause is right and that mislead, with what the cited text is said to lack.
MISLEADING = [
    ("How long is the notice?", "The tenant has 24 months to give notice.", GUARANTEE, "tenant"),
    ("What is cleaning?", "The price of window cleaning is 840 euros.", RENT, "window"),
    ("When is it closed?", "The museum is closed on Saturdays only.", OPEN, "closed"),
    ("Who runs the ferry?", "The ferry Velmara belongs to Hilde Voss.", FERRY, "Hilde"),
    ("Where is it?", "The coffee machine costs 24 crowns.", GUARANTEE, "crowns"),
    ("Wer baute es?", "Das Museum in Maren wurde von Odile Marn gebaut.", COOK, "Odile"),
]
SAID = [
    ("How long is the guarantee?", "The guarantee lasts 24 months.", GUARANTEE),
    ("How long is the guarantee of the coffee machine?", "It lasts twenty-four months.", GUARANTEE),
    ("What is the rent?", "The rent is 840 euros a month.", RENT),
    ("When must the tenant give notice?", "Three months before the end of a quarter.", NOTICE),
    ("When is the museum open?", "The museum opens on Saturdays only.", OPEN),
    ("How high is it?", "The lighthouse is 38 meters high.", HIGH),
    ("How many passengers does the ferry carry?", "It carries 84 passengers.", FERRY),
]


@pytest.mark.parametrize(("question", "answer", "cited", "lacks"), MISLEADING)
def test_an_answer_that_its_source_does_not_say_is_partial(
    question: str, answer: str, cited: str, lacks: str
) -> None:
    made = answered(answer, cited, question=question)
    (verdict,) = made.verdicts
    assert verdict.support is not None
    assert verdict.support.kind == "partial"
    words = [answer[word.start : word.end] for word in verdict.support.missing]
    assert lacks in words
    remark = made.to_cited_text().removeprefix(answer)
    assert remark.startswith(" (prompted by [1], which does not mention ")
    assert lacks in remark


@pytest.mark.parametrize(("question", "answer", "cited"), SAID)
def test_what_the_source_says_has_its_number_alone(question: str, answer: str, cited: str) -> None:
    made = answered(answer, cited, question=question)
    (verdict,) = made.verdicts
    assert verdict.support is not None
    assert verdict.support.kind == "full"
    assert made.to_cited_text() == f"{answer} [1]"


LEASH = "Dogs are allowed on board on a leash."


@pytest.mark.parametrize(
    ("answer", "missing"),
    [
        ("Dogs are not allowed on board on a leash.", ["not"]),
        ("Yes, dogs are not allowed on board on a leash.", ["not"]),
        ("Dogs are never really allowed on board on a leash.", ["never", "really"]),
        ("Dogs are allowed on board on a leash.", []),
        ("Yes, dogs are allowed on board on a leash.", []),
        ("Dogs are allowed on board.", []),
        ("Dogs on a leash are allowed on board.", []),
    ],
)
def test_a_word_amid_a_sentence_that_is_else_its_source_s_is_told(
    answer: str, missing: list[str]
) -> None:
    attribution = answered(
        answer, LEASH, question="Are dogs allowed?", files=(*FILES, Document(LEASH))
    )
    support = attribution.verdicts[0].support
    assert support is not None
    assert [answer[word.start : word.end] for word in support.missing] == missing
    assert support.kind == ("partial" if missing else "full")
    if missing == ["not"]:
        for shown in (attribution.to_cited_text(), attribution.to_table(width=300)):
            assert "which does not mention “not”)" in shown


def test_another_spelling_is_not_missing_and_a_name_that_is_makes_it_partial() -> None:
    answer = "The lighthouse of Skerry is 38 meters high and made of granite."
    files = (*FILES, Document("The people of Skerry fish. The boats of Skerry are blue."))
    made = answered(answer, HIGH, files=files)
    support = made.verdicts[0].support
    assert support is not None
    assert support.kind == "partial"
    assert [answer[word.start : word.end] for word in support.missing] == ["Skerry", "granite"]


@pytest.mark.parametrize(
    ("answer", "cited", "value", "own", "text"),
    [
        ("The ferry Velmara carries 48 passengers.", FERRY, "84", "48", "[1] (84 in [1])"),
        ("The monthly rent is 480 euros.", None, "840", "480", "(840 in [1])"),
        ("The museum in Maren was built by Odile Marn.", COOK, "Hilde Voss", "Odile Marn", "[1]"),
        ("The tenant gives notice two months before.", NOTICE, "three", "two", "(three in [1])"),
    ],
)
def test_another_value_of_the_same_thing_contradicts(
    answer: str, cited: str | None, value: str, own: str, text: str
) -> None:
    made = answered(answer, cited)
    support = made.verdicts[0].support
    assert support is not None
    assert support.kind == "contradicted"
    (rival,) = support.rivals
    assert (rival.value, answer[rival.start : rival.end]) == (value, own)
    where = made.documents[rival.document].text[rival.document_start : rival.document_end]
    assert value in where
    assert text in made.to_cited_text()


@pytest.mark.parametrize(
    "answer",
    [
        "The ferry carries 84 passengers and the museum opens at 10.",
        "The guarantee lasts 24 months.",
        "Nobody knows 12 tenants.",
    ],
)
def test_other_numbers_of_other_things_are_no_rivals(answer: str) -> None:
    support = answered(answer, None).verdicts[0].support
    assert support is not None
    assert not support.rivals


def test_a_number_of_another_thing_in_the_cited_text_is_told() -> None:
    fares = "A ticket costs 18 crowns, and 9 crowns for children under fourteen."
    wrong = answered(fares.replace("fourteen", "18"), fares, files=[fares])
    assert wrong.to_cited_text().endswith("under 18. [1] (fourteen in [1])")
    right = answered(fares.replace("fourteen", "14"), fares, files=[fares])
    assert right.to_cited_text().endswith("under 14. [1]")


def test_the_number_of_a_list_item_is_no_part_of_what_it_says() -> None:
    made = answered("1. The monthly rent is 840 euros.", RENT)
    assert made.to_cited_text() == "1. The monthly rent is 840 euros. [1]"
    support = made.verdicts[0].support
    assert support is not None and support.kind == "full"


def test_a_german_noun_is_no_name() -> None:
    """Or another noun in its place would be a contradiction."""
    file = "Die Fähre hat viele Sitze für Gäste. Der Kapitän kennt die Insel und das Wetter gut."
    first, _ = sentences(file)
    made = answered("Die Fähre hat viele Kabinen für Gäste.", first.strip(), files=[file])
    support = made.verdicts[0].support
    assert support is not None
    assert support.kind != "contradicted"


def test_a_sentence_of_the_model_s_own_is_said_by_a_text_or_by_none() -> None:
    question = "What is the rent?"
    said = answered("The monthly rent is 840 euros.", None, question=question)
    assert said.to_cited_text() == "The monthly rent is 840 euros. (also in [1])"
    support = said.verdicts[0].support
    assert support is not None
    assert (support.kind, support.source_ids) == ("full", (2,))
    none = answered("Paris is the capital of France.", None)
    assert none.to_cited_text().endswith("France. (not in the 5 passages found)")
    led = answered("Paris is the capital.", {"kind": "unsupported", "reliance": 7.0})
    assert led.to_cited_text().endswith("(the documents led to this, but none says it)")
    alone = answered("Paris is the capital.", None, files=FILES[:1])
    assert alone.to_cited_text().endswith("(not in the passage found)")


def test_a_conclusion_has_the_support_of_what_it_follows_from() -> None:
    for answer, cited in (
        ("It carries 84 passengers. So it is a large ferry.", FERRY),
        ("It has 24 cabins. So it is a large ferry.", GUARANTEE),
    ):
        follows = {"kind": "follows", "follows": 0}
        first, second = answered(answer, cited, follows, question="How large is it?").verdicts
        assert first.support is not None
        assert second.support is not None
        assert first.support.kind == second.support.kind
        assert first.support.source_ids == second.support.source_ids


TICKET = "A ticket costs 18 crowns."


@pytest.mark.parametrize(
    ("conclusion", "rivals"),
    [
        ("So two tickets cost 36 crowns.", []),
        ("So the way there and back costs 36 crowns.", []),
        ("So a ticket costs 36 crowns.", ["18"]),
    ],
)
def test_a_premise_is_no_rival_of_its_conclusion(conclusion: str, rivals: list[str]) -> None:
    follows = {"kind": "follows", "follows": 0}
    made = answered(f"{TICKET} {conclusion}", TICKET, follows, files=(Document(TICKET),))
    support = made.verdicts[1].support
    assert support is not None
    assert [rival.value for rival in support.rivals] == rivals
    assert support.kind == ("contradicted" if rivals else "full")


PRICES = """| Service | Price |
|---|---|
| Copy | 1 euro |
| Passport photo | 20 euros |
"""


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ("20 euros", "full"),
        ("A photo costs 20 euros.", "full"),
        ("The photo costs **20 euros**.", "full"),
        ("Passport film: 20 euros", "partial"),
    ],
)
def test_a_row_of_a_table_says_a_value_without_a_verb(answer: str, kind: str) -> None:
    row = "| Passport photo | 20 euros |"
    made = answered(
        answer, row, question="What does a photo cost?", files=(Document(PRICES), *FILES)
    )
    support = made.verdicts[0].support
    assert support is not None
    assert support.kind == kind


@pytest.mark.parametrize(
    ("said", "score"), [("The ferry carries 40 passengers.", 1.0), ("It carries 48 of them.", 0.0)]
)
def test_in_traces_a_document_says_what_only_another_one_contradicts(
    said: str, score: float
) -> None:
    own, other = "The ferry carries 40 passengers.", "The ferry carries 84 passengers."
    made = answered(
        said, own, question="How many passengers?", files=(Document(own), Document(other))
    )
    support = made.verdicts[0].support
    assert support is not None and support.kind == ("contradicted" if score else "partial")
    feedback = feedback_of(AttributedRun("run", "root", Answer("", made.documents), made))
    assert feedback.score == score
    told = "It says 1. It contradicts 1." if score else "It says 0."
    assert f"Retrieved text led to 1 of 1 sentences. {told}" in feedback.explanation


def test_a_value_that_is_in_no_document_is_never_fully_supported() -> None:
    answer = "The ferry Velmara carries 84 passengers."
    made = answered(answer, FERRY)
    check = Check(start=26, end=28, kind="number", value="84", in_no_document=True)
    verdict = replace(made.verdicts[0], checks=(check,), support=None)
    again = supported(replace(made, verdicts=(verdict,)))
    assert again.verdicts[0].support is not None
    assert again.verdicts[0].support.kind == "partial"
    assert again.to_cited_text() == f"{answer} [1] (84 is in none of the passages found)"


def test_a_doubt_that_no_word_names_is_told() -> None:
    made = answered("The ferry Velmara carries 84 passengers.", FERRY)
    assert made.verdicts[0].support is not None
    doubt = replace(made.verdicts[0].support, kind="partial", verbatim=False)
    again = replace(made, verdicts=(replace(made.verdicts[0], support=doubt),))
    assert again.to_cited_text().endswith("(prompted by [1], which may not say this)")


DOG = "A dog costs 12 euros per night."
PARKING = "A parking space in the yard costs 9 euros per night."
SAUNA = "The sauna is open from 4 pm to 9 pm."
CLOSED = "It is closed on Mondays for maintenance."
KITCHEN = "The kitchen closes at 9 pm."
BAR = "The bar closes at midnight."
BICYCLES = "The bicycle rental is open from 9 am to 5 pm."
BREAKFAST = "Breakfast is included in the price of your room."
CHECK_IN = "Check-in is from 3 pm, and check-out is until 11 am."
DOOR = "The front door is locked at 11 pm."
HOTEL = (
    Document(f"A single room costs 78 euros per night. {DOG} {PARKING}"),
    Document(f"{SAUNA} {CLOSED} {KITCHEN} {BAR} {BICYCLES}"),
    Document(f"Welcome to our hotel by the river. {BREAKFAST} {CHECK_IN} {DOOR}"),
    Document(
        "Our cook bakes bread every morning. If you bring a dog, we charge 15 euros per night."
    ),
)


@pytest.mark.parametrize(
    ("answer", "cited", "kind", "told"),
    [
        ("A parking space costs 12 euros per night.", (DOG, PARKING), "contradicted", "(9 in [1])"),
        ("A parking space costs 12 euros per night.", (PARKING,), "contradicted", "(9 in [1])"),
        (
            "The bar closes at midnight, and the sauna is open from 9 am to 5 pm.",
            (BAR, BICYCLES),
            "partial",
            "(prompted by [1], which may not say this)",
        ),
        (
            "The hotel is closed on Mondays, and the front door is locked at 11 pm.",
            (CLOSED, DOOR),
            "partial",
            "(prompted by [1, 2], which may not say this)",
        ),
        (
            "The check-in is included in the price of your room.",
            (BREAKFAST, CHECK_IN),
            "partial",
            "(prompted by [1], which may not say this)",
        ),
        ("A dog costs 12 euros per night.", (DOG,), "contradicted", "[1] (15 in [2])"),
        (
            "A dog costs 12 euros and a parking space costs 9 euros per night.",
            (DOG, PARKING),
            "full",
            "[1]",
        ),
        (
            "The kitchen closes at 9 pm, and the bar closes at midnight.",
            (KITCHEN, BAR),
            "full",
            "[1]",
        ),
        (
            "The sauna is open from 4 pm to 9 pm, and it is closed on Mondays.",
            (SAUNA, CLOSED),
            "full",
            "[1]",
        ),
        ("The sauna is closed on Mondays.", (CLOSED,), "full", "[1]"),
    ],
)
def test_a_value_is_said_together_with_its_subject(
    answer: str, cited: tuple[str, ...], kind: str, told: str
) -> None:
    """Each word is in the cited text. What counts is whether one text has them together."""
    texts = [piece.strip() for file in HOTEL for piece in sentences(file.text)]
    verdict = {"kind": "grounded", "source_ids": tuple(map(texts.index, cited))}
    made = answered(answer, verdict, question=answer, files=HOTEL)
    support = made.verdicts[0].support
    assert support is not None
    assert support.kind == kind
    assert made.to_cited_text().endswith(told)


def test_a_label_before_a_colon_is_part_of_the_sentence() -> None:
    answer = "Window cleaning: 840 euros."
    made = answered(answer, RENT, question="How much is it?")
    assert made.verdicts[0].support is not None
    assert made.verdicts[0].support.kind == "partial"
    assert "does not mention Window, cleaning" in made.to_cited_text()


def test_words_of_the_question_alone_do_not_make_a_sentence_said() -> None:
    """The cited text has all words of the question that any text has, and few of the sentence."""
    cited = "Members can rent the large room of the club house for 75 euro per day."
    answer = "The club house is a luxury venue, designed to provide its members an exclusive life."
    question = "Was kostet es für Mitglieder, den Raum im Club House zu mieten?"
    files = (Document(f"{cited} A deposit must be paid in cash."), *FILES)
    made = answered(answer, cited, question=question, files=files)
    support = made.verdicts[0].support
    assert support is not None
    assert support.kind == "partial" and support.score is not None and support.score >= 0.22
    assert "does not mention luxury, venue" in made.to_cited_text()


def test_a_remark_names_no_word_that_the_document_has_elsewhere() -> None:
    rows = "Room 102 is cleaned on Monday by Marta. Room 103 is cleaned on Tuesday by Ivan."
    cited, answer = "Room 102 is cleaned on Monday by Marta.", "Room 103 is cleaned on Monday."
    made = answered(answer, cited, question="Who cleans room 103?", files=(Document(rows),))
    support = made.verdicts[0].support
    assert support is not None
    assert [(answer[word.start : word.end], word.in_same_document) for word in support.missing] == [
        ("103", True)
    ]
    assert "does not mention" not in made.to_cited_text()


def test_support_and_what_a_sentence_follows_from_have_to_fit_the_attribution() -> None:
    made = answered("The ferry Velmara carries 48 passengers.", FERRY)
    support = made.verdicts[0].support
    assert support is not None
    for wrong in (
        replace(support, source_ids=(99,)),
        replace(support, rivals=(replace(support.rivals[0], document=99),)),
        replace(support, missing=(MissingWord(start=0, end=99),)),
    ):
        with pytest.raises(InvalidInput, match="do not fit"):
            replace(made, verdicts=(replace(made.verdicts[0], support=wrong),))
    with pytest.raises(InvalidInput, match="do not fit"):
        replace(made, verdicts=(replace(made.verdicts[0], follows=0),))


def test_what_is_not_judged_has_no_support() -> None:
    kinds = ({"kind": "trivial"}, {"kind": "open", "reason": "cut"})
    assert [v.support for v in answered("Hello. It is", *kinds).verdicts] == [None, None]


@pytest.mark.parametrize(("question", "answer", "cited", "lacks"), MISLEADING)
def test_all_outputs_say_it_in_the_same_words(
    question: str, answer: str, cited: str, lacks: str
) -> None:
    """The page puts the file's name in the place of its number."""
    made = answered(answer, cited, question=question)
    (sentence,) = summarize(made)["sentences"]
    (remark,) = sentence["remarks"]
    assert lacks in remark["text"]
    assert made.to_cited_text() == f"{answer} ({remark['text']})"
    assert f"{answer} ({remark['text']})" in made.to_table(width=300)
    assert remark["text"] in made.to_markdown().replace("\\", "")
    data = answer_data(made, question=question)
    assert data["summary"]["sentences"][0]["remarks"] == [remark]
    assert Attribution.from_json(made.to_json()) == made
    assert json.loads(made.to_json())["verdicts"][0]["support"]["kind"] == "partial"


DUST = "Dust the cake with 20 grams of icing sugar."
LASTS = "It lasts 24 months from the day of purchase."
DOGS = "Dogs travel free of charge if they wear a muzzle."
OTHER = "Parking and laptops are extra.\nChildren sprinkle water in the pool."
HOUSEHOLD = (
    Document(f"{GUARANTEE} {LASTS}", metadata={"title": "machine.md"}),
    Document(f"{NOTICE}\n{OTHER}"),
    Document(f"{DUST} {DOGS} They travel at the back.", metadata={"title": "everyday.md"}),
    Document(
        "| Item | Price |\n|---|---|\n| Passport photo | 20 euros |\n| Films of a parking | 3 |"
    ),
    Document("- Berlin hotel: up to 150 euros\n- up to 84 people at a time\n- none", id="limits"),
    Document("Der Mieter zahlt die Miete am Ersten des Monats. Sie beträgt 840 Euro im Monat."),
)
BERLIN, PEOPLE = "- Berlin hotel: up to 150 euros", "- up to 84 people at a time"
PHOTO = "| Passport photo | 20 euros |"
MIETE, SIE = (
    "Der Mieter zahlt die Miete am Ersten des Monats.",
    "Sie beträgt 840 Euro im Monat.",
)
NOTICED = "How long does the tenant have to give notice?"
# What is in the file word for word, though it lacks words of the question.
SAID_BUT = [
    (NOTICED, GUARANTEE, GUARANTEE, "tenant, notice"),
    (NOTICED, "The guarantee lasts 24 months.", GUARANTEE, "tenant, notice"),
    (NOTICED, "**The guarantee lasts 24 months** from the day of purchase!", GUARANTEE, "tenant"),
    (NOTICED, "1. The guarantee lasts twenty-four months.", GUARANTEE, "tenant, notice"),
    ("What do children sprinkle in the pool?", DUST, DUST, "children, sprinkle"),
    ("Are laptops extra?", "Dogs travel free of charge.", DOGS, "laptops, extra"),
    ("What does parking cost?", "Passport photo: 20 euros", PHOTO, "parking"),
    ("What does parking cost?", "| Passport photo | 20 euros |", PHOTO, "parking"),
    ("What does parking cost?", "Berlin hotel: up to 150 euros", BERLIN, "parking"),
    ("Wann gibt der tenant notice?", MIETE, MIETE, "tenant, notice"),
]
# What takes its subject from the question, is only a part of what the file says, or says more.
NOT_SAID = [
    (NOTICED, "24 months.", GUARANTEE),
    (NOTICED, "24 months from the day of purchase.", GUARANTEE),
    (NOTICED, LASTS, LASTS),
    (NOTICED, "The tenant has 24 months to give notice.", GUARANTEE),
    (NOTICED, "The notice lasts 24 months.", GUARANTEE),
    (NOTICED, "The guarantee", GUARANTEE),
    ("How many children may be in the pool?", "Up to 84 people at a time.", PEOPLE),
    ("Where are children in the pool?", "They travel at the back.", "They travel at the back."),
    ("What does parking cost?", "20 euros", PHOTO),
    ("What is the parking tenant rent?", SIE, SIE),
]


def household(question: str, answer: str, cited: str) -> Attribution:
    texts = [GUARANTEE, LASTS, NOTICE, DUST, DOGS, "They travel at the back.", PHOTO, BERLIN]
    texts += [PEOPLE, MIETE, SIE, *OTHER.split("\n")]
    verdict = Verdict(start=0, end=len(answer), kind="grounded", source_ids=(texts.index(cited),))
    scores = {text: [9.0 * (text == cited)] for text in texts}
    return supported(handmade(answer, HOUSEHOLD, scores, verdicts=(verdict,)), question)


@pytest.mark.parametrize(("question", "answer", "cited", "lacks"), SAID_BUT)
def test_what_stands_word_for_word_is_said_and_what_it_lacks_of_the_question_is_told(
    question: str, answer: str, cited: str, lacks: str
) -> None:
    made = household(question, answer, cited)
    (sentence,) = summarize(made)["sentences"]
    (remark,) = sentence["remarks"]
    assert (remark["key"], sentence["standing"]) == ("says_but", "full")
    assert remark["text"].startswith(f"[1] says this, but does not mention {lacks}")
    assert f"({remark['text']})" in made.to_cited_text()
    assert f"({remark['text']})" in made.to_table(width=300)
    assert remark["text"] in made.to_markdown().replace("\\", "")
    assert made.to_table(width=300).startswith("Supported by the documents\n")
    page = answer_data(made, question=question)["summary"]["sentences"]
    assert page[0]["remarks"] == [remark]
    assert Attribution.from_json(made.to_json()) == made
    run = AttributedRun("run", "root", Answer("", HOUSEHOLD), made)
    assert feedback_of(run).label == "supported"


@pytest.mark.parametrize(("question", "answer", "cited"), NOT_SAID)
def test_what_says_too_little_alone_is_only_prompted(
    question: str, answer: str, cited: str
) -> None:
    made = household(question, answer, cited)
    (sentence,) = summarize(made)["sentences"]
    (remark,) = sentence["remarks"]
    assert (remark["key"], sentence["standing"]) == ("prompted", "partial")


def test_what_follows_from_a_sentence_that_is_said_is_in_no_doubt() -> None:
    answer = f"{GUARANTEE} So it is long."
    made = answered(answer, GUARANTEE, {"kind": "follows", "follows": 0}, question=NOTICED)
    first, second = summarize(made)["sentences"]
    assert (first["standing"], second["standing"]) == ("full", "full")
    assert [remark["key"] for remark in first["remarks"]] == ["says_but"]
    assert not second["remarks"]


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("The ferries carried 1,200.50 persons.", {"the", "ferri", "carri", "1200.5", "person"}),
        ("forty-two", {"42"}),
        ("at 14:30", {"at", "14:30"}),
        ("10² m", {"10", "²", "m"}),
    ],
)
def test_words_are_compared_by_their_stems_and_numbers_by_their_digits(
    text: str, keys: set[str]
) -> None:
    assert Wording("en").keys(text) == keys


def test_a_word_of_every_sentence_tells_nothing() -> None:
    wording = Wording("en", ["The ferry is red."] * 3)
    ferry, red = wording.content("ferry Red")
    assert wording.weight(ferry) < 0.2 * wording.weight(wording.content("captain")[0])
    assert wording.covered([ferry], {ferry.key}) == 1.0
    assert red.key == "red"


@pytest.mark.parametrize(
    ("language", "first", "second"),
    [("de", "Häusern", "Häuser"), ("fr", "chevaux", "cheval"), ("ru", "книгами", "книги")],
)
def test_stems_are_those_of_the_language(language: str, first: str, second: str) -> None:
    wording = Wording(language)
    assert wording.keys(first) == wording.keys(second)
    assert wording.has(Wording("xx").keys("walking"), "walk") or not Wording("xx").has({"x"}, "y")


@pytest.mark.parametrize(
    ("first", "second", "are_same"),
    [
        ("학교에", "학교는", True),  # to the school, the school
        ("물은", "물에서", True),  # the water, in the water
        ("전쟁은", "전기는", False),  # the war, the electricity
        ("대한민국은", "대통령은", False),  # South Korea, the president
    ],
)
def test_korean_words_may_differ_in_particles_but_not_after_the_first_syllable(
    first: str, second: str, are_same: bool
) -> None:
    assert Wording("ko").has({first}, second) is are_same
    assert Wording("ko").has({second}, first) is are_same


TEXTS = st.text(
    st.one_of(st.characters(), st.sampled_from("0123456789.,:'²½٣ \u202f#\n")), max_size=60
)


@given(TEXTS, TEXTS, TEXTS)
def test_any_texts_can_be_compared(answer: str, text: str, question: str) -> None:
    """Words lie where they say; the support fits its attribution, and JSON keeps it."""
    for word in Wording("en", [text]).words(answer):
        assert answer[word.start : word.end] == word.text != ""
    if not answer.strip() or not text.strip():
        return
    verdict = Verdict(start=0, end=len(answer), kind="grounded", source_ids=(0,))
    made = supported(handmade(answer, [text], {text: [9.0]}, verdicts=(verdict,)), question)
    assert made.verdicts[0].support is not None
    assert 0 <= (made.verdicts[0].support.score or 0) <= 1
    assert Attribution.from_json(made.to_json()) == made
    assert made.to_cited_text()
