"""Every verdict, from scores made by hand; a real scorer answers what they leave open."""

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

import pytest
from support.limits import with_limits
from support.scorers import ATOL, TREATY, chat, other_chat, scorer
from support.scripted import Scripted, Worth

from attribot_rag import Attributor, Budget, LeaveOneOut, VerdictOptions
from attribot_rag.attribution import ResponseText, Verdict
from attribot_rag.context.locating import find_turns
from attribot_rag.methods import Scores
from attribot_rag.methods.base import Ranking
from attribot_rag.methods.evidence import Evidence
from attribot_rag.methods.limits import Limits
from attribot_rag.methods.necessity import UnitOrder
from attribot_rag.model.language_model import Prompt
from attribot_rag.scoring import Scorer
from attribot_rag.verdicts import Judgement, judge
from attribot_rag.verdicts.origins import Origins
from attribot_rag.verdicts.sentences import sentences_of

RESPONSE = "The ships came with salt."
OPTIONS = VerdictOptions()
LIMITS = Limits()
WORDS = re.compile(r"[A-Za-z]{4,}")
Ids = frozenset[int]


def judged(
    totals: Mapping[int, float],
    *,
    reliance: float | None,
    response: str = RESPONSE,
    options: VerdictOptions = OPTIONS,
    target: Scorer | None = None,
    real: bool = False,
) -> Judgement:
    """Judged where each source adds so many nats to a letter of its own in the first words.

    The rest of the reliance is not explained by any source; it is in the last token.
    """
    target = target or scorer(response=response, language_model=other_chat())
    last = target.response.text.find(".") % len(target.generation.response_ids)
    letters = [i for word in WORDS.finditer(target.response.text) for i in range(*word.span())]
    rest = (reliance or 0.0) - sum(totals.values())

    def worth(kept: Ids) -> dict[int, float]:
        rows = {letters[source]: totals[source] for source in kept if source in totals}
        return {**rows, last: rest * (len(kept) > LIMITS.max_set)}

    return judged_by(worth, target, [*totals], options, measured=reliance is not None, real=real)


def judged_by(
    worth: Worth,
    target: Scorer,
    order: Sequence[int],
    options: VerdictOptions = OPTIONS,
    *,
    measured: bool = True,
    real: bool = False,
) -> Judgement:
    """Judged by what these sources are worth, of which those of the order are looked at first.

    Unless `measured`, the method did not score the whole context; with a `real` scorer, rows are
    what the model says, within its budget.
    """
    scripted = Scripted(target, worth, real_bare=True)
    full = worth(Ids(target.context.present))
    width, count = len(target.generation.response_ids), len(target.context.sources)
    ranked = [*order, *(source for source in range(count) if source not in order)]
    estimates = tuple((float(-ranked.index(source)),) * width for source in range(count))
    bare = worth(Ids())
    scores = Scores(
        tuple(full.get(token, 0.0) for token in range(width)),
        estimates,
        (False,) * count,
        context_reliance=tuple(full.get(t, 0.0) - bare.get(t, 0.0) for t in range(width))
        if measured
        else None,
        estimated=(True,) * count,
    )
    judge_by: Any = scripted if measured and not real else target
    return judge(judge_by, Ranking(scores), shown(target), options)


def shown(target: Scorer) -> ResponseText:
    return ResponseText(*target.response.aligned(None))


def verdict_of(totals: Mapping[int, float], **options: Any) -> Verdict:
    (verdict,) = judged(totals, **options).verdicts
    return verdict


def exhausted(target: Scorer) -> Scorer:
    target.usage.scored_tokens = 1
    target.session.meter.spend(10**9, 1.0)
    return target


def one_of(*options: Mapping[int, float]) -> Worth:
    """The source with index i gives what option i does; a token has the best that it is given."""

    def worth(kept: Ids) -> dict[int, float]:
        nats: dict[int, float] = {}
        for source, option in enumerate(options):
            for token, value in option.items() if source in kept else ():
                nats[token] = max(nats.get(token, 0.0), value)
        return nats

    return worth


