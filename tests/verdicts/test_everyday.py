"""Ordinary answers of the real model, given so that their causes are known."""

from collections.abc import Callable, Sequence

import pytest

from attribot_rag import Attribution, Attributor, Budget, Document, LocalModel
from attribot_rag.attributor.prompts import rag_prompt

FERRY = "The ferry Kittiwake carries up to 84 passengers. A ferry ticket costs 18 crowns."
MUSEUM = "The museum is open on Sundays. Entry costs 9 crowns."


@pytest.fixture(scope="module")
def attributor(smollm2: LocalModel) -> Attributor:
    return Attributor(smollm2, progress=False)


def attribute(
    attributor: Attributor,
    question: str,
    documents: Sequence[str],
    answer: str,
    shown: Callable[[str], str] = str,
) -> Attribution:
    """The answer to a prompt that holds the documents as they are `shown`."""
    texts = [shown(text) for text in documents]
    prompt = rag_prompt(question, [*map(Document, texts)], chat=True)
    return attributor.attribute(prompt, answer, documents)


def cited(attribution: Attribution, sentence: int = 0) -> list[str]:
    ids = attribution.verdicts[sentence].source_ids
    return sorted(attribution.sources[index].text.strip().casefold() for index in ids)


def test_either_means_that_any_one_alone_suffices(attributor: Attributor) -> None:
    attribution = attribute(
        attributor,
        "Who carries the mail?",
        [
            "The ferry Kittiwake carries the mail to Osk. It leaves at nine.",
            "Mail to the island of Osk is carried by the ferry Kittiwake.",
            "The museum is shut.",
        ],
        "The ferry Kittiwake carries the mail to Osk.",
    )
    assert (attribution.verdicts[0].kind, attribution.verdicts[0].relation) == (
        "redundant",
        "either",
    )
    assert cited(attribution) == [
        "mail to the island of osk is carried by the ferry kittiwake.",
        "the ferry kittiwake carries the mail to osk.",
    ]


@pytest.mark.parametrize(
    ("question", "leading", "holding", "answer"),
    [
        (
            "Which fuel does the oven of the bakery in Tolm need?",
            "The oven of the bakery in Tolm is a Garrow Seven.",
            "The Garrow Seven needs beech pellets.",
            "The oven of the bakery in Tolm is a Garrow Seven, which needs beech pellets.",
        ),
        (
            "Which ink does the printer of the school in Marl take?",
            "The printer of the school in Marl is a Quist 400.",
            "The Quist 400 takes green ink only.",
            "The printer of the school in Marl is a Quist 400, which takes green ink only.",
        ),
    ],
)
def test_what_leads_from_the_question_to_the_answer_is_cited_too(
    attributor: Attributor, question: str, leading: str, holding: str, answer: str
) -> None:
    documents = [holding, f"{leading} It is old.", "The museum is shut."]
    attribution = attribute(attributor, question, documents, answer)
    assert cited(attribution) == sorted(text.casefold() for text in (leading, holding))


LONG = (
    "**The ferry** Kittiwake carries up to 84 passengers.\nA ferry ticket costs `18` crowns, and "
    "there is *no* discount for groups. " + "The harbour is old and has a long quay of stone. " * 6
)


@pytest.mark.parametrize(
    "shown",
    [
        lambda text: text[:150],
        lambda text: text.replace("*", "").replace("`", ""),
    ],
    ids=["shortened", "stripped"],
)
def test_documents_that_a_chain_changed(
    attributor: Attributor, shown: Callable[[str], str]
) -> None:
    attribution = attribute(
        attributor,
        "What does a ferry ticket cost?",
        [MUSEUM, LONG],
        "A ferry ticket costs 18 crowns.",
        shown,
    )
    assert attribution.not_located == ()
    assert attribution.verdicts[0].kind == "grounded"
    (text,) = cited(attribution)
    assert text.startswith("a ferry ticket") or "a\nferry\nticket" in text


ORCHARD = "The orchard belongs to the school. Apples are sold in autumn."
PASS = "The ferry Kittiwake sells a yearly pass for 212 crowns at the harbour office in Osk."
RAG = "{documents}\n\nGiven the context, answer the query.\nQuery: {question}\nAnswer: "
SYSTEM = (
    "You are an assistant for question-answering tasks. Use the following pieces of retrieved "
    "context to answer the question. If you don't know the answer, say that you don't know.\n\n"
    "{documents}"
)
QUESTION = "What does a yearly pass for the ferry cost?"


