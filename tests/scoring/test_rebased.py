"""A scorer of a shortened prompt is a scorer of the prompt that was made so by hand."""

import numpy as np
import pytest
from support.scorers import scorer as scorer_of
from support.tiny_models import byte_level

from attribot_rag.context import Ablation
from attribot_rag.scoring import Recomputed, Scorer

A = "The treaty was signed in the town hall."
B = "The river was closed for two winters."
C = "The first ships came up the river with salt."
D = "The town hall burned down in 1683."


def make_scorer(*documents: str, implementation: str = "auto") -> Scorer:
    content = "\n\n".join(documents) + "\n\nQuestion: who?"
    return scorer_of(
        documents,
        "In the town hall.",
        prompt=[{"role": "user", "content": content}],
        implementation=implementation,
    )


@pytest.mark.parametrize("implementation", ["packed", "cropped", "reference"])
def test_rebased_is_the_shortened_prompt_made_by_hand(implementation: str) -> None:
    rebased = make_scorer(f"{A} {B}", f"{C} {D}", implementation=implementation).rebased([0, 3])
    by_hand = make_scorer(A, D, implementation=implementation)
    assert rebased is not None
    assert rebased.generation.prompt_ids == by_hand.generation.prompt_ids
    scored = rebased.score([Ablation.of(0), Ablation.of(3), Ablation.of(0, 3)])
    expected = by_hand.score([Ablation.of(0), Ablation.of(1), Ablation.of(0, 1)])
    assert np.allclose(scored.full, expected.full, atol=1e-4)
    assert np.allclose(scored.ablated, expected.ablated, atol=1e-4)
    assert scored.exact == expected.exact == (True,) * 3
    dials: tuple[Recomputed, ...] = ("response", "question", "document")
    for recompute in dials:
        masked = rebased.score([Ablation.of(3)], recompute=recompute)
        expected = by_hand.score([Ablation.of(1)], recompute=recompute)
        assert np.allclose(masked.ablated, expected.ablated, atol=1e-4)
    assert by_hand.rebased([0, 1]) is by_hand


def test_a_new_prompt_is_prefilled_once_and_units_lose_what_is_gone() -> None:
    scorer = make_scorer(f"{A} {B}", f"{C} {D}").narrowed([(0, 1), (2,), (3,)])
    before = scorer.usage.prefilled_tokens
    rebased = scorer.rebased([0, 3])
    assert rebased is not None
    assert rebased.units == ((0,), (3,))
    assert scorer.units == ((0, 1), (2,), (3,))
    assert rebased.context.present == (0, 3)
    num_read = len(rebased.generation.prompt_ids) - 1
    assert scorer.usage.prefilled_tokens == before
    rebased.score([Ablation.of(0)])
    rebased.narrowed([(3,)]).score([Ablation.of(3)])
    assert scorer.usage.prefilled_tokens == before + num_read


def test_the_scorer_without_the_whole_context() -> None:
    scorer = make_scorer(f"{A} {B}", f"{C} {D}")
    without = scorer.rebased_without(scorer.context.without_documents)
    assert without is not None
    assert byte_level().decode(without.generation.prompt_ids) == (
        "<|im_start|>user\n\n\nQuestion: who?<|im_end|>\n<|im_start|>assistant\n"
    )
    assert without.context.present == ()
    bare = scorer.score([scorer.context.without_documents])
    assert np.allclose(without.score([]).full, bare.ablated[0], atol=1e-4)
    assert bare.exact == (True,)
