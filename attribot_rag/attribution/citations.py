"""Which sources a sentence of the answer cites, and the numbers that readers see."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from attribot_rag.attribution.result import Attribution
from attribot_rag.context.splitting import sentences, split_spans

MIN_SCORE = 1.0
MIN_SHARE = 0.5


@dataclass(frozen=True)
class CitedSentence:
    """Characters [start, end) of the response and the ids of the sources it cites, best first."""

    start: int
    end: int
    source_ids: tuple[int, ...]


@dataclass(frozen=True)
class Citations:
    """The sentences of a response and `numbers`, which gives each cited document its number.

    Documents are numbered from 1 in the order in which they are first cited.
    """

    sentences: tuple[CitedSentence, ...]
    numbers: dict[int, int]

    def __iter__(self) -> Iterator[CitedSentence]:
        return iter(self.sentences)

    def __len__(self) -> int:
        return len(self.sentences)


def cite(
    attribution: Attribution, *, min_score: float = MIN_SCORE, min_share: float = MIN_SHARE
) -> Citations:
    """Cite, sentence by sentence, the sources that made it clearly more likely.

    A source is cited if it is worth at least `min_score` nats to the sentence and at least
    `min_share` of the best source's score. Documents that hold a cited source all get a number.
    """
    cited = []
    numbers: dict[int, int] = {}
    for start, end in split_spans(attribution.response, sentences):
        ranked = attribution.top(len(attribution.sources), start, end)
        least = max(min_score, min_share * ranked[0].score) if ranked else min_score
        chosen = [one.source for one in ranked if one.score >= least]
        for source in chosen:
            for document in source.documents:
                numbers.setdefault(document, len(numbers) + 1)
        cited.append(CitedSentence(start, end, tuple(source.id for source in chosen)))
    return Citations(tuple(cited), numbers)