def verdict_by(worth: Worth, order: Sequence[int], **options: Any) -> Verdict:
    target = scorer(response=RESPONSE, language_model=other_chat())
    (verdict,) = judged_by(worth, target, order, with_limits(Limits(**options))).verdicts
    return verdict


SHIPS, SALT, STOP = 4, 20, 24
"""Tokens of the response: the first letters of two of its words, and its full stop."""


def test_a_source_that_is_enough_is_cited() -> None:
    """The measured effects are in the scores."""
    judgement = judged({3: 9.0}, reliance=10.0)
    (verdict,) = judgement.verdicts
    assert replace(verdict, kept=None) == Verdict(
        start=0, end=len(RESPONSE), kind="grounded", source_ids=(3,), effect=9.0, reliance=10.0
    )
    assert verdict.kept == pytest.approx(0.9)
    scores = judgement.scores
    assert [i for i, estimated in enumerate(scores.estimated) if not estimated] == [3]
    assert sum(scores.token_scores[3] or ()) == pytest.approx(9.0)
    assert not scores.exact[3]


def test_a_distractor_that_lacks_a_word_is_not_either() -> None:
    """'The archive closes at five.' beside 'The library closes at eight.'"""
    closes = {SHIPS: 10.0}
    verdict = verdict_by(one_of(closes | {SALT: 4.0}, closes), [0, 1])
    assert (verdict.kind, verdict.source_ids) == ("grounded", (0,))


def test_a_member_is_cited_for_a_word_that_the_other_members_lose() -> None:
    """Source 7 was still among the few when 8 could not be left out."""

    def worth(kept: Ids) -> dict[int, float]:
        of_many = 6.0 * (len(kept) > LIMITS.max_set)
        salt = 10.0 if 8 in kept else of_many
        return {SHIPS: 10.0 * (3 in kept), STOP: 15.0 * (5 in kept), SALT: salt}

    verdict = verdict_by(worth, [3, 5, 7, 8])
    assert (verdict.kind, verdict.source_ids) == ("grounded", (3, 8))


@pytest.mark.parametrize(("share", "kind"), [(0.71, "redundant"), (0.69, "open")])
@pytest.mark.parametrize("made_up_for", [True, False])
def test_a_group_is_cited_if_it_is_enough_even_if_others_replace_it(
    share: float, made_up_for: bool, kind: str
) -> None:
    group = {3, 5, 6}

    def worth(kept: Ids) -> dict[int, float]:
        is_whole = len(kept) == 11 or (made_up_for and len(kept) > LIMITS.max_set)
        return {STOP: 18.0 / share if is_whole else 6.0 * len(kept & group)}

    verdict = verdict_by(worth, [*group])
    assert verdict.kind == kind
    assert {*verdict.source_ids} == (group if kind == "redundant" else set())
    assert verdict.relation == ("together" if kind == "redundant" else "each")


@pytest.mark.parametrize(("kept_share", "in_part"), [(0.7, False), (0.8, True)])
def test_a_neighbour_that_only_gives_the_subject_is_not_cited(
    kept_share: float, in_part: bool
) -> None:
    """It is needed for the sentence to read well, but the question names the subject, too.

    Whether the sentence is explained without it, or only in part, the options say.
    """

    def worth(kept: Ids) -> dict[int, float]:
        named = 3.0 * bool(kept - {1})
        return {SHIPS: named, SALT: 9.0 * (1 in kept)}

    verdict = verdict_by(worth, [1, 0], kept_share=kept_share)
    assert (verdict.kind, verdict.source_ids) == ("grounded", (1,))
    assert verdict.kept == pytest.approx(0.75)
    assert verdict.in_part == in_part


def test_numbers_that_the_model_never_expects_are_invented() -> None:
    """With the context or without; but the currency is in two sources."""
    target = scorer(response="It costs 84 talers.", language_model=other_chat())
    number, currency = 9, 12

    def kinds(nats: float) -> str:
        def worth(kept: Ids) -> dict[int, float]:
            return {currency: 9.0 * bool({3, 4} & kept), 3: 1.0 * (3 in kept), number: nats - 4.0}

        return judged_by(worth, target, [3, 4]).verdicts[0].kind

    assert kinds(0.0) == "unsupported"
    assert kinds(5.5) == "redundant"


