"""Groups that carry a sentence: exact, no larger than they have to be, and bounded."""

from functools import cache

import pytest
from methods.scorers import ATOL, TREATY, many_documents, other_chat, scorer

from attribot_rag.context import Ablation
from attribot_rag.scoring import Scorer
from attribot_rag.scoring.scorer import Recompute
from attribot_rag.verdicts.redundancy import Group, find_group

SENTENCE = "The ships came with salt."
DOCUMENTS = {"treaty": TREATY, "places": many_documents(4)}
# What a group has to be worth, by the largest effect of one source: each takes a larger group.
NEEDED = [("treaty", 0.3), ("treaty", 0.6), ("treaty", 0.9), ("places", 0.3), ("places", 0.9)]


@cache
def bytes_scorer(name: str) -> Scorer:
    return scorer(DOCUMENTS[name], language_model=other_chat())


def tokens_of(one: Scorer) -> list[int]:
    """Those of the first half of the answer."""
    return list(range(len(one.generation.response_ids) // 2))


def effect(one: Scorer, *source_ids: int, masked: bool = False) -> float:
    recompute: Recompute | None = "question" if masked else None
    (row,) = one.score([Ablation.of(*source_ids)], recompute=recompute).changes
    assert row is not None
    return sum(row[i] for i in tokens_of(one))


@cache
def effects(name: str) -> dict[int, float]:
    one = bytes_scorer(name)
    return {source_id: effect(one, source_id) for source_id in one.context.present}


def find(name: str, share: float, *, max_group: int = 5) -> tuple[Group | None, float]:
    one, alone = bytes_scorer(name), effects(name)
    needed = share * max(alone.values())
    group = find_group(one, alone, SENTENCE, tokens_of(one), needed=needed, max_group=max_group)
    return group, needed


@pytest.mark.parametrize(("name", "share"), NEEDED)
def test_the_effect_is_that_of_the_exact_ablation(name: str, share: float) -> None:
    group, needed = find(name, share)
    assert group is not None
    assert group.effect == pytest.approx(effect(bytes_scorer(name), *group.source_ids), abs=ATOL)
    assert group.effect >= needed / 2


@pytest.mark.parametrize(("name", "share"), NEEDED)
def test_none_of_the_group_can_be_spared(name: str, share: float) -> None:
    group, needed = find(name, share)
    assert group is not None
    one = bytes_scorer(name)
    assert effect(one, *group.source_ids, masked=True) >= needed - ATOL
    for gone in group.source_ids:
        rest = [source_id for source_id in group.source_ids if source_id != gone]
        assert not rest or effect(one, *rest, masked=True) < needed + ATOL


def test_groups_grow_with_what_is_needed() -> None:
    groups = [find("treaty", share)[0] for share in (0.3, 0.6, 0.9)]
    sizes = [len(group.source_ids) for group in groups if group is not None]
    assert len(sizes) == 3
    assert sizes[0] == 1 < sizes[1] < sizes[2]


@pytest.mark.parametrize("max_group", [2, 3, 4])
@pytest.mark.parametrize(("name", "share"), NEEDED)
def test_groups_are_bounded(name: str, share: float, max_group: int) -> None:
    group, _ = find(name, share, max_group=max_group)
    assert group is None or len(group.source_ids) <= max_group


def test_what_would_take_more_sources_is_not_found() -> None:
    group, _ = find("treaty", 0.9)
    assert group is not None and len(group.source_ids) > 2
    assert find("treaty", 0.9, max_group=2)[0] is None


def test_no_group_is_worth_so_much() -> None:
    assert find("treaty", 100.0)[0] is None


@pytest.mark.parametrize(("name", "share"), NEEDED)
def test_the_most_effective_source_comes_first(name: str, share: float) -> None:
    group, _ = find(name, share)
    assert group is not None
    alone = [effects(name)[source_id] for source_id in group.source_ids]
    assert alone == sorted(alone, reverse=True)


@pytest.mark.parametrize(("name", "share"), NEEDED)
def test_either_is_said_where_the_parts_do_not_add_up(name: str, share: float) -> None:
    group, _ = find(name, share)
    assert group is not None
    one = bytes_scorer(name)
    parts = [max(0.0, effect(one, source_id, masked=True)) for source_id in group.source_ids]
    assert group.either == (sum(parts) < 0.7 * group.effect)


@pytest.mark.parametrize(
    ("source_ids", "either", "relation"),
    [((1, 2), True, "either"), ((1, 2), False, "together"), ((1,), True, "each")],
)
def test_relations(source_ids: tuple[int, ...], either: bool, relation: str) -> None:
    assert Group(source_ids, 3.0, either).relation == relation


def test_what_was_not_scored_is_a_candidate_if_it_is_like_the_sentence() -> None:
    one = bytes_scorer("treaty")
    best = max(effects("treaty"), key=lambda source_id: effect(one, source_id, masked=True))
    sentence = one.context.sources[best].text
    needed = 0.99 * effect(one, best, masked=True)
    group = find_group(one, {}, sentence, tokens_of(one), needed=needed, max_group=5)
    assert group is not None and group.source_ids == (best,)


def test_without_any_budget_left() -> None:
    one = scorer(language_model=other_chat(), budget=10**6)
    one.session.meter.spend(10**6, 1.0)
    alone = effects("treaty")
    tokens = tokens_of(one)
    # Something was scored before, so that not even one pass is free.
    one.usage.scored_tokens = 1
    assert find_group(one, alone, SENTENCE, tokens, needed=0.5, max_group=5) is None
    assert one.session.meter.exhausted


def test_a_budget_that_ends_somewhere_gives_an_exact_group_or_none() -> None:
    whole, needed = find("treaty", 0.9)
    found = []
    for budget in (1_000, 3_000, 10_000, 10**7):
        one = scorer(language_model=other_chat(), budget=budget)
        group = find_group(
            one, effects("treaty"), SENTENCE, tokens_of(one), needed=needed, max_group=5
        )
        if group is not None:
            exact = effect(bytes_scorer("treaty"), *group.source_ids)
            assert group.effect == pytest.approx(exact, abs=ATOL)
        found.append(group)
    assert found[0] is None
    assert found[-1] == whole