@pytest.mark.slow
@pytest.mark.parametrize("rewritten", ["", "Year's ticket, Kittiwake ferry: 212 crowns (Osk)."])
@pytest.mark.parametrize("template", ["one message", "a system message"])
def test_a_document_that_the_prompt_lacks(
    attributor: Attributor, template: str, rewritten: str
) -> None:
    """An invented sentence is no document's, unless the prompt tells one in other words."""
    shown = "\n\n".join([ORCHARD, rewritten]).strip()
    messages = {
        "one message": [
            {"role": "user", "content": RAG.format(documents=shown, question=QUESTION)}
        ],
        "a system message": [
            {"role": "system", "content": SYSTEM.format(documents=shown)},
            {"role": "user", "content": QUESTION},
        ],
    }[template]
    answer = f"A yearly pass costs {212 if rewritten else 540} crowns."
    passes = Document(PASS, "26a02640-f66d-4830-8beb-e269345132e7", {"source": "passes.md"})
    attribution = attributor.attribute(messages, answer, [ORCHARD, passes])
    assert attribution.not_located == (1,)
    expected = ("open", "not_located") if rewritten else ("unsupported", None)
    assert (attribution.verdicts[0].kind, attribution.verdicts[0].reason) == expected
    (note,) = [note for note in attribution.notes if "did not receive" in note]
    assert "1 of 2 documents (passes.md)" in note


SPA = """## Spa Tessaline

The spa is on the lower deck, behind the boat hall.

- Sauna: 9:00 to 21:30, 14 talers
- Salt bath: 10:00 to 19:00, 22 talers
- Massage by Ilka Drumm: 55 minutes for 71 talers
- Towels: free, at the counter
"""
ROOMS = """| Room | Beds | Price per night |
|---|---|---|
| Gullwing | 2 | 148 talers |
| Lanternfish | 3 | 193 talers |
| Driftwood | 4 | 211 talers |
"""
CAR_PARK = "A place in the car park costs 17 talers a night. There are 62 places."
SHUTTLE = "The shuttle leaves at 8:25 and 14:10. A seat costs 6 talers."
PETS = "Dogs are welcome for 11 talers a night."
TICKET, LIGHTHOUSE = "A ticket costs 18 crowns.", "The lighthouse is 38 metres high."
BOTH = (
    "What does a ticket cost, and how high is the lighthouse?",
    "A ticket costs 18 crowns, and the lighthouse is 38 metres high.",
)
CITED: dict[str, tuple[str, str, list[str], list[str]]] = {
    "a distractor of the same type is not either": (
        "What does a ferry ticket cost?",
        "A ferry ticket costs 18 crowns.",
        [FERRY, MUSEUM],
        ["A ferry ticket costs 18 crowns."],
    ),
    "a price that differs in a short word is not either": (
        "What does a sauna ticket cost for an adult?",
        "A sauna ticket for an adult costs two crowns.",
        [
            "A sauna ticket for an adult costs two crowns. Towels are free.",
            "Flyer of 2015. A sauna ticket for an adult costs ten crowns.",
        ],
        ["A sauna ticket for an adult costs two crowns."],
    ),
    "a price that differs in its first digit is not either": (
        "大人のサウナ券はいくらですか。",
        "大人のサウナ券は600円です。",
        [
            "大人のサウナ券は600円です。タオルは無料です。",
            "2015年のチラシ。大人のサウナ券は400円です。",
        ],
        ["大人のサウナ券は600円です。"],
    ),
    "both facts of a sentence": (*BOTH, [LIGHTHOUSE, TICKET], [TICKET, LIGHTHOUSE]),
    "the unit that all prices share does not hide whose number it is": (
        "How much does the salt bath cost?",
        "The salt bath costs 22 talers.",
        [SPA],
        ["- Salt bath: 10:00 to 19:00, 22 talers"],
    ),
    "a cell of a table, though other rows give the unit": (
        "How much does the Lanternfish room cost per night?",
        "The Lanternfish room costs 193 talers per night.",
        [ROOMS, CAR_PARK],
        ["| Lanternfish | 3 | 193 talers |"],
    ),
    "an invented price, though the context gives its unit": (
        "How much is the helicopter tour?",
        "The helicopter tour costs 530 talers.",
        [SHUTTLE, PETS, CAR_PARK],
        [],
    ),
}


