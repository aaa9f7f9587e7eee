"""Baselines by their papers' definitions, against a direct computation."""

import copy
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from methods.test_cost import WITHIN, equal_sources
from scoring.test_weights import plain_attentions
from support.scorers import built, many_documents, scorer
from support.tiny_models import byte_level

from attribot_rag import Attributor, Method
from attribot_rag.attribution import cite
from attribot_rag.context import Ablation
from attribot_rag.errors import InvalidInput, UnsupportedModel
from attribot_rag.methods.base import Workload
from attribot_rag.model.local_model import model_here
from attribot_rag.scoring import LogLikelihoods, Scorer
from benchmarks.experiment.baselines import AttentionWeights, ContextCite, GradientNorm, Similarity
from benchmarks.experiment.baselines.similarity import Embedder

WEIGHTS = np.array([40.0, 0.0, 0.0, 25.0, 0.0, -15.0, 0.0, 0.0, 0.0, 0.0])


def linear_scorer(num_tokens: int = 8) -> Scorer:
    """A response whose log-likelihood is linear in which sources are there."""

    def score(ablations: Sequence[Ablation]) -> LogLikelihoods:
        present = np.ones((len(ablations) + 1, len(WEIGHTS)))
        for row, ablation in enumerate(ablations, start=1):
            present[row, sorted(ablation.source_ids)] = 0
        totals = present @ WEIGHTS - 200
        rows = np.repeat(totals[:, None] / num_tokens, num_tokens, axis=1)
        return LogLikelihoods(rows[0], rows[1:], (True,) * len(ablations))

    generation = SimpleNamespace(response_ids=tuple(range(num_tokens)))
    units = tuple((index,) for index in range(len(WEIGHTS)))
    return cast(Scorer, SimpleNamespace(score=score, units=units, generation=generation))


def test_context_cite_recovers_the_weights_of_a_linear_model() -> None:
    scores = ContextCite(64, alpha=1e-4).run(linear_scorer())
    np.testing.assert_allclose(cast(Any, scores.totals), WEIGHTS, atol=0.05)
    assert scores.unit == "logits"
    assert not any(scores.exact)
    sparse = np.array(ContextCite(64, alpha=0.1).run(linear_scorer()).totals, dtype=float)
    assert (np.sign(sparse) == np.sign(WEIGHTS)).all()


@pytest.mark.parametrize("name", ["llama", "cohere"])
def test_attention_weights_are_those_of_plain_attention(name: str) -> None:
    target = scorer(many_documents(3), "The hall.", language_model=built(name))
    generation = target.generation
    attentions = plain_attentions(target, [*generation.prompt_ids, *generation.response_ids])
    first = len(generation.prompt_ids) - 1  # the token that predicts the response's first
    weights = sum(layer[0, :, first:-1].mean(0).sum(0) for layer in attentions)
    expected = [
        float(weights[target.context.hidden_tokens(Ablation.of(*u))].sum()) for u in target.units
    ]
    scores = AttentionWeights().run(target)
    np.testing.assert_allclose(cast(Any, scores.totals), expected, rtol=1e-3)
    assert target.usage.scored_tokens == len(generation.response_ids)


@pytest.mark.parametrize("name", ["gemma2", "mamba"])
def test_gradient_norms_are_those_of_autograd(name: str) -> None:
    target = scorer(many_documents(3), "The hall.", language_model=built(name))
    model = copy.deepcopy(model_here(target.language_model))
    kept: list[torch.Tensor] = []

    def keep(_: object, __: object, output: torch.Tensor) -> torch.Tensor:
        kept.append(output.detach().requires_grad_())
        return kept[0]

    model.get_input_embeddings().register_forward_hook(keep)
    generation = target.generation
    start = len(generation.prompt_ids)
    ids = torch.tensor([[*generation.prompt_ids, *generation.response_ids]])
    labels = ids.clone()
    labels[:, :start] = -100
    (-model(ids, labels=labels).loss * len(generation.response_ids)).backward()
    assert kept[0].grad is not None
    gradients = kept[0].grad[0]
    hidden = [target.context.hidden_tokens(Ablation.of(*unit)) for unit in target.units]
    expected = [float(torch.linalg.matrix_norm(gradients[tokens])) for tokens in hidden]
    scores = GradientNorm().run(target)
    np.testing.assert_allclose(cast(Any, scores.totals), expected, rtol=2e-3)
    forward = 2 * target.usage.num_parameters * target.usage.tokens
    assert target.usage.flops == 3 * forward
    parameters = list(model_here(target.language_model).parameters())
    assert all(parameter.requires_grad and parameter.grad is None for parameter in parameters)


class Letters:
    """Texts as counts of letters."""

    def encode(self, sentences: list[str]) -> Any:
        return np.array([[text.count(chr(97 + i)) for i in range(26)] for text in sentences])


def test_similarity_is_the_cosine_of_response_and_source() -> None:
    target = scorer(("Xaab came. The 4 4 4. Xbb.",), "aab")
    texts = [source.text for source in target.context.sources]
    embedder: Embedder = Letters()
    scores = Similarity(embedder).run(target)
    response, *vectors = embedder.encode(["aab", *texts])
    expected = [
        float(response @ vector / np.sqrt(response @ response * (vector @ vector)))
        for vector in vectors
    ]
    np.testing.assert_allclose(cast(Any, scores.totals), expected)
    assert scores.totals.index(max(expected)) == 0
    without_letters = scorer(("The hall. 4 4 4!",), "123")
    assert Similarity(embedder).run(without_letters).totals == [0.0] * len(without_letters.units)


def test_the_facade_names_a_unit_other_than_nats() -> None:
    language_model = byte_level()
    attributor = Attributor(language_model, method=AttentionWeights(), progress=False)
    attribution = attributor.ask("who?", ["The hall burned. The ship sank."], max_new_tokens=4)
    assert attribution.unit == "attention"
    assert any("not in nats" in note for note in attribution.notes)
    assert attribution.verdicts == ()
    assert type(attribution).from_json(attribution.to_json()).unit == "attention"
    assert "in attention" in attribution.to_markdown()
    assert cite(attribution).numbers == {}


@pytest.mark.parametrize("method", [AttentionWeights(), GradientNorm(), ContextCite(8)])
def test_a_spent_budget_leaves_no_scores(method: Method) -> None:
    target = scorer(many_documents(3), budget=1)
    assert set(method.run(target).token_scores) == {None}
    assert target.session.meter.exhausted


def test_invalid_options_and_models_are_refused() -> None:
    for name, value in (("num_ablations", 1), ("keep", 1.0), ("alpha", 0)):
        options: dict[str, Any] = {name: value}
        with pytest.raises(InvalidInput, match=name):
            ContextCite(**options)
    with pytest.raises(UnsupportedModel, match="not seen"):
        AttentionWeights().run(scorer(many_documents(3), language_model=built("bloom")))


@pytest.mark.parametrize("cached", [True, False], ids=["cached", "to be read first"])
@pytest.mark.parametrize(
    "method", [AttentionWeights(), GradientNorm(), ContextCite(64)], ids=lambda method: method.name
)
def test_the_formulas_give_the_number_of_tokens(method: Method, cached: bool) -> None:
    target = equal_sources(cached=cached)
    expected = method.cost(Workload.of(target))
    method.run(target)
    assert target.usage.tokens == pytest.approx(expected.target_tokens, rel=WITHIN)
    if not isinstance(method, GradientNorm):  # whose way back is no tokens of its own
        assert target.usage.flops == pytest.approx(expected.flops, rel=WITHIN)