@pytest.mark.parametrize(
    ("surprise", "decided"), [(1.9, ("open", "scattered")), (2.1, ("unsupported", None))]
)
def test_a_group_that_the_budget_left_undecided(
    surprise: float, decided: tuple[str, str | None]
) -> None:
    """What no source explains is unsupported if it has a word that is not expected."""

    def worth(kept: Ids) -> dict[int, float]:
        explained = 14.0 if len(kept) == 11 else 3.0 * len(kept & {3, 5, 6})
        return {SHIPS: -surprise, STOP: explained}

    target = scorer(response=RESPONSE, language_model=other_chat())
    for outcome in (decided, ("open", "budget")):
        verdict = judged_by(worth, target, [3, 5, 6]).verdicts[0]
        assert (verdict.kind, verdict.reason) == outcome
        target.session.meter.exhausted = True


@pytest.mark.parametrize(
    ("source", "against", "surprise", "reliance", "kind"),
    [
        (5, 3.0, 1.9, 9.0, "grounded"),
        (5, 3.0, 2.1, 9.0, "unsupported"),
        (5, 3.0, 2.1, 12.1, "grounded"),
        (3, 3.0, 2.1, 9.0, "grounded"),
        (3, 0.0, 1.9, 9.0, "grounded"),
        (3, 0.0, 2.1, 9.0, "unsupported"),
        (3, 0.0, 2.1, 12.1, "grounded"),
    ],
)
def test_an_unexpected_word_counts_only_for_a_source_that_has_it(
    source: int, against: float, surprise: float, reliance: float, kind: str
) -> None:
    """Expected neither with the context nor without, 'ships' may be invented; 3 holds it.

    Of the source, the model takes the rest of the sentence; without it, others speak `against`.
    """

    def worth(kept: Ids) -> dict[int, float]:
        given = reliance * (source in kept or len(kept) > LIMITS.max_set)
        opposed = against * bool(kept and source not in kept)
        return {SHIPS: -surprise - opposed, STOP: given}

    assert verdict_by(worth, [source]).kind == kind


def test_each_of_two_sources_and_either() -> None:
    verdict = verdict_of({4: 7.0, 10: 9.0}, reliance=20.0)
    assert (verdict.kind, verdict.source_ids, verdict.relation) == ("grounded", (4, 10), "each")
    assert verdict.effect == pytest.approx(16.0)
    assert verdict.kept == pytest.approx(0.8)
    verdict = verdict_by(one_of({}, {}, {}, {SHIPS: 9.0}, {SHIPS: 9.0}), [3, 4])
    assert (verdict.kind, verdict.source_ids, verdict.relation) == ("redundant", (3, 4), "either")
    assert verdict.effect == pytest.approx(9.0)
    assert verdict.kept == pytest.approx(1.0)


def test_a_sentence_is_open_if_its_reliance_was_not_measured() -> None:
    """The judge measures it if the method did not and the budget allows it."""
    target = exhausted(scorer(response=RESPONSE, language_model=other_chat(), budget=10**9))
    judgement = judged({3: 9.0}, reliance=None, target=target)
    assert judgement.scores.context_reliance is None
    expected = Verdict(start=0, end=len(RESPONSE), kind="open", reason="budget")
    assert judgement.verdicts == (expected,)
    target = scorer(response=RESPONSE, language_model=other_chat())
    judgement = judged({3: 9.0}, reliance=None, target=target)
    measured = target.score([target.context.without_documents]).changes[0]
    assert measured is not None
    assert judgement.scores.context_reliance == pytest.approx(measured, abs=ATOL)
    assert judgement.verdicts[0].reliance == pytest.approx(sum(measured), abs=ATOL)


