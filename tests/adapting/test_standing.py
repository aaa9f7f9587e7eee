from attribot_rag.adapting import standing_in

SENTENCES = [f"House number {number} has a blue door." for number in range(6)]
TEXT = " ".join(SENTENCES)


def test_texts_are_found_whatever_became_of_their_form() -> None:
    prompt = f"Here:\n\n{SENTENCES[0]}\n  {SENTENCES[1].upper()}\n"
    text = f"{SENTENCES[0]}\t**{SENTENCES[1]}**"
    assert standing_in(prompt, [text, SENTENCES[2]]) == {text}
    assert standing_in(prompt, [SENTENCES[0]]) == {SENTENCES[0]}


def test_a_text_that_was_cut_stands_there() -> None:
    assert standing_in(f"oor. {' '.join(SENTENCES[2:5])} House number 5 ha", [TEXT]) == {TEXT}
    assert standing_in(f"{SENTENCES[0]} ... {SENTENCES[3]} {SENTENCES[4]}", [TEXT]) == {TEXT}
    assert standing_in(f"Read: {TEXT[:100]}...", [TEXT, "Nothing of that is here."]) == {TEXT}


def test_a_text_of_which_a_version_stands_there_does_not() -> None:
    assert standing_in(f"Read: {TEXT[:80]}", [TEXT, TEXT[:80]]) == {TEXT[:80]}


def test_nothing_stands_in_another_prompt() -> None:
    assert standing_in("Something else.", [TEXT]) == frozenset()
    assert standing_in("Yes.", ["Yes. No. Yes."]) == frozenset()