@pytest.mark.parametrize("name", CITED)
def test_the_cited_sentences(attributor: Attributor, name: str) -> None:
    question, answer, documents, expected = CITED[name]
    attribution = attribute(attributor, question, documents, answer)
    assert cited(attribution) == sorted(text.casefold() for text in expected)
    assert attribution.verdicts[0].kind == ("grounded" if expected else "unsupported")
    assert expected or (attribution.verdicts[0].reliance or 0) > 10


def test_every_value_of_a_structured_answer_has_its_own_verdict(attributor: Attributor) -> None:
    values = ['"Kittiwake"', "84", '"18 crowns"', '"Peter Svenson"']
    answer = (
        f'{{"ferry": {values[0]}, "passengers": {values[1]}, "ticket": {values[2]}, '
        f'"captain": {values[3]}}}'
    )
    question = "Describe the ferry in JSON: ferry, passengers, ticket, captain."
    attribution = attribute(attributor, question, [FERRY, MUSEUM], answer)
    verdicts = [verdict for verdict in attribution.verdicts if verdict.kind != "trivial"]
    assert [answer[verdict.start : verdict.end] for verdict in verdicts] == values
    assert [verdict.kind for verdict in verdicts[1:3]] == ["grounded", "grounded"]
    texts = [
        [attribution.sources[i].text.strip() for i in verdict.source_ids] for verdict in verdicts
    ]
    assert texts[1] == ["The ferry Kittiwake carries up to 84 passengers."]
    assert texts[2] == ["A ferry ticket costs 18 crowns."]
    assert texts[3] == []  # made up


@pytest.mark.parametrize(
    ("document", "invented"),
    [
        ("The Ambel road was paved in 1938. Trucks use it.", "It is 12 kilometres long."),
        ("The Dray mine belongs to Otto Finn. Tin is mined there.", "It is 400 metres deep."),
    ],
)
def test_an_invented_number_does_not_follow(
    attributor: Attributor, document: str, invented: str
) -> None:
    """The sentence before gives its topic, which makes its words likely, but not the number."""
    first = document.split(". ")[0].rstrip(".") + "."
    attribution = attribute(
        attributor, "What is known of it?", [document, "The lake is cold."], f"{first} {invented}"
    )
    assert [verdict.kind for verdict in attribution.verdicts] == ["grounded", "unsupported"]


@pytest.mark.parametrize(
    ("document", "invented"),
    [
        ("Groups of 30 pupils pay less.", "There is a 5 % discount for groups of 30 pupils."),
        ("The Sorrel hall has 200 seats.", "The 200 seats of the Sorrel hall stand in 7 rows."),
    ],
)
def test_an_invented_number_beside_one_that_was_said_does_not_follow(
    attributor: Attributor, document: str, invented: str
) -> None:
    attribution = attribute(
        attributor,
        "What is known of it?",
        [document, "The lake is cold."],
        f"{document} {invented}",
    )
    assert attribution.verdicts[0].kind == "grounded"
    assert attribution.verdicts[1].kind != "follows"


def test_a_number_that_was_said_follows(attributor: Attributor) -> None:
    attribution = attribute(
        attributor,
        "What does the tram to Lowick cost?",
        ["The tram to Lowick costs 4 pounds.", "The lake is cold."],
        "The tram to Lowick costs 4 pounds. So you need 4 pounds for the tram to Lowick.",
    )
    assert [verdict.kind for verdict in attribution.verdicts] == ["grounded", "follows"]


@pytest.mark.parametrize(
    ("first", "invented"),
    [
        (
            "The ferry Kittiwake carries up to 84 passengers.",
            "The Kittiwake was painted by artists.",
        ),
        ("The observatory was founded by Lena Brask in 1908.", "Lena Brask also wrote a cookbook."),
        ("La escuela de Aldby tiene 210 alumnos.", "La escuela de Aldby cocina para los vecinos."),
    ],
)
def test_what_shares_a_name_alone_does_not_follow(
    attributor: Attributor, first: str, invented: str
) -> None:
    attribution = attribute(
        attributor, "What is known of it?", [first, "The lake is cold."], f"{first} {invented}"
    )
    assert attribution.verdicts[0].kind == "grounded"
    assert attribution.verdicts[1].kind == "unsupported"


