"""Attribution patching: all sources from one forward and a few backward passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from attribot_rag.methods.base import (
    Scores,
    TokenScores,
    answer_sentences,
    check_count,
    whole_response,
)
from attribot_rag.methods.cost import Cost, Workload
from attribot_rag.scoring import Scorer


@dataclass(frozen=True)
class Patching:
    """An estimate of masked scores by gradients on the prompt's cache (AtP*, arXiv 2403.00745).

    The question and the response go through the model once more, with gradients, and back once for
    each answer sentence. What a source does to a sentence is followed from each attention head to
    first order, so its cost does not grow with the number of sources. A source that makes its
    sentence nearly certain is underestimated. With several `gates` (a number), the passes are
    repeated with less and less attention to all sources: then such a source has its effect, and so
    has one whose text stands twice. `located`, all sentences share one pass back: the ranks are
    nearly the same. A sentence's score is spread evenly over its tokens.

    Raises InvalidInput for a number of gates below 1, UnsupportedModel for architectures whose
    attention weights cannot be observed (docs/evaluation/architectures.md).
    """

    gates: int = 2
    located: bool = False

    def __post_init__(self) -> None:
        check_count("gates", self.gates, 1)

    @property
    def name(self) -> str:
        return f"patching, {self.gates} gates" if self.gates > 1 else "patching"

    def run(self, scorer: Scorer) -> Scores:
        attention = scorer.require_attention()
        sentences = answer_sentences(scorer)
        estimates = attention.patched(sentences, self.gates, located=self.located)
        scores = whole_response(scorer, None, "nats")
        if estimates is None:
            return scores
        rows = _spread_over(sentences, estimates.effects.tolist(), scorer)
        return replace(scores, token_scores=rows, attention=tuple(estimates.attention))

    def cost(self, workload: Workload) -> Cost:
        """A row of |Q| + |R| tokens per gate; for a sentence, backward takes twice the FLOPs."""
        tail = workload.cost(self.gates * workload.tail_tokens)
        read = workload.cost(workload.unread_tokens)
        return read + replace(tail, flops=3 * tail.flops)


def _spread_over(
    parts: Sequence[Sequence[int]], effects: Sequence[Sequence[float]], scorer: Scorer
) -> tuple[TokenScores, ...]:
    """Effects [parts][units] as rows of the units, each spread evenly over its part's tokens."""
    rows = [[0.0] * len(scorer.generation.response_ids) for _ in scorer.units]
    for tokens, of_units in zip(parts, effects, strict=True):
        for row, effect in zip(rows, of_units, strict=True):
            for token in tokens:
                row[token] = effect / len(tokens)
    return tuple(map(tuple, rows))
