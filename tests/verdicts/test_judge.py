"""Every verdict, from scores made by hand; a real scorer answers what they leave open."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.scorers import ATOL, TREATY, chat, other_chat, scorer

from attribot_rag import Attributor, Budget, LeaveOneOut, VerdictOptions
from attribot_rag.attribution import ResponseText, Verdict
from attribot_rag.context import Ablation
from attribot_rag.context.context import find_turns
from attribot_rag.methods import Scores
from attribot_rag.scoring import LogLikelihoods, Reencoded, Scorer
from attribot_rag.verdicts import Judgement, judge
from attribot_rag.verdicts.evidence import Evidence
from attribot_rag.verdicts.origins import Origins
from attribot_rag.verdicts.sentences import sentences_of

RESPONSE = "The ships came with salt."
NOISE = 0.1
OPTIONS = VerdictOptions()


def judged(
    totals: Mapping[int, float],
    *,
    reliance: float | None,
    response: str = RESPONSE,
    screened: Mapping[int, float] | None = None,
    unscored: Sequence[int] = (),
    options: VerdictOptions = OPTIONS,
    one: Scorer | None = None,
) -> Judgement:
    """Judged by these totals for the response's first sentence; other sources are worth little."""
    one = one or scorer(response=response, language_model=other_chat())
    width = len(one.generation.response_ids)
    num_sources = len(one.context.sources)

    def rows(given: Mapping[int, float]) -> tuple[tuple[float, ...] | None, ...]:
        # No two are alike, so that their spread is no zero.
        noise = {i: NOISE * (-1) ** i * (1 + i / num_sources) for i in range(num_sources)}
        return tuple(
            None if i in unscored else one_token({**noise, **given}[i], width, i)
            for i in range(num_sources)
        )

    scores = Scores(
        (-1.0,) * width,
        rows(totals),
        (True,) * num_sources,
        context_reliance=None if reliance is None else one_token(reliance, width),
        screened=None if screened is None else rows(screened),
    )
    return judge(one, scores, shown(one), options)


def shown(one: Scorer) -> ResponseText:
    return ResponseText(*one.response.aligned(None))


def one_token(total: float, width: int, place: int = 0) -> tuple[float, ...]:
    """A row of which one token has all of it, another one for each source."""
    return tuple(total if token == place else 0.0 for token in range(width))


def verdict(totals: Mapping[int, float], **options: Any) -> Verdict:
    (found,) = judged(totals, **options).verdicts
    return found


def few(**options: Any) -> Scorer:
    """A scorer of four sources."""
    documents = ("The ships came. They brought salt.", "It is a museum. It is old.")
    one = scorer(documents, RESPONSE, language_model=other_chat(), **options)
    assert len(one.context.sources) == 4
    return one


def exhausted(one: Scorer) -> Scorer:
    one.usage.scored_tokens = 1
    one.session.meter.spend(10**9, 1.0)
    return one


def test_an_outlier_is_cited() -> None:
    found = verdict({3: 9.0}, reliance=8.0)
    assert found == Verdict(
        start=0, end=len(RESPONSE), kind="grounded", source_ids=(3,), effect=9.0, reliance=8.0
    )


def test_outliers_are_cited_best_first() -> None:
    found = verdict({3: 7.0, 5: 9.0}, reliance=20.0)
    assert (found.kind, found.source_ids) == ("grounded", (5, 3))
    assert found.effect == pytest.approx(16.0)


def test_an_outlier_need_not_carry_most_of_the_reliance() -> None:
    found = verdict({3: 9.0, 4: 8.5, 5: 8.0}, reliance=40.0)
    assert (found.kind, found.source_ids) == ("grounded", (3, 4, 5))


@pytest.mark.parametrize("reliance", [5.9, 0.0, -5.0])
def test_unsupported(reliance: float) -> None:
    found = verdict({3: 2.0}, reliance=reliance)
    assert (found.kind, found.source_ids, found.effect) == ("unsupported", (), None)
    assert found.reliance == reliance


def test_a_source_that_stands_out_supports_although_the_context_does_not() -> None:
    found = verdict({3: 7.0}, reliance=-1.0)
    assert (found.kind, found.source_ids) == ("grounded", (3,))


def test_open_where_the_reliance_was_not_measured() -> None:
    one = exhausted(scorer(response=RESPONSE, language_model=other_chat(), budget=10**9))
    found = judged({3: 9.0}, reliance=None, one=one)
    assert found.context_reliance is None
    expected = Verdict(start=0, end=len(RESPONSE), kind="open", reason="budget")
    assert found.verdicts == (expected,)


