"""The verdict that follows from measured numbers: a row for each line of the rules."""

from dataclasses import replace
from typing import Any

import pytest

from attribot_rag.methods.base import SourceSet
from attribot_rag.methods.limits import Limits
from attribot_rag.result import Verdict
from attribot_rag.verdicts.decision import (
    Citation,
    EarlierOrigin,
    Measurements,
    Postponed,
    PromptOrigin,
    WordLikelihood,
    decide,
)

LIMITS = Limits()
NOWHERE = PromptOrigin()
LIKELY, UNLIKELY = WordLikelihood(-0.1, 0.0), WordLikelihood(-3.0, 1.0)
"""A word that the model says anyway; one that it expects neither with the context nor without."""
NEEDED = WordLikelihood(-0.1, 5.0)
"""A word that it says with the context only."""


def measured(**fields: Any) -> Measurements:
    """Of a sentence with a reliance of 10 nats, that comes from nowhere else."""
    options: dict[str, Any] = {
        "reliance": 10.0,
        "min_reliance": 6.0,
        "words": (LIKELY,),
        "in_prompt": NOWHERE,
    } | fields
    return Measurements(start=0, end=9, **options)


def citing(effect: float = 9.0, **fields: Any) -> Citation:
    options: dict[str, Any] = {"kept": 0.9, "word_effects": ((0.0, 0.0),)} | fields
    return Citation(source_ids=(3,), effect=effect, **options)


def carried(citation: Citation, **fields: Any) -> Measurements:
    found = SourceSet(citation.source_ids, sufficient=citation.sufficient)
    return measured(citation=citation, found=found, **fields)


FOLLOWS = EarlierOrigin(0, 9.0)
UNCAUSED = replace(FOLLOWS, is_uncaused=True)
TURN = EarlierOrigin(None, 9.0)
IN_PART = citing(kept=0.4, sufficient=False)
WEAK = citing(3.0)
NOT_ENOUGH = citing(3.0, sufficient=False)
A_WORD = citing(3.0, sufficient=False, word_effects=((2.6, 2.6),))
ANOTHER_S_WORD = citing(3.0, sufficient=False, word_effects=((0.0, 2.6),))
LITTLE = citing(2.4, sufficient=False, word_effects=((2.6, 2.6),))
EITHER = replace(WEAK, source_ids=(3, 5), relation="either")
TOGETHER = replace(WEAK, source_ids=(3, 5), relation="together")
NEEDED_TOGETHER = replace(TOGETHER, effect=6.0, sufficient=False)

CITED: dict[str, tuple[Measurements, str]] = {
    "one source, needed and enough": (carried(citing()), "grounded"),
    "one source, needed, not enough": (carried(IN_PART), "grounded"),
    "an effect of 4 nats": (carried(citing(4.0, sufficient=False)), "grounded"),
    "not needed, but enough": (carried(WEAK), "grounded"),
    "neither": (carried(NOT_ENOUGH), "open scattered"),
    "a word needs it": (carried(A_WORD), "grounded"),
    "less than a quarter of the reliance": (carried(LITTLE), "open scattered"),
    "a word needs another": (carried(ANOTHER_S_WORD, words=(UNLIKELY,)), "unsupported"),
    "an expected word needs another": (carried(ANOTHER_S_WORD, words=(NEEDED,)), "grounded"),
    "enough, with an unexpected word": (carried(WEAK, words=(UNLIKELY,)), "unsupported"),
    "the same, of twice the reliance": (
        carried(WEAK, words=(UNLIKELY,), reliance=12.0),
        "grounded",
    ),
    "a decisive source of little reliance": (
        carried(citing(4.0, sufficient=False), reliance=1.0),
        "grounded",
    ),
    "little reliance": (carried(WEAK, reliance=5.9), "unsupported"),
    "little, for a server's noise": (carried(WEAK, min_reliance=11.0), "unsupported"),
    "either": (carried(EITHER), "redundant either"),
    "either, of little reliance": (carried(EITHER, reliance=5.9), "unsupported"),
    "together": (carried(TOGETHER), "redundant together"),
    "together, needed, not enough": (carried(NEEDED_TOGETHER), "open scattered"),
    "an invented number": (carried(WEAK, figures=(UNLIKELY,)), "unsupported"),
    "an invented number, needed": (carried(citing(), figures=(UNLIKELY,)), "grounded"),
    "either, with an invented number": (carried(EITHER, figures=(UNLIKELY,)), "unsupported"),
    "one number of two is the source's": (carried(WEAK, figures=(UNLIKELY, NEEDED)), "grounded"),
}
ELSEWHERE: dict[str, tuple[Measurements, str]] = {
    "an earlier sentence": (measured(earlier=FOLLOWS), "follows"),
    "the conversation": (measured(earlier=TURN), "conversation turn"),
    "an earlier sentence, and a source is needed": (
        carried(citing(), earlier=FOLLOWS),
        "grounded",
    ),
    "an earlier sentence, and a source is enough": (carried(WEAK, earlier=FOLLOWS), "follows"),
    "an uncaused one, and a source is enough": (carried(WEAK, earlier=UNCAUSED), "grounded"),
    "an uncaused one, and nothing else": (measured(earlier=UNCAUSED), "follows"),
    "an earlier sentence, at a large reliance": (
        measured(earlier=FOLLOWS, reliance=12.0),
        "open scattered",
    ),
    "the instructions": (
        measured(reliance=1.0, in_prompt=PromptOrigin("instructions", 9.0)),
        "conversation instructions",
    ),
    "the question": (
        measured(reliance=1.0, in_prompt=PromptOrigin("question", 9.0)),
        "conversation question",
    ),
    "the question, and the context matters": (
        measured(in_prompt=PromptOrigin("question", 9.0)),
        "open scattered",
    ),
}
UNDECIDED: dict[str, tuple[Measurements, str]] = {
    "nothing was measured": (measured(reliance=None), "open budget"),
    "judging's limit": (measured(reliance=None, ended_by="limit"), "open limit"),
    "nothing carries it, though the context matters": (measured(), "open scattered"),
    "nor is a word expected": (measured(words=(UNLIKELY,)), "unsupported"),
    "nothing matters": (measured(reliance=1.0), "unsupported"),
    "an incomplete search": (measured(found=SourceSet(complete=False)), "open budget"),
    "the same, of little reliance": (
        measured(found=SourceSet(complete=False), reliance=1.0, is_exhausted=True),
        "open budget",
    ),
    "members that were not measured": (
        measured(found=SourceSet((3, 5)), is_exhausted=True),
        "open budget",
    ),
    "no budget, and all was ruled out": (
        measured(reliance=1.0, is_exhausted=True),
        "unsupported",
    ),
    "no budget for what was said before": (
        measured(reliance=1.0, is_exhausted=True, may_have_earlier=True, ended_by="limit"),
        "open limit",
    ),
    "no budget for statements": (
        measured(reliance=1.0, is_exhausted=True, in_prompt=PromptOrigin(may_be=True)),
        "open budget",
    ),
    "an unlocated document": (
        measured(reliance=1.0, in_prompt=PromptOrigin(is_unlocated=True)),
        "open not_located",
    ),
    "the answer's cut end": (measured(is_cut=True, earlier=FOLLOWS), "open cut"),
    "a cut end with a source": (carried(citing(), is_cut=True), "grounded"),
}


