"""Judging and showing a long answer takes work that grows with its length, and ends in time."""

import time
from functools import cache

import pytest
from support.attributions import handmade
from support.calls import calls_of, num_calls
from support.scorers import TREATY, scorer

from attribot_rag import Attribution, VerdictOptions
from attribot_rag.attribution import ResponseText, Verdict
from attribot_rag.context.splitting.splitter import sentences, split_spans
from attribot_rag.methods import Scores
from attribot_rag.methods.base import Ranking
from attribot_rag.scoring import Budget, Meter, Scorer
from attribot_rag.verdicts import Judgement, judge
from attribot_rag.verdicts.sentences import sentences_of

SHORT, LONG = 40, 160
LINEAR = 1.5 * LONG / SHORT


def answer(num_sentences: int, end: str = " [1].") -> str:
    return " ".join(f"The tower is {1600 + i} feet high{end}" for i in range(num_sentences))


def long_scorer(num_sentences: int) -> Scorer:
    return scorer(TREATY, answer(num_sentences))


def judged(
    target: Scorer, *, reliance: float = 0.0, options: VerdictOptions | None = None
) -> Judgement:
    """Judged by scores of 0, so that the origin of each sentence is searched."""
    width, num_sources = len(target.generation.response_ids), len(target.context.sources)
    scores = Scores(
        (-1.0,) * width,
        ((0.0,) * width,) * num_sources,
        (True,) * num_sources,
        context_reliance=(reliance,) * width,
    )
    options = options or VerdictOptions(min_tokens=10**9)
    with target.backend.assume_unchanged():
        return judge(target, Ranking(scores), ResponseText(*target.response.aligned(None)), options)


def test_the_tokens_of_judging_grow_with_the_answer() -> None:
    short, long = long_scorer(8), long_scorer(24)
    judged(short)
    judged(long)
    assert long.session.meter.tokens < 1.5 * 3 * short.session.meter.tokens
    assert not long.session.meter.exhausted


def test_the_work_of_splitting_an_answer_grows_with_it() -> None:
    def work(num_sentences: int) -> int:
        text = ResponseText(*long_scorer(num_sentences).response.aligned(None))
        return num_calls(lambda: sentences_of(text))

    work(1)
    assert work(LONG) < LINEAR * work(SHORT)


@cache
def shown(num_sentences: int, end: str) -> Attribution:
    """Every sentence cites; without an end, all is one sentence."""
    text = answer(num_sentences, end)
    spans = split_spans(text, sentences)
    verdicts = (Verdict(start=a, end=b, kind="grounded", source_ids=(0,)) for a, b in spans)
    return handmade(text, TREATY, {TREATY[0]: (1.0,) * len(spans)}, verdicts=tuple(verdicts))


@pytest.mark.parametrize("form", ["to_html", "to_markdown", "to_table", "to_cited_text", "to_json"])
def test_the_work_of_showing_grows_with_the_answer(form: str) -> None:
    def work(num_sentences: int) -> int:
        attribution = shown(num_sentences, ".")
        return num_calls(getattr(attribution, form))

    work(1)
    assert work(LONG) < LINEAR * work(SHORT)


class LateClock:
    """A processor's clock that is an hour late."""

    @staticmethod
    def perf_counter() -> float:
        return time.perf_counter() + 3_600


@pytest.mark.parametrize(("reliance", "search"), [(0.0, "largest"), (1.0, "are_enough")])
def test_nothing_is_searched_when_time_is_over(
    reliance: float, search: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither earlier sentences nor sources; the verdicts are those of the scores alone."""
    in_time, late = long_scorer(3), long_scorer(3)
    for target in (in_time, late):
        target.usage.scored_tokens = 1
        target.session.meter = Meter(Budget(seconds=3_000))
        target.session.meter.spend(10**6, 1.0)
    assert calls_of(lambda: judged(in_time, reliance=reliance))[search]
    assert not in_time.session.meter.exhausted
    monkeypatch.setattr("attribot_rag.scoring.session.time", LateClock())
    judgements: list[Judgement] = []
    assert not calls_of(lambda: judgements.append(judged(late, reliance=reliance)))[search]
    assert late.session.meter.exhausted
    first, *rest = judgements[0].verdicts
    assert {verdict.reason for verdict in rest} == {"budget"}
    assert first.kind == ("open" if reliance else "unsupported")
