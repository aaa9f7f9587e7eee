"""Running a scoring implementation on a tiny architecture."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from transformers import PreTrainedModel

from attribot_rag.model.generation import Generation
from attribot_rag.scoring.local_backend import LocalBackend
from attribot_rag.scoring.local_prefix import LocalPrefix
from attribot_rag.scoring.row import Row
from support.architectures import VOCABULARY_SIZE, Architecture

NATS = 1e-3
RESPONSE_LENGTH = 6


@cache
def model_of(architecture: Architecture) -> PreTrainedModel:
    return architecture.build()


def generation_for(architecture: Architecture, *, seed: int = 0) -> Generation:
    generator = torch.Generator().manual_seed(seed)
    count = architecture.prompt_length + RESPONSE_LENGTH
    ids = torch.randint(3, VOCABULARY_SIZE, (count,), generator=generator).tolist()
    return Generation(tuple(ids[:-RESPONSE_LENGTH]), tuple(ids[-RESPONSE_LENGTH:]))


def score(
    backend: LocalBackend,
    kind: type[LocalPrefix],
    generation: Generation,
    rows: Sequence[Row],
) -> torch.Tensor:
    implementation = backend.make(kind, generation)
    implementation.read()
    with torch.inference_mode():
        return implementation.log_likelihoods(rows)


def chosen(logits: torch.Tensor, ids: Sequence[int]) -> torch.Tensor:
    """The log-probabilities of these ids by a row of logits each."""
    return logits.float().log_softmax(-1).gather(-1, torch.tensor(ids)[:, None])[:, 0]


def plain_scores(
    model: Any, prompt_ids: Sequence[int], response_ids: Sequence[int], **inputs: Any
) -> torch.Tensor:
    """By a plain forward pass over prompt and response, none of our code in between."""
    ids = torch.tensor([[*prompt_ids, *response_ids]], device=model.device)
    with torch.no_grad():
        logits = model(input_ids=ids, **inputs).logits[0, -len(response_ids) - 1 : -1]
    return chosen(logits.cpu(), response_ids)


def plain_log_likelihoods(model: PreTrainedModel, generation: Generation, row: Row) -> torch.Tensor:
    """Of a response of the usual length after the prompt of a row."""
    prompt = row.full_ids(generation)[: 1 - RESPONSE_LENGTH]
    return plain_scores(model, prompt, generation.response_ids, use_cache=False)
