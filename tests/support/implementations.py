"""Running a scoring implementation on a tiny architecture."""

from collections.abc import Sequence
from functools import cache

import torch
from transformers import PreTrainedModel

from attribot_rag.model.generation import Generation
from attribot_rag.scoring.base import Implementation
from attribot_rag.scoring.implementations.selection import ScoringModels
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
    models: ScoringModels, kind: type[Implementation], generation: Generation, rows: Sequence[Row]
) -> torch.Tensor:
    implementation = models.make(kind, generation)
    with torch.inference_mode():
        return implementation.log_likelihoods(rows)


def plain_log_likelihoods(model: PreTrainedModel, generation: Generation, row: Row) -> torch.Tensor:
    """From the model's own logits for the whole sequence, none of our code in between."""
    response = torch.tensor([generation.response_ids])
    ids = torch.tensor([row.full_ids(generation)])
    with torch.no_grad():
        if model.config.is_encoder_decoder:
            prompt = ids[:, : ids.shape[1] - RESPONSE_LENGTH + 1]
            logits = model(input_ids=prompt, labels=response).logits
        else:
            logits = model(input_ids=ids, use_cache=False).logits[:, -RESPONSE_LENGTH:]
    return torch.log_softmax(logits.float(), -1).gather(-1, response[..., None])[0, :, 0]
