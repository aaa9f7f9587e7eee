"""Earlier sentences and turns: their effects are differences of plain log-likelihoods."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from methods.scorers import ATOL, TREATY, other_chat, scorer

from attribot_rag.context.retrieved import find_turns
from attribot_rag.scoring import Scorer
from attribot_rag.verdicts.origins import Origin, Origins

TURNS = ("My name is Brennick.", "Hello Brennick.")
FIRST, SECOND, THIRD = "The ships came. ", "Salt is dear. ", "So it is."
ANSWER = FIRST + SECOND + THIRD


def conversing(turns: Sequence[str] = TURNS, **options: Any) -> Scorer:
    """A scorer of a prompt with earlier turns; every byte is a token of its own."""
    roles = ("user", "assistant") * len(turns)
    messages = [{"role": role, "content": text} for role, text in zip(roles, turns, strict=False)]
    messages += [{"role": "user", "content": "\n\n".join(TREATY) + "\n\nQuestion: who?"}]
    one = scorer(response=ANSWER, language_model=other_chat(), prompt=messages, **options)
    places = find_turns(one.context.prompt.text, turns)
    assert len(places) == len(turns)
    return replace(one, context=replace(one.context, conversation=places))


def tokens(text: str) -> range:
    start = ANSWER.index(text)
    return range(start, start + len(text))


def log_likelihood(before: str, text: str) -> float:
    """Of the text's ids after those of what is before, by the plain model."""
    language_model = other_chat()
    ids = language_model.encode(before + text)
    with torch.inference_mode():
        logits = language_model.model(torch.tensor([ids])).logits[0].double()
    log_probabilities = logits[:-1].log_softmax(-1)
    chosen = log_probabilities.gather(1, torch.tensor(ids[1:])[:, None])
    return float(chosen[-len(language_model.encode(text)) :].sum())


def bare_prompt(one: Scorer) -> str:
    """The prompt without all that was retrieved."""
    text = one.context.prompt.text
    ((start, end),) = one.context.whole.characters
    assert text[start:end] == "\n\n".join(TREATY)
    return text[:start] + text[end:]


def change(before: str, removed: Sequence[str], text: str) -> float:
    """What removing some texts costs another."""
    without = before
    for one in removed:
        assert without.count(one) == 1
        without = without.replace(one, "")
    return log_likelihood(before, text) - log_likelihood(without, text)


def find(one: Scorer, text: str, *earlier: str) -> Sequence[Origin]:
    numbers = {number: tokens(sentence) for number, sentence in enumerate(earlier)}
    found = Origins(one).find(tokens(text), numbers)
    assert found is not None
    return found


def test_the_conversation() -> None:
    one = conversing()
    (said,) = find(one, FIRST)
    assert said.sentence is None
    assert said.effect == pytest.approx(change(bare_prompt(one), TURNS, FIRST), abs=ATOL)
    assert abs(said.effect) > 10 * ATOL


def test_a_part_of_the_answer_follows_all_before_it() -> None:
    one = conversing()
    (said,) = find(one, THIRD)
    before = bare_prompt(one) + FIRST + SECOND
    assert said.effect == pytest.approx(change(before, TURNS, THIRD), abs=ATOL)


def test_one_earlier_sentence() -> None:
    one = conversing()
    said, followed = find(one, SECOND, FIRST)
    before = bare_prompt(one) + FIRST
    assert said.effect == pytest.approx(change(before, TURNS, SECOND), abs=ATOL)
    assert followed.sentence == 0
    assert followed.effect == pytest.approx(change(before, [FIRST], SECOND), abs=ATOL)
    assert abs(followed.effect) > 10 * ATOL


def test_two_earlier_sentences() -> None:
    one = conversing()
    before = bare_prompt(one) + FIRST + SECOND
    everything = change(before, [FIRST, SECOND], THIRD)
    shares = [
        everything - change(before, [SECOND], THIRD),
        everything - change(before, [FIRST], THIRD),
    ]
    enough = [index for index, share in enumerate(shares) if share >= everything / 2]
    _, followed = find(one, THIRD, FIRST, SECOND)
    assert followed.effect == pytest.approx(everything, abs=ATOL)
    assert followed.sentence == (enough[0] if enough else shares.index(max(shares)))


def test_only_the_tokens_that_are_asked_about_count() -> None:
    one = conversing()
    (whole,) = find(one, SECOND)
    beginning = Origins(one).find(tokens(SECOND)[:4], {})
    end = Origins(one).find(tokens(SECOND)[4:], {})
    assert beginning is not None and end is not None
    assert beginning[0].effect + end[0].effect == pytest.approx(whole.effect, abs=ATOL)
    scattered = Origins(one).find([*tokens(SECOND)[:4], *tokens(SECOND)[6:]], {})
    between = Origins(one).find(tokens(SECOND)[4:6], {})
    assert scattered is not None and between is not None
    assert scattered[0].effect + between[0].effect == pytest.approx(whole.effect, abs=ATOL)


def test_no_conversation() -> None:
    said, followed = find(conversing(turns=()), SECOND, FIRST)
    assert said == Origin(None, 0.0)
    assert followed.effect != 0.0


def test_neither_conversation_nor_earlier_sentence() -> None:
    assert find(conversing(turns=()), FIRST) == [Origin(None, 0.0)]


def test_no_budget_for_the_shorter_prompt() -> None:
    one = conversing(budget=10**6)
    one.session.meter.spend(10**6, 1.0)
    assert Origins(one).find(tokens(SECOND), {0: tokens(FIRST)}) is None
    assert one.session.meter.exhausted


def test_no_budget_for_the_ablations() -> None:
    one = conversing(budget=10**6)
    origins = Origins(one)
    assert origins.find(tokens(SECOND), {}) is not None
    one.session.meter.spend(10**6, 1.0)
    assert origins.find(tokens(SECOND), {0: tokens(FIRST)}) is None
    assert one.session.meter.exhausted