@pytest.mark.parametrize(
    ("first", "conclusion"),
    [
        ("The pool is closed on Tuesdays.", "So you cannot swim there on Tuesdays."),
        (
            "The lighthouse is 38 metres high, and the church tower is 31 metres high.",
            "Therefore the lighthouse is higher than the church tower.",
        ),
    ],
)
def test_a_conclusion_follows(attributor: Attributor, first: str, conclusion: str) -> None:
    attribution = attribute(
        attributor, "What is known of it?", [first, "The lake is cold."], f"{first} {conclusion}"
    )
    assert [verdict.kind for verdict in attribution.verdicts] == ["grounded", "follows"]


SHOPS = [
    MUSEUM,
    "The library lends books for three weeks. It has a cafe.",
    "The tram to Lowick runs every ten minutes. It stops at the harbour.",
    FERRY,
]


SUMMARY = "Public transport and culture are available: trams, boats, museums, libraries."


@pytest.mark.parametrize(
    ("question", "answer", "is_settled"),
    [
        ("What does a ferry ticket cost?", "A ferry ticket costs 18 crowns.", True),
        ("Summarize.", SUMMARY, False),
    ],
)
def test_sources_are_estimated_where_the_words_that_they_hold_do_not_settle_a_sentence(
    attributor: Attributor, question: str, answer: str, is_settled: bool
) -> None:
    attribution = attribute(attributor, question, SHOPS, answer)
    (verdict,) = attribution.verdicts
    assert verdict.kind == "grounded"
    scored = [index for index, row in enumerate(attribution.token_scores) if row is not None]
    assert scored == ([*verdict.source_ids] if is_settled else [*range(8)])
    assert any(attribution.estimated) != is_settled
    assert not any("score" in note for note in attribution.notes)  # it is nothing to know first


def test_a_budget_that_ended_is_no_reason_to_say_that_the_context_hardly_matters(
    smollm2: LocalModel,
) -> None:
    question, answer = "What does a ferry ticket cost?", "A ferry ticket costs 18 crowns."
    full = attribute(Attributor(smollm2, progress=False), question, SHOPS, answer)
    budget = Budget(tokens=full.provenance.prefilled_tokens + 60)
    limited = attribute(Attributor(smollm2, budget=budget, progress=False), question, SHOPS, answer)
    assert limited.incomplete and not any(limited.token_scores)
    assert limited.verdicts[0].reliance == pytest.approx(full.verdicts[0].reliance, abs=1e-2)
    assert any("budget" in note for note in limited.notes)


SPOKEN_AGAINST = (
    "Use the context to answer the question in one sentence.\n\nContext:\n{}\n\nQuestion: {}"
)
DELIVERY = (
    "Standard delivery takes four working days inside Belgium. Express delivery takes one day and "
    "costs 19 euros. Parcels above 30 kg are brought by a carrier."
)


@pytest.mark.parametrize(
    ("documents", "question", "answer"),
    [
        (
            [
                "The tower is one hundred and twelve metres tall.",
                "The church is 64 metres tall and the mill 22 metres.",
            ],
            "How tall is the tower?",
            "The tower is 112 m tall.",
        ),
        (
            [
                "Members pay half the price on weekdays.",
                "Children pay 25 percent less on Sundays.",
            ],
            "What discount do members get?",
            "Members get 50 % off.",
        ),
        (
            [
                "The guarantee of every Osk kettle is eleven years. Lids of the model Finn are "
                "covered for 18 months. Complaints go to the shop in Oslo.",
                DELIVERY,
            ],
            "How long is the kettle guarantee?",
            "The kettle guarantee is 11 years.",
        ),
    ],
)
def test_a_source_with_an_exact_effect_is_cited_however_little_the_context_is_worth(
    attributor: Attributor, documents: list[str], question: str, answer: str
) -> None:
    """Other documents speak against these answers, which put their source in other words."""
    prompt = SPOKEN_AGAINST.format("\n\n".join(documents), question)
    attribution = attributor.attribute([{"role": "user", "content": prompt}], answer, documents)
    (verdict,) = attribution.verdicts
    assert (verdict.kind, cited(attribution)) == (
        "grounded",
        [documents[0].partition(". ")[0].rstrip(".").casefold() + "."],
    )
    assert (verdict.effect or 0.0) >= 4.0 > (verdict.reliance or 0.0) - 2.0
    assert attribution.exact[verdict.source_ids[0]]
