"""Answers over everyday files that mislead, though their cause is right, by the real model."""

import json

import pytest

from attribot_rag import Attribution, Attributor, Document, LocalModel
from attribot_rag.attributor.prompts import rag_prompt
from attribot_rag.display import answer_data
from attribot_rag.result.summary import summarize

FILES = {
    "gym.md": "The gym opens at 6:30 on weekdays and at 8:00 on Saturdays. Members may bring one "
    "guest on Fridays.",
    "dishwasher.md": "The eco programme takes 3 hours and 20 minutes. Clean the filter monthly.",
    "insurance.md": "The household insurance covers water damage and theft of bicycles up to 1,200 "
    "euros. Damage has to be reported within seven days.",
    "library.md": "Books may be borrowed for four weeks, films for one week. The reading room is "
    "closed in August.",
    "bus.md": "The night bus N4 runs on Fridays and Saturdays only. Dogs travel free of charge.",
    "lawyer.md": "The lawyer charges 180 euros an hour.",
}
DOCUMENTS = [Document(text, name, {"title": name}) for name, text in FILES.items()]
# The question, the answer, and what it is told of it.
MISLEADING = [
    ("When does the gym open on Sundays?", "The gym opens at 8:00 on Sundays.", "Sundays"),
    ("How many guests may I bring?", "Members may bring three guests on Fridays.", "one in"),
    ("How long is the quick programme?", "The quick programme takes 3 hours.", "quick"),
    ("Are stolen laptops covered?", "It covers stolen laptops up to 1,200 euros.", "laptops"),
    ("How long may I borrow magazines?", "Magazines may be borrowed for four weeks.", "Magazines"),
    ("When is the library closed?", "The library is closed in July.", "not in"),
    ("On which days does the bus run?", "The night bus runs on Mondays only.", "not in"),
    ("What does the plumber charge?", "The plumber charges 180 euros an hour.", "plumber"),
    ("What does the notary charge?", "The notary charges 180 euros an hour.", "notary"),
    ("When is the pool closed?", "The pool is closed in August.", "pool"),
]
SAID = [
    ("When does the gym open on Saturdays?", "The gym opens at 8:00 on Saturdays."),
    ("How long is the eco programme?", "The eco programme takes 3 hours and 20 minutes."),
    ("What is the lawyer's fee?", "The lawyer's fee is 180 euros an hour."),
    ("How long may I borrow films?", "Films may be borrowed for one week."),
    ("When is the reading room closed?", "The reading room is closed in August."),
]


@pytest.fixture(scope="module")
def attributor(smollm2: LocalModel) -> Attributor:
    return Attributor(smollm2, progress=False)


def attributed(attributor: Attributor, question: str, answer: str) -> Attribution:
    prompt = rag_prompt(question, DOCUMENTS, chat=True)
    return attributor.attribute(prompt, answer, DOCUMENTS)


@pytest.mark.parametrize(("question", "answer", "told"), MISLEADING)
def test_what_misleads_is_told_in_the_same_words_everywhere(
    attributor: Attributor, question: str, answer: str, told: str
) -> None:
    made = attributed(attributor, question, answer)
    (sentence,) = summarize(made)["sentences"]
    (remark,) = sentence["remarks"]
    assert told in remark["text"]
    for shown in (made.to_cited_text(), made.to_table(width=300)):
        assert f"({remark['text']})" in shown
    assert remark["text"] in made.to_markdown().replace("\\", "")
    page = answer_data(made, question=question)["summary"]
    assert page["sentences"][0]["remarks"] == [remark]
    assert json.loads(made.to_json())["verdicts"][0]["support"]["kind"] != "full"


@pytest.mark.parametrize(("question", "answer"), SAID)
def test_what_a_file_says_has_its_number_alone(
    attributor: Attributor, question: str, answer: str
) -> None:
    made = attributed(attributor, question, answer)
    assert made.to_cited_text() == f"{answer} [1]"
