"""Which earlier answers are in a later prompt, and what a run that was made of them has."""

from dataclasses import replace

import pytest
from support.attributions import handmade
from support.compositions import ABOUT_FERRY, CARRIES, FERRY, TOWER, run
from support.schemas import SUMMARIES

from attribot_rag import Document
from attribot_rag.attribution import Composition
from attribot_rag.errors import DocumentsNotLocated, InvalidInput, UnknownRun
from attribot_rag.runtime import Answer, AttributedRun, RunStore
from attribot_rag.runtime.documents import find_in_prompt, with_earlier


def answered(text: str, run_id: str = "", prompt: str = "Say.", *documents: str) -> AttributedRun:
    return AttributedRun(run_id or text, "root", Answer(text, documents, prompt=prompt))


def read(prompt: str, documents: list[str], *answers: AttributedRun) -> tuple[list[int], list[str]]:
    indices, runs = find_in_prompt(prompt, documents, answers)
    return indices, [part.run_id for part in runs]


SHIP, TRAIN = "The ship leaves at nine.", "The train to Arvik takes two hours and a half."


@pytest.mark.parametrize(
    ("prompt", "documents", "answers", "expected"),
    [
        (f"Combine: {SHIP}", [], [SHIP, TRAIN], ([], [SHIP])),
        (f"Draft: {SHIP}\nNew: {TRAIN}", [TRAIN], [SHIP], ([0], [SHIP])),
        (f"Read: {SHIP} It is red.", [f"{SHIP} It is red."], [SHIP], ([0], [])),
        (f"Combine: {SHIP}\n{SHIP}", [SHIP], [SHIP], ([0], [SHIP])),
        (
            f"Combine: {SHIP} It is red.",
            [SHIP],
            [f"{SHIP} It is red."],
            ([], [f"{SHIP} It is red."]),
        ),
        (f"Combine:\n\n{SHIP.replace(' ', chr(10))}", [], [SHIP], ([], [SHIP])),
        ("It was built in 1844.", [], ["84"], ([], [])),
        ("How many? 84, they said.", [], ["84"], ([], ["84"])),
        ("答案是渡船载客八十四人，请总结。", [], ["渡船载客八十四人"], ([], ["渡船载客八十四人"])),
        ("...", [], ["."], ([], [])),
    ],
)
def test_the_texts_that_a_prompt_was_made_of(
    prompt: str, documents: list[str], answers: list[str], expected: tuple[list[int], list[str]]
) -> None:
    assert read(prompt, documents, *map(answered, answers)) == expected


def test_of_equal_answers_the_last_ones_count() -> None:
    first, second, third = (answered(SHIP, name) for name in ("1", "2", "3"))
    assert read(f"Draft: {SHIP}", [], first, second, third) == ([], ["3"])
    assert read(f"{SHIP}\n\n{SHIP}", [], first, second, third) == ([], ["2", "3"])


def test_a_choice_of_words_of_its_own_prompt_is_no_earlier_answer() -> None:
    grade = answered("yes", "grade", f"Is this relevant, yes or no? {SHIP}", SHIP)
    assert read("Answer yes or no.", [], grade) == ([], [])
    hour = answered("at nine", "hour", f"{SHIP} When?", SHIP)
    assert read("It leaves at nine. So?", [], hour) == ([], ["hour"])


def test_an_answer_in_another_form_counts_where_nothing_stands_as_a_whole() -> None:
    marked = answered(f"**{TRAIN[:18]}**{TRAIN[18:]}", "marked")
    assert read(f"Combine: {TRAIN.lower()}", [], marked) == ([], ["marked"])
    assert read(f"Combine: {TRAIN}\n{SHIP}", [], marked, answered(SHIP)) == ([], [SHIP])


def test_the_prompt_before_an_answer_is_none_of_it() -> None:
    shown = answered(f"Say. {SHIP}", "shown")
    shown = replace(shown, answer=replace(shown.answer, start=5))
    assert read(f"Combine: {SHIP}", [], shown) == ([], ["shown"])


def test_a_run_has_what_its_earlier_answers_were_made_of_once() -> None:
    first = run("1", ABOUT_FERRY, shown=None)
    first = replace(first, root_id="root")
    second = with_earlier(replace(run("2", ABOUT_FERRY), root_id="root"), [first])
    for direct in ([second], [first, second]):
        third = with_earlier(replace(run("3", ABOUT_FERRY), root_id="root"), direct)
        assert [part.run_id for part in third.earlier] == ["1", "2"]
    elsewhere = with_earlier(replace(run("4", ABOUT_FERRY), root_id="other"), [third])
    assert [part.run_id for part in elsewhere.earlier] == ["3"]
    assert [part.run_id for part in elsewhere.all_earlier()] == ["1", "2", "3"]
    SUMMARIES.validate(third.summary)
    assert [call["calls"] for call in third.summary["calls"]] == [[], []]


def test_a_note_tells_of_earlier_answers_without_attribution() -> None:
    failed = replace(answered(SHIP), error=DocumentsNotLocated("nothing of it stands there"))
    whole = with_earlier(run("whole", ABOUT_FERRY), [failed, run("a", ABOUT_FERRY)])
    (note,) = whole.answer.notes
    assert note.startswith("1 of the 2 earlier answers")
    assert "DocumentsNotLocated: nothing of it stands there" in note


def test_a_thousand_refinements_lead_to_their_documents() -> None:
    attributions = {}
    documents = [FERRY]
    for step in range(1000):
        attribution = handmade(CARRIES, documents, {CARRIES: (9.0,)})
        attributions[str(step)] = attribution
        documents = [Document(CARRIES, str(step)), TOWER]
    del attributions["999"]
    composition = Composition(attribution, attributions)
    ((origin,),) = (sentence.origins for sentence in composition.sentences)
    assert origin.attribution.documents[origin.documents[0]] == FERRY


def test_an_unknown_run_is_an_error_that_says_what_to_do() -> None:
    store = RunStore(2)
    for number in range(3):
        store.add(answered(SHIP, str(number)))
    for unknown in ("unknown", "0", None):
        with pytest.raises(UnknownRun, match=f"no attribution of the run {unknown}: ") as raised:
            store[unknown]
        assert isinstance(raised.value, KeyError | InvalidInput)
        assert isinstance(raised.value, KeyError)
        assert "the last 2 runs (max_results)" in str(raised.value)
        assert "root run" in str(raised.value)
    assert store.get("unknown") is None
    assert "unknown" not in store
