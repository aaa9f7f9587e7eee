"""Judges of claims: a number for each, and the number from which a claim counts as supported."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise

import numpy as np

from attribot_rag.methods.base import total
from benchmarks.experiment.baselines.similarity import default_embedder
from benchmarks.readers.reading import Reading

_WORD = re.compile(r"\w+")


def overlap(said: str, text: str) -> float:
    """The share of the words that are in the text."""
    words = set(_WORD.findall(said.casefold()))
    return len(words & set(_WORD.findall(text.casefold()))) / max(1, len(words))


def similarities(said: str, texts: Sequence[str]) -> list[float]:
    """The cosine similarity of their embeddings (all-MiniLM-L6-v2)."""
    vectors = np.array([embedding(text) for text in (said, *texts)])
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return [float(value) for value in vectors[1:] @ vectors[0]]


@cache
def embedding(text: str) -> tuple[float, ...]:
    (vector,) = np.asarray(default_embedder().encode([text]), dtype=np.float64)
    return tuple(vector)


def _of_words(values: Sequence[float], reading: Reading) -> list[float]:
    return [total(tuple(values), word) for word in reading.words.word_tokens] or [sum(values)]


READERS: dict[str, Callable[[Reading], float]] = {
    "share of sentences that are cited": lambda reading: (
        sum(bool(verdict.source_ids) for verdict in reading.verdicts) / len(reading.verdicts)
    ),
    "reliance, nats": lambda reading: sum(reading.reliance),
    "reliance per token": lambda reading: sum(reading.reliance) / len(reading.reliance),
    "reliance of the median content word": lambda reading: float(
        np.median(_of_words(reading.reliance, reading))
    ),
    "log-likelihood per token": lambda reading: sum(reading.likely) / len(reading.likely),
    "log-likelihood of the least likely content word": lambda reading: min(
        _of_words(reading.likely, reading)
    ),
    "share kept with what is cited": lambda reading: min(
        (verdict.kept or 0.0 for verdict in reading.verdicts), default=0.0
    ),
}
BASELINES: dict[str, Callable[[Reading], float]] = {
    "words in common": lambda reading: overlap(
        reading.claim.claim, "\n".join(reading.claim.references)
    ),
    "embedding similarity": lambda reading: max(
        similarities(reading.claim.claim, [source.text for source in reading.sources])
    ),
}
# How well each source fits an answer and its question.
FITTING: dict[str, Callable[[Reading], list[float]]] = {
    "words in common": lambda reading: [
        overlap(f"{reading.claim.question} {reading.claim.claim}", source.text)
        for source in reading.sources
    ],
    "embedding similarity": lambda reading: similarities(
        f"{reading.claim.question} {reading.claim.claim}",
        [source.text for source in reading.sources],
    ),
}


def macro_f1(found: Sequence[bool], labels: Sequence[bool]) -> float:
    """The mean of the F1 of both labels."""
    pairs = list(zip(found, labels, strict=True))

    def f1(label: bool) -> float:
        right = sum(a == b == label for a, b in pairs)
        wrong = sum(a != b for a, b in pairs)
        return 2 * right / max(1, 2 * right + wrong)

    return (f1(True) + f1(False)) / 2


def best_limit(values: Sequence[float], labels: Sequence[bool]) -> float:
    """The limit with the largest macro-F1; half-way between neighbouring values."""
    distinct = sorted(set(values))
    limits = [(a + b) / 2 for a, b in pairwise(distinct)] or distinct
    return max(limits, key=lambda limit: macro_f1([v >= limit for v in values], labels))


def area_under_curve(values: Sequence[float], labels: Sequence[bool]) -> float:
    """The chance that a supported claim has a larger value than another, ties as a half."""
    yes = np.array([v for v, label in zip(values, labels, strict=True) if label])[:, None]
    no = np.array([v for v, label in zip(values, labels, strict=True) if not label])[None]
    return float(((yes > no) + (yes == no) / 2).mean()) if yes.size and no.size else float("nan")
