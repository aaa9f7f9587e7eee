"""The expected cost of methods: counted by hand, and measured on contexts that fit."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from support.scorers import backend_of, plain, scorer, sibling
from support.tiny_models import byte_level

from attribot_rag.methods import (
    Auto,
    Hierarchical,
    LeaveOneOut,
    Masked,
    Method,
    Patching,
    Proxy,
    Pruned,
    Thorough,
)
from attribot_rag.methods.base import Cost, Workload
from attribot_rag.model.generation import Generation
from attribot_rag.scoring import Scorer
from attribot_rag.scoring.local_prefix import prefill

CACHED = Workload(
    context_tokens=1200,
    query_tokens=60,
    response_tokens=20,
    num_sources=40,
    num_groups=10,
    num_parameters=1000,
    is_cached=True,
)
NOT_CACHED = replace(CACHED, is_cached=False)
MASKED_HIERARCHICAL = Hierarchical(keep=3, coarse=Masked(), fine=Masked(), shorten=False)


RELIANCE = 20 + (60 + 20)


@pytest.mark.parametrize(
    ("method", "tokens", "backward"),
    [
        (LeaveOneOut(), 20 + 40 * (600 + 80), 0),
        (Hierarchical(keep=3), 20 + 10 * (600 + 80) + (360 + 80) + 12 * (180 + 80), 0),
        (Pruned(LeaveOneOut(), keep=4), 20 + 40 * (600 + 80) + (120 + 80) + 4 * (60 + 80), 0),
        (Pruned(Masked(), keep=5, shorten=False), 41 * 80 + 5 * (600 + 80), 0),
        (Masked(), 41 * 80, 0),
        (Masked("document"), 41 * (80 + (120 - 30) / 2), 0),
        (Masked("rest"), 41 * (80 + (1200 - 30) / 2), 0),
        (MASKED_HIERARCHICAL, (10 + 1) * 80 + 12 * 80, 0),
        (Patching(), 2 * 80, 2 * 80),  # whatever the number of sources
        # the reliance, patching, and one source or all candidates
        (Auto(), RELIANCE + 80 + 1200 / 40 + 2 * 80, 80),
        (Thorough(), RELIANCE + 2 * 80 + 14 * 80, 2 * 80),
    ],
    ids=lambda value: value.name if hasattr(value, "name") else "",
)
def test_counted_by_hand(method: Method, tokens: float, backward: int) -> None:
    """Without a cache, the prompt is read once besides."""
    assert method.cost(CACHED) == Cost(tokens, 0, 2 * 1000 * (tokens + 2 * backward))
    if "shorten=True" not in repr(method) or isinstance(method, Pruned):
        assert method.cost(NOT_CACHED).target_tokens == tokens + 1200 + 60


def test_a_proxy_reads_the_prompt_first() -> None:
    """A reduced prompt has no cache."""
    parameters = sibling().weights.num_parameters
    read = 1260 + LeaveOneOut().cost(CACHED).target_tokens
    assert Proxy(sibling()).cost(CACHED) == Cost(0, read, 2 * parameters * read)
    reduced = CACHED.narrowed(0.3, shorten=True)
    assert (reduced.context_tokens, reduced.num_sources, reduced.num_groups) == (360, 12, 3)
    assert not reduced.is_cached


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
    target = scorer(
        DOCUMENTS,
        "The tower 104 was seen from afar on day 10 by all of them.",
        prompt=plain(DOCUMENTS),
        **options,
    )
    lengths = {len(source.text) for source in target.context.sources}
    assert (len(target.units), len(lengths)) == (NUM_DOCUMENTS * NUM_SENTENCES, 1)
    if not cached:
        return target
    ids = target.generation.prompt_ids
    with torch.inference_mode():
        cache = prefill(backend_of(byte_level()).twin(), ids)
    return replace(target, generation=Generation(ids, target.generation.response_ids, cache=cache))


@pytest.mark.parametrize(
    ("method", "cached"),
    [
        (LeaveOneOut(), False),
        (Hierarchical(6), True),
        (Masked(), True),
        (Masked("document"), False),
        (Hierarchical(6, coarse=Masked(), fine=Masked(), shorten=False), True),
        (Thorough(), True),
        (Pruned(Masked(), keep=48), False),
        (Patching(), True),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_the_formulas_give_the_number_of_tokens(method: Method, cached: bool) -> None:
    target = equal_sources(cached=cached)
    expected = method.cost(Workload.of(target))
    method.run(target)
    assert target.usage.tokens == pytest.approx(expected.target_tokens, rel=WITHIN)
    assert target.usage.flops == pytest.approx(expected.flops, rel=WITHIN)


def test_tokens_without_a_cache() -> None:
    target = equal_sources(implementation="reference")
    expected = Workload.of(target).cost_without_cache()
    LeaveOneOut().run(target)
    assert target.usage.tokens == pytest.approx(expected.target_tokens, rel=WITHIN)


def test_tokens_of_a_proxy() -> None:
    target, inner = equal_sources(), Hierarchical(6)
    Proxy(sibling(), inner).run(target)
    expected = Proxy(sibling(), inner).cost(Workload.of(target))
    (usage,) = [usage for model, usage in target.session.usages if model is sibling()]
    assert usage.tokens == pytest.approx(expected.proxy_tokens, rel=WITHIN)
    assert usage.flops == pytest.approx(expected.flops, rel=WITHIN)
