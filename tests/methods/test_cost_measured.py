"""The cost model against what the scorer counts, on contexts that fit its assumptions."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from support.scorers import plain, scorer, sibling

from attribot_rag.methods import Hierarchical, LeaveOneOut, Masked, Method, Proxy, Pruned, Thorough
from attribot_rag.methods.baselines import AttentionWeights, ContextCite, GradientNorm
from attribot_rag.methods.cost import Workload
from attribot_rag.model.generation import Generation
from attribot_rag.scoring import Scorer
from attribot_rag.scoring.implementations.cropped import prefill

NUM_DOCUMENTS, NUM_SENTENCES = 24, 4
DOCUMENTS = tuple(
    " ".join(
        f"The tower {NUM_SENTENCES * document + sentence + 100} was seen from afar on day "
        f"{sentence + 10}."
        for sentence in range(NUM_SENTENCES)
    )
    for document in range(NUM_DOCUMENTS)
)
WITHIN = 0.05


def equal_sources(*, cached: bool = True, **options: Any) -> Scorer:
    """96 sources of equal length in 24 equal groups, before the question."""
    one = scorer(
        DOCUMENTS,
        "The tower 104 was seen from afar on day 10 by all of them.",
        prompt=plain(DOCUMENTS),
        **options,
    )
    lengths = {len(source.text) for source in one.context.sources}
    assert (len(one.units), len(lengths)) == (NUM_DOCUMENTS * NUM_SENTENCES, 1)
    if not cached:
        return one
    ids = one.generation.prompt_ids
    with torch.inference_mode():
        cache = prefill(one.models.plain_twin, ids)
    return replace(one, generation=Generation(ids, one.generation.response_ids, cache=cache))


@pytest.mark.parametrize("cached", [True, False], ids=["cached", "to be read first"])
@pytest.mark.parametrize(
    "method",
    [
        LeaveOneOut(),
        Hierarchical(6),
        Masked(),
        Masked("response"),
        Masked("document"),
        Masked("rest"),
        Hierarchical(6, coarse=Masked(), fine=Masked(), shorten=False),
        Thorough(rescore=0),
        Pruned(Masked(), keep=48),
        AttentionWeights(),
        GradientNorm(),
        ContextCite(64),
    ],
    ids=lambda method: method.name,
)
def test_tokens_are_what_the_formulas_say(method: Method, cached: bool) -> None:
    one = equal_sources(cached=cached)
    expected = method.cost(Workload.of(one))
    method.run(one)
    assert one.usage.tokens == pytest.approx(expected.target_tokens, rel=WITHIN)
    if not isinstance(method, GradientNorm):  # whose way back is no tokens of its own
        assert one.usage.flops == pytest.approx(expected.flops, rel=WITHIN)


def test_tokens_without_a_cache() -> None:
    one = equal_sources(implementation="reference")
    expected = Workload.of(one).cost_without_cache()
    LeaveOneOut().run(one)
    assert one.usage.tokens == pytest.approx(expected.target_tokens, rel=WITHIN)


@pytest.mark.parametrize(
    "inner", [LeaveOneOut(), Hierarchical(6), Masked()], ids=lambda one: one.name
)
def test_tokens_of_a_proxy(inner: Method) -> None:
    one = equal_sources()
    Proxy(sibling(), inner).run(one)
    expected = Proxy(sibling(), inner).cost(Workload.of(one))
    (usage,) = [usage for model, usage in one.session.usages if model is sibling()]
    assert usage.tokens == pytest.approx(expected.proxy_tokens, rel=WITHIN)
    assert usage.flops == pytest.approx(expected.flops, rel=WITHIN)
