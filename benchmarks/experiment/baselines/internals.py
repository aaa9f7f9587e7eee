"""Attention weights and gradients as attributions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.func import functional_call
from transformers import PreTrainedModel

from attribot_rag.context import Ablation
from attribot_rag.methods.base import Cost, Method, Scores, Workload
from attribot_rag.model.generation import Generation
from attribot_rag.model.local_model import model_here
from attribot_rag.scoring import LocalBackend, Scorer
from attribot_rag.scoring.packed import Packed
from attribot_rag.scoring.row import masked_row
from benchmarks.experiment.baselines.similarity import spread_evenly


@dataclass(frozen=True)
class AttentionWeights(Method):
    """The attention weight from the response's tokens to a source's tokens.

    Averaged over heads, summed over layers and tokens (the attention baseline of AttriBoT,
    section 4). Raises UnsupportedModel for architectures whose attention weights cannot be
    observed (docs/evaluation/architectures.md).
    """

    name = "attention_weights"

    def run(self, scorer: Scorer) -> Scores:
        weights = _total_weights(scorer)
        scorer.session.meter.exhausted |= weights is None
        return spread_evenly(scorer, weights, "attention")

    def cost(self, workload: Workload) -> Cost:
        """One row of |R| tokens."""
        return workload.cost(workload.unread_tokens + workload.response_tokens)


class _KeyWeights:
    """Observes the weights on each key, summed over rows, heads and layers."""

    gates: Tensor | None = None

    def __init__(self) -> None:
        self.gradient_anchor = torch.zeros(())
        self.values = torch.zeros(())

    def observe_forward(self, weights: Tensor) -> None:
        self.values = self.values + weights.sum((0, 1))

    def observe_backward(self, weights: Tensor, moved: Tensor, mean: Tensor) -> None:
        """Nothing goes back."""


def _total_weights(scorer: Scorer) -> list[float] | None:
    """The weights on each unit, averaged over heads; None beyond the budget."""
    engine = scorer.engine_for_attention()
    row = masked_row(scorer.context, scorer.generation, Ablation(), "response")
    weights = _KeyWeights()
    packed = engine.prefix
    assert isinstance(packed, Packed)
    if engine.run_pass(lambda: packed.score([row], weights), row.num_new) is None:
        return None
    num_heads = packed.twin.config.get_text_config(decoder=True).num_attention_heads
    unit_tokens = (scorer.context.hidden_tokens(Ablation.of(*unit)) for unit in scorer.units)
    return [float(weights.values[tokens].sum()) / num_heads for tokens in unit_tokens]


@dataclass(frozen=True)
class GradientNorm(Method):
    """The Frobenius norm of the log-likelihood's gradient with respect to a source's embeddings.

    One forward and one backward pass through prompt and response without a cache, with all
    activations in memory (the gradient baseline of AttriBoT, section 4).
    """

    name = "gradient_norm"

    def run(self, scorer: Scorer) -> Scores:
        return spread_evenly(scorer, _norms(scorer), "gradient norm")

    def cost(self, workload: Workload) -> Cost:
        """One row of |C| + |Q| + |R| tokens; the backward pass takes twice the forward FLOPs."""
        forward = workload.cost(workload.prompt_tokens + workload.response_tokens)
        return replace(forward, flops=3 * forward.flops)


def _norms(scorer: Scorer) -> list[float] | None:
    """The norm of each unit, over all its tokens; None beyond the budget."""
    generation, session = scorer.generation, scorer.session
    num_tokens = len(generation.prompt_ids) + len(generation.response_ids) - 1
    if not session.meter.fit_or_stop(num_tokens):
        return None
    session.before_batch()
    started = session.meter.clock()
    model_here(scorer.language_model)  # raises without the weights
    backend = scorer.backend
    assert isinstance(backend, LocalBackend)
    squares = embedding_gradients(backend.twin(), generation).square().sum(-1)
    seconds = session.meter.clock() - started
    session.meter.spend(num_tokens, seconds)
    scorer.usage.count_pass(num_tokens, num_tokens, seconds)
    unit_tokens = (scorer.context.hidden_tokens(Ablation.of(*unit)) for unit in scorer.units)
    return [math.sqrt(float(squares[tokens].sum())) for tokens in unit_tokens]


def embedding_gradients(twin: PreTrainedModel, generation: Generation) -> Tensor:
    """Gradients by the prompt's embeddings: float32 [num_prompt_tokens, hidden], on the CPU.

    Weights get no gradients, so the user's model stays as it is and only activations are kept.
    """
    prompt_ids, response_ids = generation.prompt_ids, generation.response_ids
    weights = {name: parameter.detach() for name, parameter in twin.named_parameters()}
    targets = torch.tensor(response_ids, device=twin.device)
    ids = torch.tensor([(*prompt_ids, *response_ids[:-1])], device=twin.device)
    with torch.enable_grad():
        embeddings = twin.get_input_embeddings()(ids).detach().requires_grad_()
        inputs = {"inputs_embeds": embeddings, "use_cache": False}
        logits = functional_call(twin, weights, kwargs=inputs, tie_weights=True).logits
        scored = logits[0, -len(response_ids) :].float()
        log_likelihood = scored.log_softmax(-1).gather(-1, targets[:, None]).sum()
        (gradients,) = torch.autograd.grad(log_likelihood, embeddings)
    return torch.as_tensor(gradients[0, : len(prompt_ids)]).float().cpu()
