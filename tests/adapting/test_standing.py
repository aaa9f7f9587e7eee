from attribot_rag.adapting import part_standing_in, standing_in

SENTENCES = [f"House number {number} has a blue door." for number in range(6)]
TEXT = " ".join(SENTENCES)


def test_texts_are_found_whatever_became_of_their_white_space() -> None:
    prompt = f"Here:\n\n{SENTENCES[0]}\n  {SENTENCES[1]}\n"
    assert standing_in(prompt, [f"{SENTENCES[0]}\t{SENTENCES[1]}", SENTENCES[2]]) == {
        f"{SENTENCES[0]}\t{SENTENCES[1]}"
    }


def test_a_whole_text_stands_as_it_is() -> None:
    assert part_standing_in(f"Here:\n{TEXT}\nWhich?", TEXT) == TEXT


def test_of_a_text_that_was_cut_the_longest_run_of_sentences_stands() -> None:
    cut = f"oor. {' '.join(SENTENCES[2:5])} House number 5 ha"
    assert part_standing_in(cut, TEXT).strip() == " ".join(SENTENCES[2:5])
    apart = f"{SENTENCES[0]} ... {SENTENCES[3]} {SENTENCES[4]}"
    assert part_standing_in(apart, TEXT).strip() == " ".join(SENTENCES[3:5])


def test_nothing_stands_in_another_prompt() -> None:
    assert part_standing_in("Something else.", TEXT) == ""
    assert part_standing_in("Yes.", "Yes. No. Yes.") == ""