def test_the_reliance_is_measured_if_the_method_did_not() -> None:
    one = scorer(response=RESPONSE, language_model=other_chat())
    found = judged({3: 9.0}, reliance=None, one=one)
    expected = one.score([one.context.whole]).changes[0]
    assert expected is not None
    assert found.context_reliance == pytest.approx(expected, abs=ATOL)
    assert found.verdicts[0].reliance == pytest.approx(sum(expected), abs=ATOL)


def test_trivial_sentences() -> None:
    found = judged({3: 9.0}, reliance=8.0, response="Sure! The ships came. I hope this helps!")
    assert [one.kind for one in found.verdicts][::2] == ["trivial", "trivial"]
    assert found.verdicts[1].kind != "trivial"
    assert found.notes == judged({3: 9.0}, reliance=8.0).notes


def test_thinking_is_not_judged_and_a_note_says_so() -> None:
    found = judged({3: 9.0}, reliance=8.0, response="<think>Is it so?</think> The ships came.")
    kinds = [one.kind for one in found.verdicts]
    assert kinds[:-1] == ["reasoning"] * (len(kinds) - 1)
    assert kinds[-1] not in ("reasoning", "trivial")
    assert [note for note in found.notes if "own reasoning" in note] == [
        "The answer was conditioned on the model's own reasoning before it."
    ]


def test_open_where_no_group_carries_the_sentence() -> None:
    found = verdict({3: 3.9}, reliance=400.0)
    assert (found.kind, found.source_ids, found.reason) == ("open", (), "scattered")
    assert found.reliance == 400.0


@pytest.mark.parametrize("reliance", [2.9, -5.0])
def test_nothing_is_unsupported_while_a_document_was_not_found(reliance: float) -> None:
    documents = (*TREATY, "Nobody was told.")
    one = scorer(documents, RESPONSE, language_model=other_chat(), prompt=chat(TREATY))
    assert one.context.not_located == (len(TREATY),)
    found = verdict({3: 1.0}, reliance=reliance, one=one)
    assert (found.kind, found.reason) == ("open", "not_located")
    assert verdict({3: 9.0}, reliance=8.0, one=one).kind == "grounded"


@pytest.mark.parametrize(
    "rest", [" The rest was told in other words.", " 残りは別の言葉で語られた。" * 3]
)
def test_nothing_is_unsupported_while_a_document_was_found_in_part(rest: str) -> None:
    documents = (f"{TREATY[0]} {rest}", *TREATY[1:])
    one = scorer(documents, RESPONSE, language_model=other_chat(), prompt=chat(TREATY))
    assert one.context.not_located == ()
    assert list(one.context.partly_located) == [0]
    found = verdict({3: 1.0}, reliance=2.9, one=one)
    assert (found.kind, found.reason) == ("open", "not_located")


@pytest.mark.parametrize("blank", ["", " \n\t", "\u00a0\u3000", "\ufeff\u200b", "\x00\f"])
def test_a_blank_document_causes_nothing(blank: str) -> None:
    one = scorer((*TREATY, blank), RESPONSE, language_model=other_chat(), prompt=chat(TREATY))
    assert verdict({3: 1.0}, reliance=2.9, one=one).kind == "unsupported"


def test_judging_takes_as_many_tokens_again_as_the_scores() -> None:
    one = scorer(response=RESPONSE, language_model=other_chat())
    one.session.meter.spend(5_000, 1.0)
    options = VerdictOptions(min_tokens=1)
    found = judged({3: 9.0}, reliance=400.0, one=one, options=options)
    assert one.session.meter.tokens <= 10_000
    small = replace(options, token_share=0.01)
    again = scorer(response=RESPONSE, language_model=other_chat())
    again.usage.scored_tokens = 1
    again.session.meter.spend(5_000, 1.0)
    left = judged({3: 3.9}, reliance=400.0, one=again, options=small)
    assert left.verdicts[0].reason == "limit"
    assert again.session.meter.exhausted and again.session.meter.tokens <= 5_050
    assert found.verdicts[0].reason == "scattered"


@pytest.mark.parametrize("budget", [None, Budget(tokens=10**9), Budget(seconds=10**6)])
@pytest.mark.parametrize("share", [1e-6, 0.01, 0.02])
def test_no_budget_ran_out_where_judging_reached_its_own_limit(
    budget: Budget | None, share: float
) -> None:
    options = VerdictOptions(min_tokens=1, token_share=share)
    model = other_chat()
    attribution = Attributor(
        model, method=LeaveOneOut(), verdicts=options, budget=budget, progress=False
    ).attribute(chat(TREATY), RESPONSE, TREATY)
    assert {verdict.reason for verdict in attribution.verdicts} == {"limit"}
    assert attribution.partial
    assert any("token_share" in note for note in attribution.notes)
    assert not any("budget" in note for note in attribution.notes)


