"""Judges of claims: a number for each, and the number from which a claim counts as supported."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise

import numpy as np

from benchmarks.experiment.baselines.similarity import default_embedder
from benchmarks.readers.claims import Claim
from benchmarks.readers.reading import Reading

_WORD = re.compile(r"\w+")
_PIECE = re.compile(r"(?<=[.!?])\s+|\n+")


def overlap(claim: Claim) -> float:
    """The share of the claim's words that stand in its references."""
    said = set(_WORD.findall(claim.claim.casefold()))
    held = set(_WORD.findall("\n".join(claim.references).casefold()))
    return len(said & held) / max(1, len(said))


@cache
def similarity(claim: Claim) -> float:
    """The cosine similarity (all-MiniLM-L6-v2) of the claim and the nearest sentence."""
    pieces = [piece for text in claim.references for piece in _PIECE.split(text) if piece.strip()]
    vectors = np.asarray(default_embedder().encode([claim.claim, *pieces]), dtype=np.float64)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return float((vectors[1:] @ vectors[0]).max(initial=0.0))


READERS: dict[str, Callable[[Reading], float]] = {
    "cited": lambda reading: reading.cited,
    "reliance, nats": lambda reading: reading.reliance,
    "reliance per token, nats": lambda reading: reading.per_token,
    "share kept by what is cited": lambda reading: reading.kept,
}
BASELINES: dict[str, Callable[[Claim], float]] = {
    "words in common": overlap,
    "embedding similarity": similarity,
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
