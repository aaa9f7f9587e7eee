"""Scores each unit alone: leave-one-out, exact or masked, and its estimate by patching."""

from __future__ import annotations

from dataclasses import dataclass, replace

from attribot_rag.context import Ablation
from attribot_rag.methods.base import (
    Cost,
    Method,
    Scores,
    Workload,
    answer_sentences,
    check_count,
    scores_of,
)
from attribot_rag.scoring import Recomputed, Scorer
from attribot_rag.scoring.row import check_recompute


@dataclass(frozen=True)
class LeaveOneOut(Method):
    """Scores each unit by its leave-one-out error (AttriBoT, section 2.1), with one ablation for
    each.

    tau_i = log p(R | Q, C) - log p(R | Q, C without s_i) in nats, per response token. It is
    positive if the source makes the response more likely.
    """

    name = "leave_one_out"

    def run(self, scorer: Scorer) -> Scores:
        scores = scores_of(scorer.score([Ablation.of(*unit) for unit in scorer.units]))
        return replace(scores, num_dropped=scores.num_approximate)

    def cost(self, workload: Workload) -> Cost:
        """The full row of |R| tokens, once, then |S| rows of |C|/2 + |Q| + |R|."""
        row = workload.context_tokens / 2 + workload.tail_tokens
        full = workload.unread_tokens + workload.baseline_tokens
        return workload.cost(full + workload.num_sources * row)


@dataclass(frozen=True)
class Masked(Method):
    """Hides each unit in the model's own cache of the prompt.

    A unit costs only the tokens that are computed again, however long the context is. With
    'response', only the response is computed again. With 'question', this includes everything after
    the documents, and with 'document' also the rest of the source's document. Scores are then
    approximate, because the cache still contains other tokens that have read the source. With
    'rest', everything after the source is computed again, which takes half a context for each unit.
    Then nothing of the source remains, and leave-one-out differs only in the positions of later
    tokens.
    """

    recompute: Recomputed = "question"

    def __post_init__(self) -> None:
        check_recompute(self.recompute)

    @property
    def name(self) -> str:
        return "masked" if self.recompute == "question" else f"masked ({self.recompute})"

    def run(self, scorer: Scorer) -> Scores:
        ablations = [Ablation.of(*unit) for unit in scorer.units]
        return scores_of(scorer.score(ablations, recompute=self.recompute))

    def cost(self, workload: Workload) -> Cost:
        """|S| rows of the recomputed tokens, and one for the full row, once.

        A row has |R| or |Q| + |R| tokens. 'document' adds (|C|/|G| - |C|/|S|)/2 tokens, 'rest' (|C|
        - |C|/|S|)/2.
        """
        row = workload.tail_tokens
        if self.recompute == "response":
            row = workload.response_tokens
        elif self.recompute != "question":
            num_stretches = workload.num_groups if self.recompute == "document" else 1
            stretch = workload.context_tokens / num_stretches
            row += round((stretch - workload.context_tokens / workload.num_sources) / 2)
        num_rows = workload.num_sources + (not workload.has_baseline)
        return workload.cost(workload.unread_tokens + num_rows * row)


@dataclass(frozen=True)
class Patching(Method):
    """Estimates masked scores by gradients on the prompt's cache (AtP*, arXiv 2403.00745).

    The question and the response go through the model once more, with gradients, and back once for
    each answer sentence. The effect of a source on a sentence is followed to first order from each
    attention head, so the cost does not grow with the number of sources. A source that makes its
    sentence nearly certain is underestimated. A sentence's score is spread evenly over its tokens.

    Raises InvalidInput for less than one gate, and UnsupportedModel for architectures whose
    attention weights cannot be observed (see the page "Model architectures" of the documentation).

    Args:
        gates: How often the passes are repeated, each time with less attention to all sources.
            Several gates also find a source that makes its sentence nearly certain, and a text that
            is in the prompt twice.
        single_backward_pass: Whether all sentences share one backward pass. The ranking is nearly
            the same as with a backward pass for each sentence.
    """

    gates: int = 2
    single_backward_pass: bool = False

    def __post_init__(self) -> None:
        check_count("gates", self.gates, 1)

    @property
    def name(self) -> str:
        return f"patching, {self.gates} gates" if self.gates > 1 else "patching"

    def run(self, scorer: Scorer) -> Scores:
        sentences = answer_sentences(scorer)
        estimates = scorer.estimate_effects(
            sentences, self.gates, single_backward_pass=self.single_backward_pass
        )
        scores = Scores.empty(scorer)
        if estimates is None:
            return scores
        rows = [[0.0] * len(scorer.generation.response_ids) for _ in scorer.units]
        for tokens, of_units in zip(sentences, estimates.effects.tolist(), strict=True):
            for row, effect in zip(rows, of_units, strict=True):
                row[tokens.start : tokens.stop] = [effect / len(tokens)] * len(tokens)
        return replace(
            scores, token_scores=tuple(map(tuple, rows)), attention=tuple(estimates.attention)
        )

    def cost(self, workload: Workload) -> Cost:
        """A row of |Q| + |R| tokens per gate. For each sentence, backward takes twice the FLOPs."""
        tail = workload.cost(self.gates * workload.tail_tokens)
        read = workload.cost(workload.unread_tokens)
        return read + replace(tail, flops=3 * tail.flops)