def test_passes_grow_with_the_sentences_and_not_with_their_square() -> None:
    def passes_for(count: int) -> int:
        response = " ".join(f"Ship {number + 10} came with salt." for number in range(count))
        one = scorer(response=response, language_model=other_chat(), implementation="cropped")
        width = len(one.generation.response_ids)
        nothing = (0.0,) * width
        # Every sentence depends on the context, and no source explains it.
        scores = Scores(nothing, (nothing,) * 11, (True,) * 11, context_reliance=(0.01,) * width)
        options = VerdictOptions(min_effect=0.1, min_reliance=0.1, min_tokens=10**9)
        found = judge(one, scores, shown(one), options)
        assert len(found.verdicts) == count
        return one.usage.forward_passes

    few, many = passes_for(2), passes_for(16)
    assert few > 2
    assert many <= 8 * few


def test_what_stands_out_stays_cited_where_no_group_explains_more() -> None:
    found = verdict({3: 9.0}, reliance=40.0)
    assert (found.kind, found.source_ids, found.effect) == ("grounded", (3,), 9.0)


def test_what_stands_out_is_not_cited_where_it_hardly_matters() -> None:
    found = verdict({3: 9.0}, reliance=500.0)
    assert (found.kind, found.source_ids, found.effect) == ("open", (), None)


def test_follows_from_an_earlier_sentence() -> None:
    response = "The ships came. They had salt."
    options = VerdictOptions(min_follows=2.0)
    first, second = judged({3: 9.0}, reliance=8.0, response=response, options=options).verdicts
    assert first.kind == "grounded"
    assert (second.kind, second.follows, second.source_ids) == ("follows", 0, ())
    one = scorer(response=response, language_model=other_chat())
    (origin,) = Origins(one, sentences_of(shown(one))).find(1)
    assert second.effect == pytest.approx(origin.effect, abs=ATOL)
    assert second.reliance == 0.0


def test_a_marker_on_what_follows_is_judged_by_what_it_follows_from() -> None:
    response = "The ships came. They had salt [1][2]."
    options = VerdictOptions(min_follows=2.0)
    one = scorer(response=response, language_model=other_chat())
    found = judged({3: 9.0}, reliance=8.0, one=one, options=options)
    assert found.verdicts[1].kind == "follows"
    carrying = one.context.sources[3].documents
    expected = {number: number - 1 in carrying for number in (1, 2)}
    assert {marker.number: marker.supported for marker in found.markers} == expected
    assert len({*expected.values()}) == 2


def test_a_list_of_sources_is_trivial_and_speaks_of_the_whole_answer() -> None:
    one = scorer(response="The ships came. Sources: [1], [2]", language_model=other_chat())
    found = judged({3: 9.0}, reliance=8.0, one=one)
    assert [verdict.kind for verdict in found.verdicts] == ["grounded", "trivial"]
    carrying = one.context.sources[3].documents
    expected = {number: number - 1 in carrying for number in (1, 2)}
    assert {marker.number: marker.supported for marker in found.markers} == expected
    assert len({*expected.values()}) == 2


def test_an_earlier_sentence_of_little_effect_is_no_origin() -> None:
    response = "The ships came. They had salt."
    options = VerdictOptions(min_follows=20.0)
    found = judged({3: 9.0}, reliance=8.0, response=response, options=options).verdicts
    assert [one.kind for one in found] == ["grounded", "unsupported"]


def test_an_earlier_sentence_must_matter_as_much_as_the_context() -> None:
    response = "The ships came. They had salt."
    one = scorer(response=response, language_model=other_chat())
    width = len(one.generation.response_ids)

    def second(reliance: float) -> str:
        row = one_token(reliance, width, width - 1)
        scores = Scores(row, (None,) * 11, (True,) * 11, context_reliance=row)
        options = VerdictOptions(min_follows=1.0)
        return judge(one, scores, shown(one), options).verdicts[1].kind

    assert second(0.1) == "follows"
    assert second(5.9) == "unsupported"


def test_nothing_said_before_is_ruled_out_beyond_the_budget() -> None:
    response = "The ships came. They had salt."
    one = exhausted(scorer(response=response, language_model=other_chat(), budget=10**9))
    first, second = judged({3: 1.0}, reliance=0.5, response=response, one=one).verdicts
    assert (first.kind, first.reason) == ("unsupported", None)
    assert (second.kind, second.reason) == ("open", "budget")


