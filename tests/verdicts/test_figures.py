"""Numbers of a sentence: whether the context matters to them, and which source they come from."""

from collections.abc import Sequence

import pytest

from attribot_rag.attribution import ResponseText
from attribot_rag.verdicts import VerdictOptions
from attribot_rag.verdicts.evidence import Evidence
from attribot_rag.verdicts.figures import Figure
from attribot_rag.verdicts.markers import written_markers
from attribot_rag.verdicts.sentences import sentences_of

OPTIONS = VerdictOptions()


def figure(*effects: float | None, reliance: float = 5.0, surprise: float = 6.0) -> Figure:
    known = {index: effect for index, effect in enumerate(effects) if effect is not None}
    return Figure((0,), known, reliance, surprise)


@pytest.mark.parametrize(
    ("effects", "reliance", "source"),
    [
        ((0.1, 3.0, -0.2), 5.0, 1),
        ((None, 3.0), 5.0, 1),
        ((1.9, 0.1), 5.0, None),  # too little
        ((3.0, 1.6), 5.0, None),  # two of them
        ((3.0, 0.1), 1.9, None),  # more than the context is worth to it
        ((), 5.0, None),
    ],
)
def test_a_number_comes_from_the_source_that_clearly_decides_on_it(
    effects: Sequence[float | None], reliance: float, source: int | None
) -> None:
    assert figure(*effects, reliance=reliance).source(OPTIONS) == source


def test_effects_reliance_and_surprise_are_sums_over_its_tokens() -> None:
    made = Figure.of((1, 2), [(9.0, 1.0, 2.0), None], (0.5, 3.0, 4.0), (-1.0, -0.25, -0.5))
    assert made.effects == {0: 3.0}
    assert made.reliance == 7.0
    assert made.surprise == 7.75  # 0.75 with the context, and what that is worth


def evidence(*figures: Figure, effects: dict[int, float], reliance: float) -> Evidence:
    return Evidence(effects, dict.fromkeys(effects, 0.0), reliance, 0.0, figures)


def test_the_source_of_a_number_is_cited_beside_the_best_source() -> None:
    numbers = [figure(0.1, 3.0), figure(4.0, 0.1)]
    assert evidence(*numbers, effects={0: 9.0, 1: 3.2}, reliance=30.0).cited(OPTIONS) == (0, 1)
    assert evidence(*numbers[:1], effects={0: 3.9, 1: 3.2}, reliance=30.0).cited(OPTIONS) == (1,)


def test_a_sentence_is_explained_by_the_sources_of_its_numbers() -> None:
    """Its unit, say, is in other sources too, and makes up most of its reliance."""
    one = evidence(figure(0.1, 3.0, reliance=4.0), effects={0: 0.2, 1: 3.2}, reliance=20.0)
    assert one.is_explained_by((1,), OPTIONS)
    assert not one.is_explained_by((0,), OPTIONS)
    two = evidence(*one.figures, figure(2.0, 0.1), effects=dict(one.effects), reliance=20.0)
    assert not two.is_explained_by((1,), OPTIONS)


def test_numbers_that_the_context_does_not_matter_to_are_unknown() -> None:
    invented = figure(0.3, reliance=0.4)
    assert evidence(invented, effects={}, reliance=18.0).has_unknown_figures(OPTIONS)
    retrieved = evidence(invented, figure(3.0), effects={}, reliance=18.0)
    assert not retrieved.has_unknown_figures(OPTIONS)
    hindered = evidence(figure(2.5, reliance=0.4), effects={}, reliance=18.0)
    assert not hindered.has_unknown_figures(OPTIONS)
    # A number of the question is no news.
    asked = figure(0.3, reliance=0.4, surprise=0.5)
    assert not evidence(asked, effects={}, reliance=18.0).has_unknown_figures(OPTIONS)
    assert not evidence(effects={}, reliance=18.0).has_unknown_figures(OPTIONS)


def test_the_numbers_of_a_sentence_without_its_markers() -> None:
    text = "It opens at 10:30 [1] and costs 1,250.50 crowns. No. Room 7 [2, 3]."
    characters = tuple((index, index + 1) for index in range(len(text)))
    first, *_, last = sentences_of(
        ResponseText(text, characters), written_markers(text, [1, 2, 3], ())
    )
    numbers = [
        ["".join(text[i] for i in tokens) for tokens in sentence.figures]
        for sentence in (first, last)
    ]
    assert numbers == [["10:30", "1,250.50"], ["7"]]
