"""What the method's scores say about one sentence of the answer."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attribot_rag.methods import Scores
from attribot_rag.methods.base import TokenScores
from attribot_rag.verdicts.figures import Figure, totals
from attribot_rag.verdicts.options import VerdictOptions

_ENOUGH_SCORES = 8
_ENOUGH_DIFFERENCES = 4
_TO_DEVIATION = 1.4826  # a normal distribution's standard deviation by its median deviation


@dataclass(frozen=True)
class Evidence:
    """Effects on one sentence in nats: `effects` of each scored source, `reliance` of the context.

    `own` is the part of a source's effect on the tokens for which its score is the highest of all
    sources. `noise` is the standard deviation of the scores of sources that are no causes, or that
    between calls of a server, if it is larger.
    `figures` are the numbers of the sentence.
    """

    effects: Mapping[int, float]
    own: Mapping[int, float]
    reliance: float
    noise: float
    figures: tuple[Figure, ...] = ()

    @classmethod
    def of(
        cls,
        scores: Scores,
        tokens: Sequence[int],
        reliance: TokenScores,
        figures: Sequence[tuple[int, ...]] = (),
        call_noise: float = 0.0,
    ) -> Evidence:
        """The evidence on a sentence, given its response tokens and the reliance of each token.

        `figures` are the tokens of each number in it, `call_noise` is by how many nats a token's
        log-probability differs from one call to the next.
        """
        effects = totals(scores.token_scores, tokens)
        sample = effects if scores.screened is None else totals(scores.screened, tokens)
        return cls(
            effects,
            _own(scores.token_scores, tokens),
            sum(reliance[i] for i in tokens),
            max(_noise(effects, sample), call_noise * math.sqrt(len(tokens))),
            tuple(
                Figure.of(figure, scores.token_scores, reliance, scores.token_log_likelihoods)
                for figure in figures
                if scores.token_log_likelihoods
            ),
        )

    def floor(self, options: VerdictOptions) -> float:
        """The least effect that matters, in nats."""
        return max(options.min_effect, options.noise_factor * self.noise)

    def cited(self, options: VerdictOptions) -> tuple[int, ...]:
        """The best source, if its effect matters, and sources with enough effect of their own.

        Best first. A source that adds a fact to the sentence has a large effect on the words of
        that fact, where no other source has; a source on the same topic has a small effect on all
        words. The source of a number is cited, too, however small its effect on other words.
        """
        floor = self.floor(options)
        above = [source for source, effect in self.effects.items() if effect >= floor]
        ranked = sorted(above, key=lambda source: (-self.effects[source], source))
        others = (source for source in ranked[1:] if self.own[source] >= options.min_own)
        numbers = (figure.source(options) for figure in self.figures)
        cited = {*ranked[:1], *others, *(source for source in numbers if source is not None)}
        return tuple(sorted(cited, key=lambda source: (-self.effects[source], source)))

    def has_unknown_figures(self, options: VerdictOptions) -> bool:
        """Whether its numbers are new, and neither the context nor a source matters to any."""
        new = [figure for figure in self.figures if figure.is_new(options)]
        return bool(new) and not any(
            max(figure.reliance, *figure.effects.values(), 0.0) >= options.min_figure
            for figure in new
        )

    def is_explained_by(self, cited: Sequence[int], options: VerdictOptions) -> bool:
        """Whether these sources account for the sentence's reliance, or else each number's."""
        if sum(self.effects[one] for one in cited) >= options.explained_share * self.reliance:
            return True
        retrieved = [figure for figure in self.figures if figure.is_retrieved(options)]
        return bool(retrieved) and all(
            sum(figure.effects[one] for one in cited) >= options.explained_share * figure.reliance
            for figure in retrieved
        )


def _own(rows: Sequence[TokenScores | None], tokens: Sequence[int]) -> dict[int, float]:
    known = {index: row for index, row in enumerate(rows) if row is not None}
    own = dict.fromkeys(known, 0.0)
    for token in tokens:
        best = max(known, key=lambda index: known[index][token], default=None)
        if best is not None:
            own[best] += max(0.0, known[best][token])
    return own


def _noise(effects: Mapping[int, float], sample: Mapping[int, float]) -> float:
    """The standard deviation of the scores of sources that are no causes, in nats.

    The larger of two robust estimates: the spread of the scores in the sample, from 8 scores on,
    and the difference between a source's exact and masked score, from 4 differences on. Both are
    medians, so that the few causes do not count. 0 if there are too few scores for either.
    """
    estimates = [0.0]
    if len(sample) >= _ENOUGH_SCORES:
        middle = statistics.median(sample.values())
        estimates.append(statistics.median(abs(effect - middle) for effect in sample.values()))
    both = effects.keys() & sample.keys()
    differences = [abs(effects[i] - sample[i]) for i in both if effects[i] != sample[i]]
    if len(differences) >= _ENOUGH_DIFFERENCES:
        estimates.append(statistics.median(differences))
    return _TO_DEVIATION * max(estimates)
