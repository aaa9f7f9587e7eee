"""Earlier sentences and turns: their effects are differences of plain log-likelihoods."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from support.implementations import plain_scores
from support.scorers import ATOL, TREATY, other_chat, scorer

from attribot_rag.context.locating.retrieval import find_turns
from attribot_rag.scoring import Scorer
from attribot_rag.verdicts.origins import Origin, Origins
from attribot_rag.verdicts.sentences import AnswerSentence, is_trivial

TURNS = ("My name is Brennick.", "Hello Brennick.")
FIRST, SECOND, THIRD = "The ships came. ", "Salt is dear. ", "So it is."
ANSWER = FIRST + SECOND + THIRD


def conversing(turns: Sequence[str] = TURNS, answer: str = ANSWER, **options: Any) -> Scorer:
    """A scorer of a prompt with earlier turns; every byte is a token of its own."""
    roles = ("user", "assistant") * len(turns)
    messages = [{"role": role, "content": text} for role, text in zip(roles, turns, strict=False)]
    messages += [{"role": "user", "content": "\n\n".join(TREATY) + "\n\nQuestion: who?"}]
    one = scorer(response=answer, language_model=other_chat(), prompt=messages, **options)
    places = find_turns(one.context.prompt.text, turns)
    assert len(places) == len(turns)
    return replace(one, context=replace(one.context, conversation=places))


def sentence(text: str, answer: str = ANSWER) -> AnswerSentence:
    start = answer.index(text)
    end = start + len(text)
    return AnswerSentence(start, end, text, tuple(range(start, end)), False, is_trivial(text))


def log_likelihood(before: str, text: str, *, whole: bool = False) -> float:
    """Of the text's ids, or all but the first, after those of what is before; plain model."""
    language_model = other_chat()
    prompt, response = language_model.encode(before), language_model.encode(text)
    scores = plain_scores(language_model.model, prompt, response).double()
    return float(scores[int(not whole) :].sum())


def bare_prompt(one: Scorer) -> str:
    """The prompt without all that was retrieved."""
    text = one.context.prompt.text
    ((start, end),) = one.context.whole.characters
    assert text[start:end] == "\n\n".join(TREATY)
    return text[:start] + text[end:]


def without_turns(prompt: str) -> str:
    for turn in TURNS:
        assert prompt.count(turn) == 1
        prompt = prompt.replace(turn, "")
    return prompt


def find(one: Scorer, *texts: str) -> list[Origin]:
    """The origins of the last of these sentences of the answer."""
    origins = Origins(one, [sentence(text) for text in texts])
    return list(origins.find(len(texts) - 1))


@pytest.mark.parametrize(("before", "text"), [("", FIRST), (FIRST + SECOND, THIRD)])
def test_the_conversation(before: str, text: str) -> None:
    """It is taken out before all of the answer."""
    one = conversing()
    (said,) = find(one, text)
    bare = bare_prompt(one)
    expected = log_likelihood(bare + before, text, whole=True)
    expected -= log_likelihood(without_turns(bare) + before, text, whole=True)
    assert said.sentence is None
    assert said.effect == pytest.approx(expected, abs=ATOL)
    assert abs(said.effect) > 10 * ATOL or before


def test_one_earlier_sentence() -> None:
    one = conversing()
    _, followed = find(one, FIRST, SECOND)
    bare = bare_prompt(one)
    expected = log_likelihood(bare + FIRST, SECOND) - log_likelihood(bare, SECOND)
    assert followed.sentence == 0
    assert followed.effect == pytest.approx(expected, abs=ATOL)
    assert abs(followed.effect) > 10 * ATOL


def test_the_first_of_the_earlier_sentences_that_does_nearly_as_well_as_any() -> None:
    one = conversing()
    _, followed = find(one, FIRST, SECOND, THIRD)
    bare = bare_prompt(one)
    alone = log_likelihood(bare, THIRD)
    expected = log_likelihood(bare + FIRST + SECOND, THIRD) - alone
    gains = [log_likelihood(bare + earlier, THIRD) - alone for earlier in (FIRST, SECOND)]
    enough = [index for index, gain in enumerate(gains) if gain >= 0.8 * max(gains)]
    assert followed.effect == pytest.approx(expected, abs=ATOL)
    assert followed.sentence == (enough[0] if enough else 1)


def test_sentences_that_say_nothing_are_no_origin() -> None:
    one = conversing(turns=(), answer="Sure! " + THIRD)
    said_nothing = sentence("Sure! ", "Sure! " + THIRD)
    assert said_nothing.trivial
    origins = Origins(one, [said_nothing, sentence(THIRD, "Sure! " + THIRD)])
    assert list(origins.find(1)) == []


def test_without_a_conversation_only_sentences_are_origins() -> None:
    (followed,) = find(conversing(turns=()), FIRST, SECOND)
    assert followed.sentence == 0
    assert find(conversing(turns=()), FIRST) == []


def test_no_budget_for_the_sentences() -> None:
    sentences = [sentence(FIRST), sentence(SECOND)]
    assert len(list(Origins(conversing(), sentences).find(1))) == 2
    one = conversing(budget=10**6)
    origins = Origins(one, sentences)
    one.session.meter.spend(10**6, 1.0)
    (said,) = origins.find(1)
    assert said.sentence is None
    assert one.session.meter.exhausted
    assert find(one, FIRST, SECOND) == []  # not for the shorter prompt, either
    alone = conversing(turns=())
    origins = Origins(alone, [*sentences, sentence(THIRD)])
    bare = other_chat().encode(bare_prompt(alone))
    alone.session.meter.reserve(len(bare) + 2 * len(THIRD))  # for reading it alone, and no more
    assert list(origins.find(2)) == []
    assert alone.session.meter.exhausted


def test_what_an_answer_repeats_is_read_once() -> None:
    answer = FIRST + SECOND * 6
    one = conversing(turns=(), answer=answer)
    width = len(SECOND)
    starts = [len(FIRST) + i * width for i in range(6)]
    repeated = [
        AnswerSentence(start, start + width, SECOND, tuple(range(start, start + width)), False)
        for start in starts
    ]
    origins = Origins(one, [sentence(FIRST), *repeated])
    passes = []
    for index in range(1, 7):
        before = one.usage.forward_passes
        list(origins.find(index))
        passes.append(one.usage.forward_passes - before)
    # Alone; then after the first sentence, and after the same.
    assert passes == [1, 2, 0, 0, 0, 0]
