"""A real vLLM gives the scores of the embedded model run here; `tasks/vllm` starts it."""

import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attribot_rag import (
    Attribution,
    Attributor,
    Document,
    LocalModel,
    ServerOptions,
)
from attribot_rag.corpus import read_chunks, retrieve

EXAMPLES = Path(__file__).parents[1] / "examples/corpus"
URL = "ATTRIBOT_RAG_VLLM"
NOISE = 5e-3  # nats at a token, between the kernels of vLLM and of transformers, in float32
QUESTIONS = (
    "How many passengers does the ferry Kittiwake carry?",
    "Who designed the lighthouse?",
    "How high is the lighthouse?",
    "When is the festival?",
    "When was the museum founded?",
    "What does a single ticket for the ferry cost?",
    "Which birds nest on the island?",
    "When was the lamp lit for the first time?",
    "What can visitors see in the museum?",
    "Who founded the town?",
)

pytestmark = pytest.mark.skipif(not os.environ.get(URL), reason=f"needs a server at {URL}")


@cache
def served(tokenizer_folder: str) -> Attributor:
    return Attributor.for_server(
        os.environ[URL],
        tokenizer=tokenizer_folder,
        server=ServerOptions(concurrency=4, timeout=900),
        method="leave_one_out",
        progress=False,
    )


def documents(question: str) -> list[Document]:
    return retrieve(question, read_chunks([EXAMPLES]), 2)


def totals(attribution: Attribution) -> np.ndarray[Any, Any]:
    return np.array([attribution.score(source.id) or 0.0 for source in attribution.sources])


@pytest.mark.slow
@pytest.mark.parametrize("question", QUESTIONS)
def test_scores_ranks_and_verdicts_are_those_of_the_model_here(
    smollm2: LocalModel, question: str
) -> None:
    attributor = served(smollm2.name)
    attribution = attributor.ask(question, documents(question), max_new_tokens=24)
    local = Attributor(smollm2, method="leave_one_out", progress=False)
    expected = local.ask(question, documents(question), max_new_tokens=24)
    assert not attribution.provenance.retokenized
    assert attribution.response == expected.response
    np.testing.assert_allclose(attribution.matrix, expected.matrix, atol=NOISE)
    ranked = totals(attribution)[totals(expected).argsort()[::-1]]
    assert (np.diff(ranked) <= 2 * NOISE * len(attribution.token_spans)).all()
    assert [(verdict.kind, {*verdict.source_ids}) for verdict in attribution.verdicts] == [
        (verdict.kind, {*verdict.source_ids}) for verdict in expected.verdicts
    ]