def test_trivial_sentences() -> None:
    judgement = judged({3: 9.0}, reliance=8.0, response="Sure! The ships came. I hope this helps!")
    assert [verdict.kind for verdict in judgement.verdicts][::2] == ["trivial", "trivial"]
    assert judgement.verdicts[1].kind != "trivial"
    assert judgement.notes == judged({3: 9.0}, reliance=8.0).notes


def test_thinking_is_not_judged_and_a_note_says_so() -> None:
    judgement = judged({3: 9.0}, reliance=8.0, response="<think>Is it so?</think> The ships came.")
    kinds = [verdict.kind for verdict in judgement.verdicts]
    assert kinds[:-1] == ["reasoning"] * (len(kinds) - 1)
    assert kinds[-1] not in ("reasoning", "trivial")
    assert any("own reasoning" in note for note in judgement.notes)


DROPPED = "Sailors of Karsk were paid in salt, which no ship had on board in 1683."
PROMPTS = {
    "messages": ("", "Who came?"),
    "a template": ("Use the following pieces of context to answer the question.", "Who came?"),
}
REWRITTEN = {
    "a paraphrase": "With salt aboard, several ships arrived.",
    "a translation": "Die Schiffe (ships) kamen mit Salz (salt).",
}


def without_the_last(before: str = "", after: str = "Who came?", *more: str) -> Scorer:
    """A scorer of a prompt that lacks the last document, with `more` beside the others."""
    text = "\n\n".join([before, *TREATY, *more, after])
    documents = (*TREATY, DROPPED)
    prompt: Prompt = [{"role": "user", "content": text}]
    target = scorer(documents, RESPONSE, language_model=other_chat(), prompt=prompt)
    assert target.context.not_located == (len(TREATY),)
    return target


@pytest.mark.parametrize("reliance", [2.9, -5.0])
@pytest.mark.parametrize("prompt", PROMPTS)
def test_a_document_that_was_dropped_causes_no_sentence(prompt: str, reliance: float) -> None:
    target = without_the_last(*PROMPTS[prompt])
    assert verdict_of({3: 1.0}, reliance=reliance, target=target).kind == "unsupported"
    assert verdict_of({3: 9.0}, reliance=8.0, target=target).kind == "grounded"


@pytest.mark.parametrize("rewritten", REWRITTEN)
@pytest.mark.parametrize("prompt", PROMPTS)
def test_a_sentence_that_the_rest_of_the_prompt_states_is_not_unsupported(
    prompt: str, rewritten: str
) -> None:
    target = without_the_last(*PROMPTS[prompt], REWRITTEN[rewritten])
    verdict = verdict_of({3: 1.0}, reliance=2.9, target=target)
    assert (verdict.kind, verdict.reason) == ("open", "not_located")


@pytest.mark.parametrize(
    "rest", [" The rest was told in other words.", " 残りは別の言葉で語られた。" * 3]
)
def test_nothing_is_unsupported_while_a_document_was_found_in_part(rest: str) -> None:
    documents = (f"{TREATY[0]} {rest}", *TREATY[1:])
    target = scorer(documents, RESPONSE, language_model=other_chat(), prompt=chat(TREATY))
    assert target.context.not_located == ()
    assert list(target.context.partly_located) == [0]
    verdict = verdict_of({3: 1.0}, reliance=2.9, target=target)
    assert (verdict.kind, verdict.reason) == ("open", "not_located")


@pytest.mark.parametrize("blank", ["", "\ufeff\u200b"])
def test_a_blank_document_causes_nothing(blank: str) -> None:
    target = scorer((*TREATY, blank), RESPONSE, language_model=other_chat(), prompt=chat(TREATY))
    assert verdict_of({3: 1.0}, reliance=2.9, target=target).kind == "unsupported"


def test_judging_takes_as_many_tokens_again_as_the_scores() -> None:
    target = scorer(response=RESPONSE, language_model=other_chat())
    target.session.meter.spend(5_000, 1.0)
    options = VerdictOptions(min_tokens=1)
    judgement = judged({3: 9.0}, reliance=400.0, target=target, options=options, real=True)
    assert target.session.meter.tokens <= 10_000
    small = replace(options, token_share=0.01)
    again = scorer(response=RESPONSE, language_model=other_chat())
    again.usage.scored_tokens = 1
    again.session.meter.spend(5_000, 1.0)
    limited = judged({3: 3.9}, reliance=400.0, target=again, options=small, real=True)
    assert limited.verdicts[0].reason == "limit"
    assert again.session.meter.exhausted and again.session.meter.tokens <= 5_050
    assert judgement.verdicts[0].reason is None