def test_from_the_conversation() -> None:
    turns = ("My name is Brennick.", "Hello Brennick.")
    prompt = [
        {"role": "user", "content": turns[0]},
        {"role": "assistant", "content": turns[1]},
        {"role": "user", "content": "\n\n".join(TREATY) + "\n\nQuestion: who?"},
    ]
    one = scorer(response="Salt is dear.", language_model=other_chat(), prompt=prompt)
    places = find_turns(one.context.prompt.text, turns)
    one = replace(one, context=replace(one.context, conversation=places))
    options = VerdictOptions(min_turn=1.0)
    found = verdict({}, reliance=0.5, one=one, options=options)
    assert (found.kind, found.follows, found.source_ids) == ("conversation", None, ())
    assert found.effect is not None and found.effect > 1.0
    strict = replace(options, min_turn=50.0)
    assert verdict({}, reliance=0.5, one=one, options=strict).kind == "unsupported"


def test_sources_that_were_not_scored_are_left_out() -> None:
    found = verdict({3: 9.0}, reliance=8.0, unscored=(0, 1, 7))
    assert (found.kind, found.source_ids) == ("grounded", (3,))


def test_markers_are_audited_and_are_no_part_of_the_sentence() -> None:
    found = judged({3: 9.0}, reliance=8.0, response="The ships came [2][1][9].")
    assert [(one.number, one.document, one.supported) for one in found.markers] == [
        (2, 1, True),
        (1, 0, False),
        (9, None, None),
    ]
    assert found.verdicts[0].effect == 9.0


@pytest.mark.parametrize("fragment", ["They", "The letters are lo", "- Many letters,"])
def test_a_fragment_in_which_the_answer_was_cut_is_not_held_against_the_context(
    fragment: str,
) -> None:
    whole = scorer(response=f"The ships came.\n{fragment}", language_model=other_chat())
    cut = copy.copy(whole)
    cut.generation = replace(whole.generation, unfinished=True)
    ended, last = (judged({}, reliance=0.0, one=one).verdicts for one in (whole, cut))
    assert [verdict.reason for verdict in ended] == [None, None]
    assert [verdict.reason for verdict in last] == [None, "cut"]
    assert last[1].kind == "open"


@pytest.mark.parametrize("response", ["The ships came.", "塔很高。", "**Who came?** [1]"])
def test_an_answer_that_was_stopped_after_a_sentence_has_no_fragment(response: str) -> None:
    one = scorer(response=response, language_model=other_chat())
    one.generation = replace(one.generation, unfinished=True)
    assert judged({}, reliance=0.0, one=one).verdicts[0].reason is None


def test_several_that_are_cited_stay_without_a_group() -> None:
    """What is cited for words of its own is not replaced by a group."""
    found = verdict({3: 7.0, 5: 9.0}, reliance=400.0)
    assert (found.kind, found.source_ids) == ("open", ())
    found = verdict({3: 7.0, 5: 9.0}, reliance=60.0)
    assert (found.kind, found.source_ids, found.relation) == ("grounded", (5, 3), "each")


class Scripted:
    """Stands in for a scorer of four sources: only source 3 is worth anything."""

    masked_refusal: str | None = None

    def __init__(self, worth: float) -> None:
        one = few()
        self.context, self.session, self.models = one.context, one.session, one.models
        self.generation, self.language_model = one.generation, one.language_model
        self.response = shown(one)
        self._worth = worth

    def score(
        self, ablations: Sequence[Ablation], *, recompute: Reencoded | None = None
    ) -> LogLikelihoods:
        width = len(self.response.token_spans)
        rows = [one_token(-self._worth if 3 in one.source_ids else 0.0, width) for one in ablations]
        return LogLikelihoods(np.zeros(width), np.array(rows), (True,) * len(ablations))


@pytest.mark.parametrize(("worth", "kind"), [(5.0, "open"), (7.0, "grounded")])
def test_a_single_source_that_the_search_for_groups_gives_must_be_above_the_noise(
    worth: float, kind: str
) -> None:
    """Its score was approximate and low. Scores err by 2 nats, so that 5.9 are above the noise."""
    scripted = Scripted(worth)
    width = len(scripted.response.token_spans)

    def rows(total: float) -> tuple[tuple[float, ...], ...]:
        return tuple(one_token(total, width, place) for place in range(4))

    scores = Scores(
        (0.0,) * width,
        rows(0.0),
        (True, True, True, False),
        context_reliance=one_token(8.0, width),
        screened=rows(2.0),
    )
    found = judge(scripted, scores, scripted.response, OPTIONS)  # type: ignore[arg-type]
    assert 5.0 < Evidence.of(scores, range(width), one_token(8.0, width)).floor(OPTIONS) < 7.0
    (verdict,) = found.verdicts
    assert (verdict.kind, verdict.source_ids) == (kind, (3,) if kind == "grounded" else ())
