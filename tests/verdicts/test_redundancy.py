"""Groups by games whose outcome is known, and on a model: exact, no larger than needed, bounded."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from support.scorers import ATOL, TREATY, many_documents, other_chat, scorer

from attribot_rag import VerdictOptions
from attribot_rag.context import Ablation
from attribot_rag.scoring import LogLikelihoods, Reencoded, Scorer
from attribot_rag.verdicts.joint import JointEffects
from attribot_rag.verdicts.redundancy import Group, find_group

OPTIONS = VerdictOptions()
Game = Callable[[Collection[int]], float]
"""What a sentence of one token is worth with these sources left, in nats."""


class Player:
    """Stands in for a scorer: the log-likelihood is a known function of the sources left."""

    masked_refusal: str | None = None

    def __init__(self, game: Game, num_sources: int, *, most_rows: int = 1000) -> None:
        self._game = game
        self._all = range(num_sources)
        self._rows_left = most_rows
        self.num_rows = 0

    def score(
        self, ablations: Sequence[Ablation], *, recompute: Reencoded | None = None
    ) -> LogLikelihoods:
        rows = []
        for one in ablations:
            left = [i for i in self._all if i not in one.source_ids]
            afforded = self.num_rows < self._rows_left
            rows.append([self._game(left) if afforded else np.nan])
            self.num_rows += afforded
        full = np.array([self._game(list(self._all))])
        return LogLikelihoods(full, np.array(rows).reshape(-1, 1), (True,) * len(ablations))


def any_of(*sufficient: int, worth: float = 10.0) -> Game:
    return lambda left: worth * any(one in left for one in sufficient)


def parts(worth: float) -> Game:
    """Each source adds as much."""
    return lambda left: worth * len(left)


def play(game: Game, *, needed: float = 6.0, num_sources: int = 5) -> Group | None:
    joint = JointEffects(Player(game, num_sources), {})  # type: ignore[arg-type]
    return find_group(joint, range(num_sources), [0], needed=needed, options=OPTIONS)


def test_either_of_two_and_of_three() -> None:
    for members in ((1, 3), (0, 2, 4)):
        found = play(any_of(*members))
        assert found == Group(members, 10.0, "either")


def test_only_together() -> None:
    found = play(parts(5.0), needed=13.0)
    assert found == Group((0, 1, 2), 15.0, "together")


def test_what_is_needed_by_itself_is_worth_enough_alone() -> None:
    found = play(lambda left: 20.0 * (1 in left and 3 in left))
    assert found == Group((1,), 20.0, "each")


def test_a_source_beside_one_that_suffices_is_not_either() -> None:
    """Measured: 7.7 nats lost without 1, 13 without both, nothing without 3."""

    def ticket_and_entry(left: Collection[int]) -> float:
        return 13.0 if 1 in left else 5.3 if 3 in left else 0.0

    found = play(ticket_and_entry)
    assert found is not None
    assert (found.source_ids, found.relation) == ((1,), "each")
    assert found.effect == pytest.approx(7.7)


def test_a_member_stands_alone_up_to_a_share_of_the_joint_effect() -> None:
    def weaker(left: Collection[int]) -> float:
        return 10.0 if 1 in left else 5.9 if 3 in left else 0.0

    alone = play(weaker)
    assert alone is not None and (alone.source_ids, alone.relation) == ((1,), "each")
    joint = JointEffects(Player(weaker, 5), {})  # type: ignore[arg-type]
    tolerant = replace(OPTIONS, stands_share=0.42)
    found = find_group(joint, range(5), [0], needed=6.0, options=tolerant)
    assert found == Group((1, 3), 10.0, "either")


def test_nothing_where_all_candidates_together_are_worth_less() -> None:
    assert play(any_of(1, 3, worth=5.9)) is None
    assert play(lambda left: 2.0 * len(left), needed=10.1) is None


def test_together_has_to_be_worth_more_than_what_sets_the_tone() -> None:
    assert play(parts(3.9), needed=11.0, num_sources=3) is None
    assert play(parts(4.1), needed=11.0, num_sources=3) is not None


def test_what_takes_more_sources_than_a_group_may_have_is_not_found() -> None:
    assert play(parts(5.0), needed=25.5, num_sources=6) is None
    assert play(parts(5.0), needed=24.5, num_sources=6) is not None


def test_the_cost_grows_with_the_candidates_only() -> None:
    for game in (any_of(1, 3), any_of(*range(5)), parts(3.0)):
        player = Player(game, 8)
        joint = JointEffects(player, {})  # type: ignore[arg-type]
        find_group(joint, range(8), [0], needed=6.0, options=OPTIONS)
        assert player.num_rows <= 8 + 4 * OPTIONS.max_group
        # Another sentence of the answer asks for the same rows.
        before = player.num_rows
        find_group(joint, range(8), [0], needed=6.0, options=OPTIONS)
        assert player.num_rows == before


@pytest.mark.parametrize("most_rows", range(16))
def test_a_budget_that_ends_somewhere_gives_the_group_or_none(most_rows: int) -> None:
    """So much is at stake that it would be enough for all together, had they been needed."""
    game = any_of(1, 3, worth=40.0)
    joint = JointEffects(Player(game, 5, most_rows=most_rows), {})  # type: ignore[arg-type]
    found = find_group(joint, range(5), [0], needed=24.0, options=OPTIONS)
    assert found in (None, Group((1, 3), 40.0, "either"))
    assert (found is None) == (most_rows < 12)


DOCUMENTS = {"treaty": TREATY, "places": many_documents(4)}


@cache
def bytes_scorer(name: str) -> Scorer:
    return scorer(DOCUMENTS[name], language_model=other_chat())


def tokens_of(one: Scorer) -> list[int]:
    """Those of the first half of the answer."""
    return list(range(len(one.generation.response_ids) // 2))


def effect(one: Scorer, source_ids: Collection[int]) -> float:
    (row,) = one.score([Ablation.of(*source_ids)]).changes
    assert row is not None
    return sum(row[i] for i in tokens_of(one))


@pytest.mark.parametrize("stands_share", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("name", list(DOCUMENTS))
def test_on_a_model_a_group_is_what_it_is_called(name: str, stands_share: float) -> None:
    one = bytes_scorer(name)
    candidates = sorted(one.context.present, key=lambda i: -effect(one, [i]))[:6]
    # Effects on a random model are small, also those of several together.
    options = replace(OPTIONS, stands_share=stands_share, min_reliance=0.01)
    joint = JointEffects(one, {})
    (whole,) = joint.approximate([candidates], tokens_of(one))
    assert whole is not None
    needed = 0.3 * whole
    found = find_group(joint, candidates, tokens_of(one), needed=needed, options=options)
    assert found is not None
    assert found.effect == pytest.approx(effect(one, found.source_ids), abs=ATOL)
    assert (len(found.source_ids) == 1) == (found.relation == "each")
    if found.relation == "either":
        assert found.effect >= needed / 2
        for kept in found.source_ids:
            lost = effect(one, [i for i in found.source_ids if i != kept])
            assert lost <= stands_share * found.effect + ATOL


def test_a_known_row_is_not_scored_again() -> None:
    player = Player(any_of(1), 5)
    joint = JointEffects(player, {1: (7.0,)})  # type: ignore[arg-type]
    assert joint.exact([[1], [], [1, 2]], [0]) == [7.0, 0.0, 10.0]
    assert player.num_rows == 1


def test_without_masking_all_rows_are_exact() -> None:
    player = Player(any_of(1), 5)
    player.masked_refusal = "no"
    joint = JointEffects(player, {})  # type: ignore[arg-type]
    assert joint.approximate([[1]], [0]) == joint.exact([[1]], [0]) == [10.0]
    assert player.num_rows == 1