@pytest.mark.parametrize("budget", [None, Budget(tokens=10**9), Budget(seconds=10**6)])
def test_the_limit_of_judging_is_not_called_a_budget(budget: Budget | None) -> None:
    options = VerdictOptions(min_tokens=1, token_share=0.01)
    model = other_chat()
    attribution = Attributor(
        model, method=LeaveOneOut(), verdicts=options, budget=budget, progress=False
    ).attribute(chat(TREATY), RESPONSE, TREATY)
    assert {verdict.reason for verdict in attribution.verdicts} == {"limit"}
    assert attribution.incomplete
    assert any("token_share" in note for note in attribution.notes)
    assert not any("budget" in note for note in attribution.notes)


def test_passes_grow_with_the_sentences_and_not_with_their_square() -> None:
    def passes_for(count: int) -> int:
        response = " ".join(f"Ship {number + 10} came with salt." for number in range(count))
        target = scorer(response=response, language_model=other_chat(), implementation="cropped")
        width = len(target.generation.response_ids)
        nothing = (0.0,) * width
        # Every sentence depends on the context, and no source explains it.
        scores = Scores(nothing, (nothing,) * 11, (True,) * 11, context_reliance=(0.01,) * width)
        limits = Limits(min_sought=0.1, min_effect=0.1, min_reliance=0.1)
        options = with_limits(limits, min_tokens=10**9)
        judgement = judge(target, Ranking(scores), shown(target), options)
        assert len(judgement.verdicts) == count
        return target.usage.forward_passes

    few, many = passes_for(2), passes_for(16)
    assert few > 2
    assert many <= 8 * few


def test_follows_from_an_earlier_sentence() -> None:
    response = "The ships came. They had salt."
    options = with_limits(Limits(min_follows=2.0, max_unexplained=inf))  # all is unlikely here
    first, second = judged({3: 9.0}, reliance=8.0, response=response, options=options).verdicts
    assert first.kind == "grounded"
    assert (second.kind, second.follows, second.source_ids) == ("follows", 0, ())
    target = scorer(response=response, language_model=other_chat())
    evidence = Evidence(target, ())
    origins = Origins(
        evidence, sentences_of(shown(target)), {}, options.limits(), UnitOrder(target)
    )
    (origin,) = evidence.in_rounds([origins.largest(1, 0.0)])
    assert origin is not None
    assert second.effect == pytest.approx(origin.effect, abs=ATOL)
    assert second.reliance == 0.0
    # the earlier sentence has little effect
    options = with_limits(Limits(min_follows=20.0, max_unexplained=inf))
    verdicts = judged({3: 9.0}, reliance=8.0, response=response, options=options).verdicts
    assert [verdict.kind for verdict in verdicts] == ["grounded", "unsupported"]


@pytest.mark.parametrize(
    ("earlier", "kinds"),
    [(9.0, ["grounded", "follows"]), (0.5, ["unsupported", "grounded"])],
    ids=["that cites a source", "for which no cause was found"],
)
def test_an_earlier_sentence_with_a_cause_comes_before_a_source_that_is_enough(
    earlier: float, kinds: list[str]
) -> None:
    """The second sentence does not need the source: all others together suffice, too."""
    target = scorer(response="The ships came. They had salt.", language_model=other_chat())

    def worth(kept: Ids) -> dict[int, float]:
        suffices = 4 in kept or len(kept) > LIMITS.max_set
        return {SHIPS: earlier * (3 in kept), 26: 1.9 * suffices}

    limits = Limits(min_follows=2.0, max_unexplained=inf, min_reliance=1.0, min_sought=0.6)
    verdicts = judged_by(worth, target, [3, 4], with_limits(limits)).verdicts
    assert [verdict.kind for verdict in verdicts] == kinds
    assert verdicts[1].source_ids == (() if kinds[1] == "follows" else (4,))


