"""What a prompt tells besides documents, and in which of its parts."""

from typing import Any

import pytest

from attribot_rag import Attributor, LocalModel
from attribot_rag.methods.limits import Limits
from attribot_rag.verdicts.origins import ContentWord, is_stated

MUSEUM = ["The Orrin museum opens at ten.", "Entry to the Orrin museum costs 9 crowns."]
FERRY = ["The ferry Kittiwake carries the mail to Osk.", "A ferry ticket costs 18 crowns."]
MILL = ["The Kessel mill grinds oats.", "The mill has three stones."]
HELPFUL = "You are a helpful assistant."
USER = "Known facts about the user:\n- name: Odile Marn\n- membership number: 48213"
LIBRARY = "You are the assistant of the Lowick library. Refunds are handled by Greta Lindqvist."


@pytest.fixture(scope="module")
def attributor(smollm2: LocalModel) -> Attributor:
    return Attributor(smollm2, progress=False)


def judged(attributor: Attributor, system: str, documents: list[str], *said: str) -> Any:
    """The verdict on the only sentence of an answer to a question."""
    question, answer = said
    messages = [{"role": "system", "content": system}] if system else []
    text = "\n\n".join([*documents, question])
    messages.append({"role": "user", "content": text})
    attribution = attributor.attribute(messages, answer, documents)
    (verdict,) = attribution.verdicts
    return verdict, attribution.to_cited_text().removeprefix(answer).strip()


@pytest.mark.parametrize(
    ("system", "documents", "question", "answer", "origin"),
    [
        (
            USER,
            MUSEUM,
            "What is my membership number?",
            "Your membership number is 48213.",
            "instructions",
        ),
        (
            LIBRARY,
            FERRY,
            "Who handles refunds?",
            "Refunds are handled by Greta Lindqvist.",
            "instructions",
        ),
        (
            "",
            FERRY,
            "We are a group of 23 pupils from Harwick. What do the tickets cost?",
            "You are a group of 23 pupils from Harwick.",
            "question",
        ),
    ],
    ids=["memory", "system message", "question"],
)
def test_a_sentence_that_the_prompt_tells(
    attributor: Attributor,
    system: str,
    documents: list[str],
    question: str,
    answer: str,
    origin: str,
) -> None:
    verdict, remark = judged(attributor, system, documents, question, answer)
    assert (verdict.kind, verdict.origin, verdict.source_ids) == ("conversation", origin, ())
    assert verdict.effect > 4
    assert remark == f"(from the {origin})"


def test_a_prompt_of_plain_text_has_parts_too(attributor: Attributor) -> None:
    prompt = "\n\n".join(
        ["The user is called Marek and lives in Durnholm.", *MUSEUM, "Where do I live?"]
    )
    attribution = attributor.attribute(f"{prompt}\nAnswer:", " You live in Durnholm.", MUSEUM)
    (verdict,) = attribution.verdicts
    assert (verdict.kind, verdict.origin) == ("conversation", "instructions")


@pytest.mark.parametrize(
    ("system", "documents", "question", "answer"),
    [
        (HELPFUL, MILL, "What is the capital of France?", "The capital of France is Paris."),
        (
            "",
            MILL,
            "I am planning a trip to Germany. What is the largest city there?",
            "The largest city in Germany is Berlin.",
        ),
        (
            "",
            MUSEUM,
            "My boat Finch is 37 metres long. How wide is the Orrin canal?",
            "The Orrin canal is 9 metres wide.",
        ),
        (
            "Use only the passages below. If the answer is not in the passages, say so.",
            MUSEUM,
            "What does a yearly pass cost?",
            "The passages do not say what a yearly pass costs.",
        ),
    ],
    ids=["memory", "a topic", "another number", "refusal"],
)
def test_a_sentence_that_the_prompt_only_asks_for(
    attributor: Attributor, system: str, documents: list[str], question: str, answer: str
) -> None:
    verdict, _ = judged(attributor, system, documents, question, answer)
    assert (verdict.kind, verdict.origin) == ("unsupported", None)


def test_a_sentence_of_a_document_stays_the_document_s(attributor: Attributor) -> None:
    verdict, _ = judged(
        attributor,
        "Entry to museums costs 5 crowns for pupils.",
        MUSEUM,
        "What does entry to the Orrin museum cost?",
        "Entry to the Orrin museum costs 9 crowns.",
    )
    assert (verdict.kind, verdict.origin, len(verdict.source_ids)) == ("grounded", None, 1)


def word(after: float, without: float, is_in_statements: bool = True, **fields: Any) -> ContentWord:
    return ContentWord(after, without, is_in_statements, **fields)


NAME = word(-0.5, -12.0, is_name=True)


@pytest.mark.parametrize(
    ("said", "stated"),
    [
        ([NAME], True),
        ([], False),
        ([NAME, word(-3.0, -3.2, is_in_statements=False)], True),
        ([NAME, word(0.0, -0.3)], True),
        ([NAME, word(-0.1, -0.3, is_in_statements=False, is_name=True)], False),
        ([NAME, word(-3.0, -2.5, is_in_statements=False, is_figure=True)], False),
        ([NAME, word(-3.0, -4.0, is_figure=True)], False),
        ([NAME, word(-0.1, -5.0, is_figure=True)], True),
        ([word(-0.1, -3.5)], False),
        ([word(-6.0, -13.0)], False),
        ([word(-0.1, -5.0), word(-9.0, -9.5)], False),
        (
            [
                word(-0.1, -8.0),
                word(-1.0, -1.0, is_in_statements=False),
                word(0.0, 0.0, is_in_statements=False),
            ],
            False,
        ),
    ],
    ids=[
        "a name",
        "nothing",
        "a word put otherwise",
        "a word that needs nothing",
        "a name from elsewhere",
        "a number from elsewhere",
        "a number that stays unlikely",
        "a number",
        "too little",
        "still unlikely",
        "most of it unlikely",
        "more words from elsewhere",
    ],
)
def test_words_that_carry_the_sentence(said: list[ContentWord], stated: bool) -> None:
    assert is_stated(said, Limits()) == stated


def test_an_agent_s_answer_is_to_the_question_before_what_its_tool_found(
    attributor: Attributor,
) -> None:
    messages = [
        {"role": "system", "content": "Below is the conversation of a person and an assistant."},
        {"role": "user", "content": "What does entry to the Orrin museum cost?"},
        {"role": "assistant", "content": "I need to look that up."},
        {"role": "user", "content": "\n".join(["Observation:", *MUSEUM])},
    ]
    attribution = attributor.attribute(
        messages, "Entry to the Orrin museum costs 9 crowns.", MUSEUM
    )
    (verdict,) = attribution.verdicts
    assert verdict.support is not None and verdict.support.kind == "full"
