"""Which sources stand out for a sentence, and how far scores are from 0 that are no causes."""

from collections.abc import Sequence

import pytest

from attribot_rag import VerdictOptions
from attribot_rag.methods import Scores
from attribot_rag.verdicts.evidence import Evidence

OPTIONS = VerdictOptions()


def evidence(
    totals: Sequence[float | None],
    *,
    reliance: float = 20.0,
    screened: Sequence[float | None] | None = None,
) -> Evidence:
    """Of a sentence that is the second of two tokens; the first one has other scores."""

    def rows(given: Sequence[float | None]) -> tuple[tuple[float, ...] | None, ...]:
        return tuple(None if one is None else (100.0, one) for one in given)

    scores = Scores(
        (-1.0, -1.0),
        rows(totals),
        (True,) * len(totals),
        screened=None if screened is None else rows(screened),
    )
    return Evidence.of(scores, [1], (100.0, reliance))


def test_sums_are_over_the_tokens_of_the_sentence() -> None:
    found = evidence([3.0, None, -1.0])
    assert found.effects == {0: 3.0, 2: -1.0}
    assert found.own == {0: 3.0, 2: 0.0}
    assert found.reliance == 20.0


def test_what_a_source_is_worth_where_no_other_is_worth_more() -> None:
    rows = ((5.0, 0.0, 2.0, -1.0), (1.0, 4.0, 2.5, -2.0))
    scores = Scores((-1.0,) * 4, rows, (True, True))
    found = Evidence.of(scores, range(4), (1.0,) * 4)
    assert found.effects == {0: 6.0, 1: 5.5}
    assert found.own == {0: 5.0, 1: 6.5}


def two_facts(first: float, second: float, beside: float = 0.5) -> Evidence:
    """Each of two sources is worth something to a token of its own, a third a little to both."""
    rows = ((first, 0.0), (0.0, second), (beside / 2, beside / 2))
    return Evidence.of(Scores((-1.0, -1.0), rows, (True,) * 3), (0, 1), (20.0, 20.0))


def test_two_facts_are_both_cited_the_best_first() -> None:
    """Measured: an uncited source was worth 12.5 nats of 26.4."""
    assert two_facts(12.5, 13.9).cited(OPTIONS) == (1, 0)
    assert two_facts(13.9, 5.6).cited(OPTIONS) == (0, 1)


def test_what_is_worth_little_to_words_of_its_own_is_not_cited_beside_another() -> None:
    assert two_facts(13.9, 5.4).cited(OPTIONS) == (0,)
    # Worth more than the least that counts, but nowhere more than the cause.
    rows = ((6.0, 5.0), (3.0, 3.0))
    found = Evidence.of(Scores((-1.0, -1.0), rows, (True,) * 2), (0, 1), (20.0, 20.0))
    assert found.effects[1] > OPTIONS.min_own
    assert found.cited(OPTIONS) == (0,)


def test_what_is_small_beside_the_best_is_not_cited() -> None:
    """Measured: beside a cause of 11 nats a source of 1.29 was cited."""
    assert two_facts(11.0, 1.29).cited(OPTIONS) == (0,)


def test_nothing_below_the_least_effect_is_cited() -> None:
    least = OPTIONS.min_effect
    assert evidence([least, 0.1]).cited(OPTIONS) == (0,)
    assert evidence([least - 0.1, 0.1]).cited(OPTIONS) == ()
    assert evidence([None, None]).cited(OPTIONS) == ()


def test_noise_by_the_spread_of_many_scores() -> None:
    """By the median deviation from the median: 0.5, of which the others are up to 1 away."""
    spread = [30.0, 0.5, 1.5, -0.5, 1.4, -0.4, 0.6, 0.4, -0.5]
    assert evidence(spread).noise == pytest.approx(1.4826 * 0.9)
    assert evidence(spread[:7]).noise == 0.0


def test_noise_by_two_kinds_of_scores_of_the_same_sources() -> None:
    exact = [30.0, 1.0, 0.2, -0.6, None]
    masked = [24.0, 0.3, 0.4, 0.0, 5.0]
    # Differences 6, 0.7, 0.2 and 0.6: their median is 0.65.
    assert evidence(exact, screened=masked).noise == pytest.approx(1.4826 * 0.65)
    # What has a score of one kind only says nothing; three differences are too few.
    assert evidence([30.0, 1.0, 0.2, 0.0], screened=[24.0, 0.3, 0.4, 0.0]).noise == 0.0


def test_causes_do_not_count_as_noise() -> None:
    noise = [0.1, -0.1, 0.2, -0.2, 0.1, -0.1, 0.3, -0.3]
    one, three = evidence([40.0, *noise]), evidence([40.0, 30.0, 20.0, *noise])
    assert one.noise < 0.3 and three.noise < 0.4


def test_a_source_has_to_stand_above_the_noise() -> None:
    noisy = [6.0, 3.0, -3.0, 2.5, -2.5, 3.5, -3.5, 2.0, -2.0]
    found = evidence(noisy)
    assert 3.0 < found.noise < 6.0
    assert found.cited(OPTIONS) == ()
    trusting = VerdictOptions(noise_factor=1.0)
    assert found.cited(trusting) == (0,)


def test_a_source_has_to_stand_above_what_a_server_gives_at_random() -> None:
    """Of four tokens, each of which differs by so much: half as much as their sum, twice over."""
    scores = Scores((-1.0,) * 4, ((2.0,) * 4, (0.1,) * 4), (True, True))
    for call_noise, cited in {0.0: (0,), 1.9: (0,), 2.1: ()}.items():
        found = Evidence.of(scores, range(4), (3.0,) * 4, call_noise=call_noise)
        assert found.noise == 2 * call_noise
        assert found.cited(OPTIONS) == cited