@pytest.mark.parametrize(
    ("response", "kinds"),
    [
        ("The ships came. They had salt [1][2].", ["grounded", "follows"]),
        ("The ships came. Sources: [1], [2]", ["grounded", "trivial"]),
    ],
    ids=["what follows is judged by what it follows from", "a list speaks of the whole answer"],
)
def test_a_marker_is_audited_by_the_sentence_that_its_sentence_follows(
    response: str, kinds: list[str]
) -> None:
    options = with_limits(Limits(min_follows=2.0, max_unexplained=inf))
    target = scorer(response=response, language_model=other_chat())
    judgement = judged({3: 9.0}, reliance=8.0, target=target, options=options)
    assert [verdict.kind for verdict in judgement.verdicts] == kinds
    carrying = target.context.sources[3].documents
    expected = {number: number - 1 in carrying for number in (1, 2)}
    assert {marker.number: marker.supported for marker in judgement.markers} == expected
    assert len({*expected.values()}) == 2


def test_sentences_are_open_beyond_the_budget() -> None:
    response = "The ships came. They had salt."
    target = exhausted(scorer(response=response, language_model=other_chat(), budget=10**9))
    verdicts = judged({3: 1.0}, reliance=0.5, target=target, real=True).verdicts
    assert [(verdict.kind, verdict.reason) for verdict in verdicts] == [("open", "budget")] * 2


def test_a_sentence_from_the_conversation() -> None:
    turns = ("My name is Brennick.", "Hello Brennick.")
    prompt = [
        {"role": "user", "content": turns[0]},
        {"role": "assistant", "content": turns[1]},
        {"role": "user", "content": "\n\n".join(TREATY) + "\n\nQuestion: who?"},
    ]
    target = scorer(response="Salt is dear.", language_model=other_chat(), prompt=prompt)
    places = find_turns(target.context.prompt.text, turns)
    target = replace(target, context=replace(target.context, conversation=places))
    options = with_limits(Limits(min_turn=1.0, min_effect=99.0))  # no source replaces it
    verdict = verdict_of({}, reliance=0.5, target=target, options=options)
    assert (verdict.kind, verdict.follows, verdict.source_ids) == ("conversation", None, ())
    assert verdict.effect is not None and verdict.effect > 1.0
    strict = with_limits(Limits(min_turn=50.0, min_effect=99.0))
    assert verdict_of({}, reliance=0.5, target=target, options=strict).kind == "unsupported"


def test_markers_are_audited_and_are_no_part_of_the_sentence() -> None:
    judgement = judged({3: 9.0}, reliance=8.0, response="The ships came [2][1][9].")
    assert [(marker.number, marker.document, marker.supported) for marker in judgement.markers] == [
        (2, 1, True),
        (1, 0, False),
        (9, None, None),
    ]
    assert judgement.verdicts[0].effect == pytest.approx(9.0)


@pytest.mark.parametrize("fragment", ["They", "- Many letters,"])
def test_a_fragment_at_which_the_answer_was_cut_is_open(
    fragment: str,
) -> None:
    whole = scorer(response=f"The ships came.\n{fragment}", language_model=other_chat())
    cut = copy.copy(whole)
    cut.generation = replace(whole.generation, unfinished=True)
    ended, last = (judged({}, reliance=0.0, target=target).verdicts for target in (whole, cut))
    assert [verdict.reason for verdict in ended] == [None, None]
    assert [verdict.reason for verdict in last] == [None, "cut"]
    assert last[1].kind == "open"


@pytest.mark.parametrize("response", ["The ships came.", "塔很高。", "**Who came?** [1]"])
def test_an_answer_that_was_stopped_after_a_sentence_has_no_fragment(response: str) -> None:
    target = scorer(response=response, language_model=other_chat())
    target.generation = replace(target.generation, unfinished=True)
    assert judged({}, reliance=0.0, target=target).verdicts[0].reason is None
