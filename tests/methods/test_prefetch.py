"""If launching a pass is expensive, rows that may be needed next are scored in it too."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from support.scorers import TREATY, other_chat, scorer
from support.scripted import Scripted

from attribot_rag.methods.base import Part, Ranking, Scores, SourceSet
from attribot_rag.methods.evidence import Evidence, PartLosses
from attribot_rag.methods.limits import Limits
from attribot_rag.methods.necessity import UnitOrder
from attribot_rag.methods.search import find_sources
from attribot_rag.verdicts.judging import CitationFinder

Ids = frozenset[int]
PART = Part(tuple(range(25)), (tuple(range(4, 9)), tuple(range(20, 24))), ("boats", "brine"))
"""'ships' and 'salt' in words that no source holds."""
HELD = Part(PART.tokens, PART.word_tokens, ("ships", "salt"), frozenset({"ships", "salt", "seals"}))
"""In words that source 3 holds; source 7 is about the seals."""


@pytest.fixture(autouse=True)
def room_for_all_that_is_foreseen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attribot_rag.scoring.packed._MOST_AT_ONCE", 1 << 30)


def either(*units: int) -> Callable[[Ids], dict[int, float]]:
    """These together, or the last four, for which the search does not look."""
    return lambda kept: {4: 20.0 * ({*units} <= kept or {7, 8, 9, 10} <= kept)}


def in_part(kept: Ids) -> dict[int, float]:
    """Each source is worth as much, so no few suffice."""
    return {4: 2.0 * len(kept)}


def beside(kept: Ids) -> dict[int, float]:
    """Source 3 suffices, and 7 adds to it."""
    return {4: 20.0 * (3 in kept), 0: 5.0 * (7 in kept)}


def searched(
    worth: Callable[[Ids], dict[int, float]],
    part: Part,
    order: Sequence[int],
    pass_tokens: int = 20_000,
    *,
    masks: bool = True,
    ranked: list[Part] | None = None,
) -> tuple[SourceSet, Any]:
    """The found of a part, and the scorer; `ranked` gets the part if sources are ranked for it.

    Then they are ranked when they are asked for, which takes time.
    """
    target = scorer(
        TREATY,
        response="The ships came with salt.",
        language_model=other_chat(),
        pass_tokens=pass_tokens,
        token_budget=60_000,
    )
    shown: Any = Scripted(target, worth)
    if not masks:
        shown.can_mask = False
    reliance = shown.score([shown.context.without_documents]).changes[0]

    class Ordered(Ranking):
        def ranked(self, part: Part) -> Sequence[int]:
            if ranked is not None:
                ranked.append(part)
            return order

    estimate = None if ranked is None else lambda scores: scores
    tried = UnitOrder(shown, Ordered(Scores.empty(shown), estimate))
    evidence = Evidence(shown, reliance)
    (found,) = find_sources([part], evidence, tried, Limits())
    shown.num_calls -= 1
    shown.citation = CitationFinder(
        PartLosses(part, evidence.for_part(part), Limits()), tried
    ).citation
    return found, shown


@pytest.mark.parametrize(
    ("worth", "part", "order", "frugal", "ahead"),
    [
        (either(0), PART, [0], 2, 2),
        (either(0, 4), PART, [0, 4], 5, 3),
        (either(0, 4), PART, [0, 1, 4], 6, 3),
        (either(0, 5), PART, [0, 1, 2, 3, 4, 5], 9, 3),
        (in_part, PART, [0], 6, 3),
        (beside, HELD, [0], 4, 3),
    ],
    ids=["one", "two", "two of four", "two of six", "no few", "one, and one beside it"],
)
def test_a_search_takes_fewer_passes(
    worth: Callable[[Ids], dict[int, float]],
    part: Part,
    order: Sequence[int],
    frugal: int,
    ahead: int,
) -> None:
    """It finds the same as a search that scores only what it needs."""
    every = [*order, *(unit for unit in range(11) if unit not in order)]
    (as_needed, one_by_one), (foreseen, together) = (
        searched(worth, part, every, pass_tokens) for pass_tokens in (0, 20_000)
    )
    assert foreseen == as_needed
    assert (one_by_one.num_calls, together.num_calls) == (frugal, ahead)


def test_a_citation_uses_only_rows_that_a_search_requested() -> None:
    """What the other source of two keeps alone was foreseen, and is not asked for."""

    def worth(kept: Ids) -> dict[int, float]:
        return {4: 10.0 * (0 in kept), 20: 10.0 * ({4, 8} <= kept) or 4.0 * ({2, 4} <= kept)}

    said = ("queen", "treaty")
    part = replace(PART, words=said, all_words=frozenset([*said, "river"]))
    cited = []
    for pass_tokens in (0, 20_000):
        found, shown = searched(worth, part, (), pass_tokens)
        cited.append(shown.citation(found))
    assert cited[0] == cited[1]
    assert cited[0].source_ids == (0, 8)


def test_without_masks_no_document_is_left_out() -> None:
    """A row without one is as long as the prompt, and none is asked for."""
    for masks in (True, False):
        _, shown = searched(in_part, PART, range(11), masks=masks)
        assert (Ids(range(3, 11)) in shown.kept_by_row) == masks


@pytest.mark.parametrize(("texts", "is_ranked"), [(("ships", "seals"), False), (None, True)])
def test_sources_are_ranked_only_if_a_search_needs_it(
    texts: tuple[str, ...] | None, is_ranked: bool
) -> None:
    """Two hold the words, or none does."""

    def worth(kept: Ids) -> dict[int, float]:
        return {4: 10.0 * (3 in kept), 20: 10.0 * (7 in kept)}

    part = replace(PART, words=texts, all_words=frozenset(texts)) if texts else PART
    asked: list[Part] = []
    found, _ = searched(worth, part, range(11), ranked=asked)
    assert 3 in found.members
    assert bool(asked) == is_ranked