def summary(verdict: Verdict | Postponed) -> str:
    assert isinstance(verdict, Verdict)
    relation = verdict.relation if verdict.kind == "redundant" else None
    return " ".join(filter(None, (verdict.kind, relation, verdict.origin, verdict.reason)))


@pytest.mark.parametrize(
    ("given", "expected"),
    [*(CITED | ELSEWHERE | UNDECIDED).values()],
    ids=[*(CITED | ELSEWHERE | UNDECIDED)],
)
def test_the_verdict_on_measurements(given: Measurements, expected: str) -> None:
    assert summary(decide(given, LIMITS)) == expected


def test_the_verdict_has_the_numbers_of_its_citation() -> None:
    verdict = decide(carried(IN_PART), LIMITS)
    assert verdict == Verdict(
        start=0,
        end=9,
        kind="grounded",
        source_ids=(3,),
        reliance=10.0,
        effect=9.0,
        kept=0.4,
        in_part=True,
    )
    assert decide(measured(earlier=FOLLOWS), LIMITS) == Verdict(
        start=0, end=9, kind="follows", reliance=10.0, follows=0, effect=9.0
    )


@pytest.mark.parametrize(
    ("found", "cited", "relation"),
    [
        (SourceSet(), (), "each"),
        (SourceSet((3,)), (3,), "either"),
        (SourceSet((3,), (5,)), (3, 5), "either"),
        (SourceSet((3, 5)), (3, 5), "together"),
    ],
)
def test_sources_that_could_replace_a_turn_are_cited(
    found: SourceSet, cited: tuple[int, ...], relation: str
) -> None:
    verdict = decide(measured(earlier=replace(TURN, replaced_by=found)), LIMITS)
    assert isinstance(verdict, Verdict)
    assert (verdict.source_ids, verdict.relation) == (cited, relation)


@pytest.mark.parametrize(
    ("given", "postponed"),
    [
        (measured(earlier=Postponed.EARLIER), Postponed.EARLIER),
        (carried(WEAK, earlier=Postponed.EARLIER), Postponed.EARLIER),
        (carried(citing(), earlier=Postponed.EARLIER), None),
        (measured(earlier=Postponed.EARLIER, reliance=12.0), None),
        (measured(in_prompt=Postponed.PROMPT, reliance=1.0), Postponed.PROMPT),
        (measured(in_prompt=Postponed.PROMPT), None),
        (carried(citing(), in_prompt=Postponed.PROMPT), None),
    ],
)
def test_a_postponed_measurement_is_requested_only_if_it_may_decide(
    given: Measurements, postponed: Postponed | None
) -> None:
    decided = decide(given, LIMITS)
    assert decided is postponed or (postponed is None and isinstance(decided, Verdict))


def test_other_limits_decide_otherwise() -> None:
    weak = carried(citing(3.0, sufficient=False))
    assert summary(decide(weak, replace(LIMITS, min_effect=3.0))) == "grounded"
    assert summary(decide(measured(), replace(LIMITS, min_reliance=11.0))) == "open scattered"
    assert summary(decide(measured(min_reliance=11.0), LIMITS)) == "unsupported"
