"""Rows of only a few sources, and the search for the few that suffice."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.scorers import ATOL, TREATY, built, many_documents, other_chat, scorer
from support.scripted import Scripted, Worth

from attribot_rag.context import Ablation
from attribot_rag.methods.base import Part, Ranking, Scores, SourceSet, parts_of, scores_of
from attribot_rag.methods.evidence import Evidence, PartLosses, Search
from attribot_rag.methods.limits import Limits
from attribot_rag.methods.necessity import UnitOrder
from attribot_rag.methods.search import find_sources
from attribot_rag.model.generation import Generation
from attribot_rag.model.local_model import model_here
from attribot_rag.scoring import Scorer
from attribot_rag.scoring.local_prefix import Reference
from attribot_rag.scoring.row import Row

RESPONSE = "The ships came with salt."
FIRST, SECOND = 4, 20
"""The first letters of 'ships' and 'salt': byte tokens."""
PART = Part(tuple(range(25)), (tuple(range(4, 9)), tuple(range(20, 24))), ("ships", "salt"))
OWN_WORDS = replace(PART, words=("boats", "brine"))
"""The same in words that no source holds."""
HOLDER = 3
"""The source that holds both words."""
Ids = frozenset[int]


def only(target: Scorer, kept: Collection[int]) -> Ablation:
    return target.context.ablation_of_others(kept)


@pytest.mark.parametrize("implementation", ["packed", "cropped"])
@pytest.mark.parametrize("kept", [[0], [4], [10], [0, 1], [2, 5, 9], [*range(11)]])
def test_a_row_with_only_some_sources_equals_the_reference(
    implementation: str, kept: list[int]
) -> None:
    fast, reference = (
        scorer(language_model=built("llama"), implementation=name)
        for name in (implementation, "reference")
    )
    actual, expected = (target.score([only(target, kept)]) for target in (fast, reference))
    np.testing.assert_allclose(actual.ablated, expected.ablated, atol=ATOL)
    assert actual.exact == (True,)
    if len(kept) == len(fast.context.sources):
        np.testing.assert_allclose(actual.ablated[0], actual.full, atol=ATOL)


@pytest.mark.parametrize("kept", [[0], [1], [3], [1, 2], [0, 3]])
def test_a_prompt_with_only_some_documents_is_as_if_the_others_never_were(
    kept: list[int],
) -> None:
    target = scorer(TREATY)
    sources = [source.id for source in target.context.sources if {*source.documents} & {*kept}]
    ids = target.context.ablate(only(target, sources), target.language_model).ids
    assert ids == scorer([TREATY[index] for index in kept]).generation.prompt_ids


def test_an_ablation_is_scored_once() -> None:
    target = scorer()
    ablations = [Ablation.of(1), Ablation.of(2), Ablation.of(1)]
    first = target.score(ablations)
    tokens = target.usage.scored_tokens
    again = target.narrowed([(2,), (1,)]).score(ablations[::-1])
    assert target.usage.scored_tokens == tokens
    np.testing.assert_array_equal(again.ablated, first.ablated[::-1])
    assert (again.exact, [*again.full]) == (first.exact, [*first.full])
    masked = target.score([Ablation.of(1)], recompute="question")
    assert target.usage.scored_tokens > tokens
    assert not np.allclose(masked.ablated[0], first.ablated[0], atol=ATOL)


def searched(
    worth: Worth,
    order: Sequence[int] = (),
    part: Part = PART,
    *,
    limits: Limits | None = None,
    rows: int = 99,
    asked: list[Part] | None = None,
    documents: Sequence[str] = TREATY,
) -> tuple[SourceSet, int]:
    """The found of a part, and the number of rows; `asked` gets the parts that are ranked."""
    target = scorer(documents, response=RESPONSE, language_model=other_chat())
    shown: Any = Scripted(target, worth)
    shown.most_rows = rows
    reliance = shown.score([shown.context.without_documents]).changes[0]

    class Ordered(Ranking):
        def ranked(self, part: Part) -> Sequence[int]:
            if asked is not None:
                asked.append(part)
            return order

    tried = UnitOrder(shown, Ordered(Scores.empty(shown)))
    (found,) = find_sources([part], Evidence(shown, reliance), tried, limits or Limits())
    return found, len(shown.kept_by_row)


Worths = dict[int, tuple[int, float]]
"""Sources that are worth nats to a token, of which the best counts."""


def each(worths: Worths) -> Worth:
    def worth(kept: Ids) -> dict[int, float]:
        nats: dict[int, float] = {}
        for source, (token, value) in worths.items():
            if source in kept:
                nats[token] = max(nats.get(token, 0.0), value)
        return nats

    return worth


ORDER = [*range(11)]


@pytest.mark.parametrize(("least", "members"), [(0.0, (3,)), (0.3, (3,)), (0.5, ())])
def test_nothing_is_sought_below_the_least_reliance_per_token(
    least: float, members: tuple[int, ...]
) -> None:
    limits = Limits(min_per_token=least)
    found, num_rows = searched(each({3: (FIRST, 9.0)}), [3], limits=limits)  # 0.36 a token
    assert found.members == members and found.complete
    assert num_rows == (3 if members else 1)


@pytest.mark.parametrize(
    ("worths", "order", "members", "alternatives", "rows"),
    [
        ({3: (FIRST, 9.0)}, [3], {3}, (), 3),
        ({3: (FIRST, 1.7)}, [3], set(), (), 3),
        ({3: (FIRST, 9.0), 5: (SECOND, 9.0)}, [3, 4, 6, 5], {3, 5}, (), None),
        ({3: (FIRST, 9.0), 5: (FIRST, 9.0)}, [3, 4, 5], {3}, (5,), None),
    ],
    ids=["one", "hardly any", "two, others are dropped", "either"],
)
@pytest.mark.parametrize("part", [PART, OWN_WORDS], ids=["words of sources", "words of its own"])
def test_sets_that_are_enough(
    worths: Worths,
    order: list[int],
    members: set[int],
    alternatives: tuple[int, ...],
    rows: int | None,
    part: Part,
) -> None:
    """One source takes a row with it alone and one without it; if none does, two documents go."""
    found, num_rows = searched(each(worths), [*order, *ORDER], part)
    assert (set(found.members), found.alternatives, found.complete) == (
        members,
        alternatives,
        True,
    )
    assert rows in (None, num_rows)


@pytest.mark.parametrize(
    ("said", "first"), [({"river"}, 1), ({"river", "winters"}, 1), ({"river", "queen"}, 9)]
)
def test_of_units_with_the_same_new_word_one_with_more_question_words_is_first(
    said: set[str], first: int
) -> None:
    """Three hold the word 'river'; what else the sentence says is in the question, too."""
    part = Part(PART.tokens, PART.word_tokens[:1], ("river",), frozenset(said))
    worth = each({1: (FIRST, 9.0), 3: (FIRST, 9.0), 9: (FIRST, 9.0)})
    found, _ = searched(worth, ORDER, part)
    assert found.members == (first,)
    assert {first, *found.alternatives} == {1, 3, 9}


def spoken_against(nats: float, reliance: float, unit: int = 3) -> Worth:
    """A source is worth these nats; the others speak against it, down to this reliance."""

    def worth(kept: Ids) -> dict[int, float]:
        others = (reliance - nats) * bool(kept - {unit})
        return {FIRST: nats * (unit in kept) + others}

    return worth


@pytest.mark.parametrize("part", [PART, OWN_WORDS], ids=["words of sources", "words of its own"])
@pytest.mark.parametrize("unit", [0, HOLDER, 10])
@pytest.mark.parametrize(
    ("nats", "reliance", "is_cited"),
    [(4.0, 1.0, True), (5.0, -2.0, True), (5.0, 2.5, True), (3.9, 1.0, False), (2.0, 1.0, False)],
)
def test_a_decisive_source_is_found_whatever_the_reliance(
    nats: float, reliance: float, is_cited: bool, unit: int, part: Part
) -> None:
    found, _ = searched(spoken_against(nats, reliance, unit), part=part)
    assert (found.members, found.complete) == ((unit,) if is_cited else (), True)


@pytest.mark.parametrize("unit", [0, 7, 13, 23])
def test_a_decisive_source_is_found_in_few_rows_among_many_documents(unit: int) -> None:
    worth = spoken_against(4.0, 1.0, unit)
    found, num_rows = searched(worth, part=OWN_WORDS, documents=many_documents(8))
    assert found.members == (unit,)
    assert num_rows <= 14


def test_the_search_uses_exact_scores_of_the_method() -> None:
    """A source whose exact score is decisive needs one more row: the one with only it."""
    target: Any = Scripted(
        scorer(response=RESPONSE, language_model=other_chat()), spoken_against(5.0, 1.0)
    )
    ablations = [Ablation.of(unit) for unit in range(len(target.units))]
    exact = scores_of(target.score(ablations))
    reliance = target.score([target.context.without_documents]).changes[0]
    target.kept_by_row.clear()
    order = UnitOrder(target, Ranking(exact))
    (found,) = find_sources([PART], Evidence(target, reliance), order, Limits())
    assert (found.members, len(target.kept_by_row)) == ((3,), 1)


def test_a_set_that_is_enough_keeps_every_content_word() -> None:
    """Most of the nats are not enough: 'the library closes at eight' lacks the word 'five'."""
    found, _ = searched(each({3: (FIRST, 20.0), 5: (SECOND, 4.0)}), [3, 5, *ORDER])
    assert set(found.members) == {3, 5}
    loose = Limits(min_word=5.0)
    found, _ = searched(each({3: (FIRST, 20.0), 5: (SECOND, 4.0)}), [3, 5, *ORDER], limits=loose)
    assert found.members == (3,)


@pytest.mark.parametrize(("part", "is_enough"), [(PART, True), (OWN_WORDS, False)])
def test_a_source_explains_words_that_it_has_and_that_are_lost_without_it(
    part: Part, is_enough: bool
) -> None:
    def worth(kept: Ids) -> dict[int, float]:
        of_salt = 5.0 if len(kept) > 9 else 2.0
        return {FIRST: 20.0 * (HOLDER in kept), SECOND: of_salt * (HOLDER in kept)}

    order = sorted(ORDER, key=lambda unit: unit != HOLDER)
    found, num_rows = searched(worth, order, part)
    assert (found.members, found.sufficient) == ((HOLDER,), False)
    assert (num_rows == 3) is is_enough


def test_a_masked_effect_far_above_its_limit_needs_no_exact_row() -> None:
    (near, rows), (far, fewer) = (searched(spoken_against(nats, 1.0)) for nats in (7.9, 8.1))
    assert near.members == far.members == (3,)
    assert fewer == rows - 1


@pytest.mark.parametrize(
    ("nats", "text", "is_alone"),
    [(7.0, "salt", True), (7.0, "ships", False), (5.0, "salt", False), (13.0, "ships", True)],
)
def test_earlier_text_is_excluded_if_new_words_rely_on_the_documents(
    nats: float, text: str, is_alone: bool
) -> None:
    target: Any = Scripted(
        scorer(response=RESPONSE, language_model=other_chat()), each({3: (SECOND, nats)})
    )
    evidence = Evidence(target, target.score([target.context.without_documents]).changes[0])
    part = Part(tuple(range(10, 25)), PART.word_tokens[1:], (text,))
    (found,) = find_sources([part], evidence, UnitOrder(target), Limits())
    assert (found.members, evidence.for_part(part).excludes_earlier_text) == ((3,), is_alone)


SAID = replace(PART, all_words=frozenset({"ships", "salt", "seals"}))
"""A sentence about the seals, too: a word of the question, which source 7 holds."""


def beside(nats: float, units: Ids, kept: Ids) -> dict[int, float]:
    """What the holder of the words is worth, and any of the units beside it."""
    return {FIRST: 20.0 * (HOLDER in kept), 0: nats * bool(units & kept)}


@pytest.mark.parametrize(
    ("nats", "units", "part", "further"),
    [
        (5.0, {7}, SAID, (7,)),
        (3.9, {7}, SAID, ()),  # too little
        (5.0, {7, 9}, SAID, ()),  # another source makes up for it
        (5.0, {7}, PART, ()),  # it holds nothing of what the sentence says
        (5.0, {9}, SAID, ()),
    ],
)
def test_a_further_source_is_found_if_it_adds_enough(
    nats: float, units: set[int], part: Part, further: tuple[int, ...]
) -> None:
    """A source that leads from the question to the one that holds the words."""
    found, _ = searched(partial(beside, nats, Ids(units)), part=part)
    assert (found.members, found.further) == ((HOLDER,), further)


def test_no_further_source_is_sought_if_little_is_left() -> None:
    scored = [searched(partial(beside, nats, Ids([7])), part=SAID)[1] for nats in (1.2, 1.3)]
    assert scored == [scored[0], scored[0] + 1]


def test_if_no_set_is_enough_the_most_needed_sources_are_found() -> None:
    def worth(kept: Ids) -> dict[int, float]:
        return {FIRST: 2.0 * len(kept)}

    found, _ = searched(worth, ORDER, limits=Limits(kept_share=0.8))
    assert (found.members, found.sufficient, found.complete) == ((0, 1), False, True)
    found, _ = searched(worth, ORDER, limits=Limits(kept_share=0.4, min_word=99.0))
    assert len(found.members) == 5


@pytest.mark.parametrize("unit", [2, 4, 10])
def test_the_most_needed_source_is_found_even_if_it_is_ranked_last(unit: int) -> None:
    def worth(kept: Ids) -> dict[int, float]:
        is_read = unit in kept and len(kept) > 6
        return {FIRST: 8.0 * is_read, SECOND: 0.8 * len(kept)}

    found, _ = searched(worth, [*ORDER[:unit], *ORDER[unit + 1 :], unit])
    assert (found.members, found.sufficient) == ((unit,), False)


def test_no_document_is_left_out_if_the_first_source_costs_half_of_the_reliance() -> None:
    def worth(kept: Ids) -> dict[int, float]:
        is_read = 0 in kept and len(kept) > 6
        return {FIRST: 8.0 * is_read, SECOND: 6.0 * (len(kept) > 9)}

    found, num_rows = searched(worth, ORDER)
    assert (found.members, found.sufficient) == ((0,), False)
    assert num_rows == 11


@pytest.mark.parametrize("needed", [2, 4, 10])
def test_the_search_ends_with_an_irreplaceable_source_even_if_it_is_not_enough(needed: int) -> None:
    """With few sources, the sentence is unlikely; without this one, it is even with all others."""

    def worth(kept: Ids) -> dict[int, float]:
        return {FIRST: 13.0 * (needed in kept and len(kept) > 6)}

    rest = [unit for unit in ORDER if unit != needed]
    found, num_rows = searched(worth, [needed, *rest], OWN_WORDS)
    assert (found.members, found.sufficient) == ((needed,), False)
    assert num_rows == 7


@pytest.mark.parametrize("other", [3, 5, 8])
def test_the_search_goes_on_if_a_word_needs_another_source(other: int) -> None:
    def worth(kept: Ids) -> dict[int, float]:
        return {FIRST: 9.0 * (0 in kept), SECOND: 4.0 * (other in kept)}

    rest = [unit for unit in ORDER[1:] if unit != other]
    found, _ = searched(worth, [0, *rest[:2], other, *rest[2:]], OWN_WORDS)
    assert set(found.members) == {0, other}


@pytest.mark.parametrize("needed", [3, 5, 8])
def test_an_irreplaceable_source_of_four_ends_the_search_without_smaller_sets(needed: int) -> None:
    """Of four sources that are enough, others replace three; the fourth is not enough alone."""

    def worth(kept: Ids) -> dict[int, float]:
        return {FIRST: 6.0 * (needed in kept), 0: 2.0 * len(kept & {0, 1, needed})}

    rest = [unit for unit in ORDER[2:] if unit != needed]
    found, num_rows = searched(worth, [needed, 0, 1, *rest], OWN_WORDS)
    assert (found.members, found.sufficient) == ((needed,), False)
    assert num_rows == 5


def test_a_part_with_little_reliance_is_skipped_if_it_needs_no_search() -> None:
    target: Any = Scripted(
        scorer(response=RESPONSE, language_model=other_chat()), spoken_against(5.0, 1.0)
    )
    reliance = target.score([target.context.without_documents]).changes[0]
    asked: list[Part] = []
    target.kept_by_row.clear()

    def settled(part: Part) -> Search[bool]:
        asked.append(part)
        yield []
        return True

    evidence, order = Evidence(target, reliance), UnitOrder(target)
    (found,) = find_sources([OWN_WORDS], evidence, order, Limits(), needs_no_search=settled)
    assert (found, asked, target.kept_by_row) == (SourceSet(), [OWN_WORDS], [])


@pytest.mark.parametrize(("nats", "rows"), [(8.0, 5), (12.0, 8)])
def test_three_sources_follow_a_first_one_that_leaves_half_unexplained(
    nats: float, rows: int
) -> None:
    worth = each({3: (FIRST, 10.0), 5: (SECOND, nats)})
    found, num_rows = searched(worth, [3, 5, *ORDER], OWN_WORDS)
    assert set(found.members) == {3, 5}
    assert num_rows == rows


def test_a_smaller_set_is_not_scored_if_it_lacks_an_irreplaceable_source() -> None:
    found, num_rows = searched(each({3: (FIRST, 10.0), 5: (SECOND, 8.0)}), [3, 5, *ORDER])
    assert set(found.members) == {3, 5}
    assert num_rows == 5
    found, num_rows = searched(
        each({3: (FIRST, 10.0), 5: (SECOND, 8.0), 7: (FIRST, 10.0)}), [3, 5, *ORDER]
    )
    assert num_rows == 6


def test_sources_without_words_of_the_part_are_dropped_first() -> None:
    """Source 1 tells of the river in other words than 9; 4 has the same turn of phrase only."""
    wording = 12

    def worth(kept: Ids) -> dict[int, float]:
        return {FIRST: 9.0 * bool({1, 9} & kept), wording: 9.0 * bool({4, 9} & kept)}

    part = Part(PART.tokens, PART.word_tokens[:1], ("river",))
    found, num_rows = searched(worth, [4, 9, *ORDER], part)
    assert (found.members, num_rows) == ((9,), 11)


def test_with_little_reliance_the_source_with_the_words_is_tried_first() -> None:
    found, num_rows = searched(each({3: (SECOND, 5.0), 5: (SECOND, 5.0)}), [5, *ORDER])
    assert (found.members, num_rows) == ((), 9)
    found, _ = searched(each({3: (SECOND, 5.0)}), [5, *ORDER])
    assert found.members == (HOLDER,)
    found, num_rows = searched(each({5: (SECOND, 5.0)}), [5, *ORDER], OWN_WORDS)
    assert (found.members, num_rows) == ((5,), 11)


@pytest.mark.parametrize(
    ("worths", "part", "is_asked"),
    [
        ({3: (FIRST, 9.0)}, PART, False),
        ({5: (FIRST, 9.0)}, PART, True),
        ({3: (FIRST, 9.0)}, OWN_WORDS, True),
    ],
)
def test_sources_are_ranked_only_if_words_do_not_lead_to_them(
    worths: Worths, part: Part, is_asked: bool
) -> None:
    asked: list[Part] = []
    found, _ = searched(each(worths), [5, 3, *ORDER], part, asked=asked)
    assert found.members == (*worths,)
    assert bool(asked) == is_asked


def test_the_source_with_the_lost_words_is_tried_next() -> None:
    """A ranking is not needed: the second document tells of the salt, the first of the treaty."""
    worth = each({3: (SECOND, 9.0), 8: (FIRST, 9.0)})
    part = replace(PART, words=("treaty", "salt"))
    found, num_rows = searched(worth, part=part)
    assert (set(found.members), num_rows) == ({3, 8}, 7)


@pytest.mark.parametrize(
    ("words", "worths", "rows"),
    [
        (("ships", "salt"), {5: (FIRST, 9.0)}, 19),
        (("boats", "salt"), {3: (SECOND, 9.0)}, 3),
        (("boats", "salt"), {3: (SECOND, 9.0), 8: (FIRST, 9.0)}, 20),
        (("boats", "salt"), {3: (SECOND, 5.0), 8: (FIRST, 9.0)}, 17),
        (("boats", "brine"), {3: (FIRST, 9.0)}, 15),
    ],
)
def test_without_a_ranking_documents_are_tried_before_sources(
    words: tuple[str, str], worths: Worths, rows: int
) -> None:
    """If sources have words of less than half of the nats."""
    found, num_rows = searched(each(worths), part=replace(PART, words=words))
    assert set(found.members) == worths.keys()
    assert num_rows == rows


def test_the_least_share_of_words_that_units_must_have_is_a_limit() -> None:
    """'Ships' is in source 3, 'brine' in none: half of the nats."""
    part, nats = replace(PART, words=("ships", "brine")), {0: 4.0, 1: 4.0}
    target = scorer(response=RESPONSE, language_model=other_chat())
    for share, units in ((0.5, [HOLDER]), (0.6, [])):
        order = UnitOrder(target, limits=Limits(search_share=share))
        assert order.with_words_of(part, nats) == units


def test_a_unit_whose_row_was_not_scored_may_be_unneeded() -> None:
    """Whatever the reliance: without masks, no row is scored before a smaller set is tried."""
    target = scorer(response=RESPONSE, language_model=other_chat())
    for nats in (9.0, -9.0):
        evidence = Evidence(target, (nats,) * len(target.generation.response_ids))
        losses = PartLosses(PART, evidence.for_part(PART), Limits())
        assert losses.may_be_unneeded(HOLDER) and losses.irreplaceable([HOLDER]) == []


@given(rows=st.integers(1, 12))
def test_a_search_that_was_cut_short_says_so(rows: int) -> None:
    worth = each({3: (FIRST, 9.0), 5: (SECOND, 9.0)})
    full, num_rows = searched(worth, [3, 4, 6, 5, *ORDER])
    found, _ = searched(worth, [3, 4, 6, 5, *ORDER], rows=rows)
    if not found.complete:
        assert not found.members and rows < num_rows
    else:
        assert set(found.members) >= set(full.members)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("It is 84 m.", ["84"]),
        ("The cost: 1,635.50 talers", ["cost", "1,635.50", "talers"]),
        ("塔很高。", []),
        ("Él vive en París con Al", ["vive", "París", "Al"]),
    ],
)
def test_content_words(text: str, words: list[str]) -> None:
    def characters(start: int, end: int) -> range:
        return range(start, end)

    (part,) = parts_of([range(len(text))], text, characters)
    assert ["".join(text[i] for i in word) for word in part.word_tokens] == words
    first, second = parts_of([range(10), range(12, 20)], "Three Two. Five words now", characters)
    assert [[word[0] for word in part.word_tokens] for part in (first, second)] == [
        [0, 6],
        [12, 16],
    ]


def test_a_row_is_short_however_long_the_context_is() -> None:
    tokens = []
    for target in (scorer(many_documents(2)), scorer(many_documents(8))):
        target.score([])
        before = target.usage.scored_tokens
        target.score([only(target, [1])])
        tokens.append(target.usage.scored_tokens - before)
    assert tokens[0] == tokens[1]


def test_the_set_is_no_larger_than_the_reliance_allows() -> None:
    def worth(kept: Ids) -> dict[int, float]:
        return {FIRST: 7.0 * ({3, 5, 7} <= kept)}

    found, num_rows = searched(worth, [3, 5, 7, *ORDER], OWN_WORDS)
    assert not found.sufficient
    assert num_rows == 5


def test_all_sources_that_say_the_same_are_found() -> None:
    every = each(dict.fromkeys(range(8), (FIRST, 9.0)))
    found, num_rows = searched(every, ORDER, OWN_WORDS)
    assert {*found.members, *found.alternatives} == {*range(8)}
    assert num_rows == 12  # one that does not suffice ends it


def test_searches_share_their_rows() -> None:
    scripted: Any = Scripted(
        scorer(response=RESPONSE, language_model=other_chat()), each({3: (FIRST, 9.0)})
    )
    reliance = scripted.score([scripted.context.without_documents]).changes[0]
    evidence, order = Evidence(scripted, reliance), UnitOrder(scripted)
    first, second = find_sources([PART, PART], evidence, order, Limits())
    assert first == second
    assert len(scripted.kept_by_row) == 3


def test_rows_that_end_with_a_part_have_the_same_losses_and_fewer_tokens() -> None:
    parts = [Part(), Part(tuple(range(2, 5)))]
    evidences = [Evidence(scorer(), ()).for_part(part) for part in parts]
    rows, tokens = [], []
    for evidence in evidences:
        requests = [
            evidence.request_with_only([1]),
            evidence.request_without([1, 2]),
            evidence.request_without([3]),
        ]
        evidence.answer.fetch(requests)
        found = [
            evidence.loss_with_only([1]),
            evidence.loss_without([1, 2]),
            evidence.loss_without([3]),
        ]
        rows.append(np.array(found, dtype=float))
        tokens.append(evidence.scorer.usage.scored_tokens)
    num_left_out = len(evidences[0].scorer.generation.response_ids) - 5
    assert tokens[0] - tokens[1] == 3 * num_left_out
    np.testing.assert_allclose(rows[1][:, :5], rows[0][:, :5], atol=ATOL)
    assert np.isnan(rows[1][:, 5:]).all()


def test_the_longest_row_of_several_parts_serves_all_of_them() -> None:
    evidence = Evidence(scorer(), ())
    parts = [Part(tuple(range(start, start + 3))) for start in (3, 9, 6)]
    evidence.fetch(evidence.for_part(part).request_without([1]) for part in parts)
    assert evidence.scorer.usage.forward_passes == 1
    rows = [evidence.for_part(part).loss_without([1]) for part in parts]
    assert rows[0] == rows[1] == rows[2] is not None
    assert evidence.of_whole_answer.loss_without([1]) is None  # no row says the whole answer
    before = evidence.scorer.usage.scored_tokens
    for part in parts:
        evidence.for_part(part).fetch_without([[1]])
    assert evidence.scorer.usage.scored_tokens == before


def test_a_part_without_earlier_text_is_scored_right_after_the_prompt() -> None:
    target = scorer(response="It rained. The hall burned.", language_model=built("llama"))
    evidence, ids = Evidence(target, ()), target.generation.response_ids
    start = target.response.tokens_in((11, 27)).start
    part = Part(tuple(range(start, len(ids))))
    alone = evidence.for_part(part)
    evidence.fetch(
        [*alone.exclude_earlier_text(), alone.request_with_only([1]), alone.request_without([1])]
    )
    said = Generation((1,), ids[start - 1 :])  # with the space between the sentences

    def plain(prompt_ids: tuple[int, ...]) -> Any:
        generation = replace(said, prompt_ids=prompt_ids)
        reference = Reference(model_here(target.language_model), generation)
        return reference.log_likelihoods([Row.for_prompt(prompt_ids, 0, generation)])[0, 1:].numpy()

    prompt = target.context.ablate(only(target, [1]), target.language_model)
    expected = plain(target.generation.prompt_ids) - plain(prompt.ids)
    actual = np.array(alone.loss_with_only([1]))
    np.testing.assert_allclose(actual[start:], expected, atol=ATOL)
    assert np.isnan(actual[: start - 1]).all()
    assert alone.loss_without([1]) is not None
    alone.include_earlier_text()
    assert alone.loss_with_only([1]) is alone.loss_without([1]) is None
