"""Leave-one-out by its second definition: the source hidden, all after it encoded again."""

from collections.abc import Sequence

import numpy as np
import pytest
from scoring.test_masked import with_masks_by_hand
from support import scorers
from support.architectures import ARCHITECTURES, Architecture
from support.tiny_models import architecture, byte_tokenizer
from transformers import GPT2LMHeadModel, PreTrainedModel

from attribot_rag.context import Ablation
from attribot_rag.methods import LeaveOneOut, Masked
from attribot_rag.model.generation import Generation
from attribot_rag.model.local_model import LocalModel
from attribot_rag.scoring import Scorer

DOCUMENTS = (
    "The treaty was signed. It rained all day. Ships came.",
    "Nobody knew. The treaty was signed. The hall burned down.",
)
SIGNED, LAST = 0, 4
"""The source that is in both documents, and that at the end of them."""
NAMES = ["llama", "gpt2", "qwen3", "gpt_neox", "mixtral"]


def scorer_of(model: PreTrainedModel, implementation: str = "auto") -> Scorer:
    """Nothing stands between the last document and the question but a blank of the question."""
    return scorers.scorer(
        DOCUMENTS,
        "Nobody did.",
        language_model=LocalModel(model, byte_tokenizer()),
        prompt=f"Read this: {' '.join(DOCUMENTS)} Then say: who signed? ",
        implementation=implementation,
    )


def ablations(scorer: Scorer) -> list[Ablation]:
    return [Ablation.of(*unit) for unit in scorer.units] + [Ablation.of(1, 3)]


def by_hand(model: PreTrainedModel, generation: Generation, hidden: Sequence[int]) -> list[float]:
    """One forward pass over the whole prompt whose mask hides some positions from all others."""
    return with_masks_by_hand(model, generation, hidden, 0).tolist()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("implementation", ["packed", "cropped", "reference"])
def test_recomputing_the_rest_is_a_forward_pass_that_never_sees_the_source(
    name: str, implementation: str
) -> None:
    scorer = scorer_of(architecture(name).build(), implementation)
    requested = ablations(scorer)
    scored = scorer.score(requested, recompute="rest")
    model = architecture(name).build()
    assert np.allclose(scored.full, by_hand(model, scorer.generation, ()), atol=1e-4)
    for ablation, row in zip(requested, scored.ablated, strict=True):
        hidden = scorer.context.hidden_tokens(ablation)
        assert np.allclose(row, by_hand(model, scorer.generation, hidden), atol=1e-4)


@pytest.mark.parametrize("kind", ARCHITECTURES, ids=lambda architecture: architecture.name)
def test_the_fastest_implementation_equals_the_reference(kind: Architecture) -> None:
    model = kind.build()
    truth, fastest = scorer_of(model, "reference"), scorer_of(model)
    if truth.why_no_masks is not None:
        assert fastest.why_no_masks == truth.why_no_masks
        return
    expected = truth.score(ablations(truth), recompute="rest")
    scored = fastest.score(ablations(fastest), recompute="rest")
    assert np.allclose(scored.ablated, expected.ablated, atol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_for_the_last_source_rest_equals_question(name: str) -> None:
    scorer = scorer_of(architecture(name).build())
    last = [Ablation.of(LAST)]
    rest = scorer.score(last, recompute="rest")
    assert np.allclose(rest.ablated, scorer.score(last, recompute="question").ablated, atol=1e-5)
    further = [Ablation.of(1), Ablation.of(2)]
    more = scorer.score(further, recompute="rest").ablated
    assert np.abs(more - scorer.score(further, recompute="question").ablated).max() > 1e-2


def test_without_positions_it_is_leave_one_out_across_documents() -> None:
    """To a model without positions both definitions are the same, and no cheaper one is."""
    model = architecture("gpt2").build()
    assert isinstance(model, GPT2LMHeadModel)
    model.transformer.wpe.weight.data.zero_()
    scorer = scorer_of(model)
    assert len(scorer.context.sources[SIGNED].occurrences) == 2
    inner = [Ablation.of(SIGNED), Ablation.of(1), Ablation.of(3), Ablation.of(SIGNED, 3)]
    exact = scorer.score(inner).ablated
    assert np.allclose(scorer.score(inner, recompute="rest").ablated, exact, atol=1e-4)
    assert np.abs(scorer.score(inner, recompute="document").ablated - exact).max() > 1e-2


def test_masked_rest_is_a_method_whose_scores_are_not_exact() -> None:
    scorer = scorer_of(architecture("llama").build())
    scores = Masked("rest").run(scorer)
    assert Masked("rest").name == "masked (rest)"
    assert not any(scores.exact)
    assert all(LeaveOneOut().run(scorer).exact)
