"""Which texts stand in a prompt, as a whole or in part."""

from attribot_rag.context import texts_in_prompt

SENTENCES = [f"House number {number} has a blue door." for number in range(6)]
TEXT = " ".join(SENTENCES)


def test_texts_in_another_form_are_found() -> None:
    prompt = f"Here:\n\n{SENTENCES[0]}\n  {SENTENCES[1].upper()}\n"
    text = f"{SENTENCES[0]}\t**{SENTENCES[1]}**"
    assert texts_in_prompt(prompt, [text, SENTENCES[2]]) == {text}
    assert texts_in_prompt(prompt, [SENTENCES[0]]) == {SENTENCES[0]}


def test_a_text_that_was_cut_stands_there() -> None:
    assert texts_in_prompt(f"oor. {' '.join(SENTENCES[2:5])} House number 5 ha", [TEXT]) == {TEXT}
    assert texts_in_prompt(f"{SENTENCES[0]} ... {SENTENCES[3]} {SENTENCES[4]}", [TEXT]) == {TEXT}
    assert texts_in_prompt(f"Read: {TEXT[:100]}...", [TEXT, "Nothing of that is here."]) == {TEXT}


def test_nothing_stands_in_another_prompt() -> None:
    assert texts_in_prompt("Something else.", [TEXT]) == frozenset()
    assert texts_in_prompt(f"Read: {TEXT[:80]}", [TEXT, TEXT[:80]]) == {TEXT[:80]}  # a version
    assert texts_in_prompt("Yes.", ["Yes. No. Yes."]) == frozenset()
