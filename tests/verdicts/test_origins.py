"""Earlier sentences and turns: their effects are differences of plain log-likelihoods."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from typing import Any

import pytest
from support.implementations import plain_scores
from support.scorers import ATOL, TREATY, other_chat, scorer

from attribot_rag.context.locating import find_turns
from attribot_rag.methods.evidence import Evidence
from attribot_rag.methods.limits import Limits
from attribot_rag.methods.necessity import UnitOrder
from attribot_rag.scoring import Scorer
from attribot_rag.verdicts.decision import EarlierOrigin
from attribot_rag.verdicts.origins import Origins
from attribot_rag.verdicts.sentences import AnswerSentence, is_trivial

TURNS = ("My name is Brennick.", "Hello Brennick.")
FIRST, SECOND, THIRD = "The ships came. ", "Salt is dear. ", "So it is."
ANSWER = FIRST + SECOND + THIRD


def conversing(turns: Sequence[str] = TURNS, answer: str = ANSWER, **options: Any) -> Scorer:
    """A scorer of a prompt with earlier turns; every byte is a token of its own."""
    roles = ("user", "assistant") * len(turns)
    messages = [{"role": role, "content": text} for role, text in zip(roles, turns, strict=False)]
    messages += [{"role": "user", "content": "\n\n".join(TREATY) + "\n\nQuestion: who?"}]
    target = scorer(response=answer, language_model=other_chat(), prompt=messages, **options)
    places = find_turns(target.context.prompt.text, turns)
    assert len(places) == len(turns)
    return replace(target, context=replace(target.context, conversation=places))


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


def bare_prompt(target: Scorer) -> str:
    """The prompt without all that was retrieved."""
    text = target.context.prompt.text
    ((start, end),) = target.context.without_documents.characters
    assert text[start:end] == "\n\n".join(TREATY)
    return text[:start] + text[end:]


def without_turns(prompt: str) -> str:
    for turn in TURNS:
        assert prompt.count(turn) == 1
        prompt = prompt.replace(turn, "")
    return prompt


def finder(
    target: Scorer, sentences: Sequence[AnswerSentence]
) -> Callable[[int], list[EarlierOrigin]]:
    """The origins of a sentence, whatever their effects are."""
    evidence = Evidence(target, ())
    origins = Origins(
        evidence, sentences, {}, Limits(min_turn=-inf, min_follows=-inf), UnitOrder(target)
    )
    return lambda index: evidence.in_rounds([origins.find(index, -inf)])[0]


def find(target: Scorer, *texts: str) -> list[EarlierOrigin]:
    """The origins of the last of these sentences of the answer."""
    return finder(target, [sentence(text) for text in texts])(len(texts) - 1)


@pytest.mark.parametrize(("before", "text"), [("", FIRST), (FIRST + SECOND, THIRD)])
def test_the_conversation(before: str, text: str) -> None:
    """It is taken out before all of the answer."""
    target = conversing()
    (origin,) = find(target, text)
    bare = bare_prompt(target)
    expected = log_likelihood(bare + before, text, whole=True)
    expected -= log_likelihood(without_turns(bare) + before, text, whole=True)
    assert origin.sentence is None
    assert origin.effect == pytest.approx(expected, abs=ATOL)
    assert abs(origin.effect) > 10 * ATOL or before


def test_one_earlier_sentence() -> None:
    target = conversing()
    _, followed = find(target, FIRST, SECOND)
    bare = bare_prompt(target)
    expected = log_likelihood(bare + FIRST, SECOND) - log_likelihood(bare, SECOND)
    assert followed.sentence == 0
    assert followed.effect == pytest.approx(expected, abs=ATOL)
    assert abs(followed.effect) > 10 * ATOL


def test_the_first_of_the_earlier_sentences_that_does_nearly_as_well_as_any() -> None:
    target = conversing()
    _, followed = find(target, FIRST, SECOND, THIRD)
    bare = bare_prompt(target)
    alone = log_likelihood(bare, THIRD)
    expected = log_likelihood(bare + FIRST + SECOND, THIRD) - alone
    gains = [log_likelihood(bare + earlier, THIRD) - alone for earlier in (FIRST, SECOND)]
    enough = [index for index, gain in enumerate(gains) if gain >= 0.8 * max(gains)]
    assert followed.effect == pytest.approx(expected, abs=ATOL)
    assert followed.sentence == (enough[0] if enough else 1)


def test_trivial_sentences_are_no_origin() -> None:
    target = conversing(turns=(), answer="Sure! " + THIRD)
    said_nothing = sentence("Sure! ", "Sure! " + THIRD)
    assert said_nothing.is_trivial
    assert finder(target, [said_nothing, sentence(THIRD, "Sure! " + THIRD)])(1) == []


def test_no_budget_for_the_sentences() -> None:
    sentences = [sentence(FIRST), sentence(SECOND)]
    assert len(finder(conversing(), sentences)(1)) == 2
    target = conversing(budget=10**6)
    target.session.meter.spend(10**6, 1.0)
    assert finder(target, sentences)(1) == []
    assert target.session.meter.exhausted
    alone = conversing(turns=())
    alone.score([alone.context.without_documents])
    bare = other_chat().encode(bare_prompt(alone))
    alone.session.meter.cap_further(len(bare) + len(THIRD))  # for reading it alone, and no more
    assert finder(alone, [*sentences, sentence(THIRD)])(2) == []
    assert alone.session.meter.exhausted


def test_a_repeated_sentence_is_read_once() -> None:
    answer = FIRST + SECOND * 6
    target = conversing(turns=(), answer=answer)
    width = len(SECOND)
    starts = [len(FIRST) + i * width for i in range(6)]
    repeated = [
        AnswerSentence(start, start + width, SECOND, tuple(range(start, start + width)), False)
        for start in starts
    ]
    find_origins = finder(target, [sentence(FIRST), *repeated])
    target.score([target.context.without_documents])
    passes = []
    for index in range(1, 7):
        before = target.usage.forward_passes
        find_origins(index)
        passes.append(target.usage.forward_passes - before)
    # Alone; then after the first sentence and after the same, in one pass.
    assert passes == [1, 1, 0, 0, 0, 0]
