"""Many more families: what they get is right, by plain forward passes that are not ours."""

import pytest
import torch
from support.architectures import Architecture
from support.families import FAMILIES, NOT_MASKED
from support.implementations import NATS, generation_for, plain_log_likelihoods, score

from attribot_rag.scoring.implementations.reference import Reference
from attribot_rag.scoring.implementations.selection import ScoringModels
from attribot_rag.scoring.row import Row

FASTEST_FIRST = ["packed", "cropped", "reference"]


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # GPT BigCode is scripted
@pytest.mark.parametrize("architecture", FAMILIES, ids=lambda architecture: architecture.name)
def test_each_family_is_scored_right(architecture: Architecture) -> None:
    generation = generation_for(architecture)
    models = ScoringModels(architecture.build())
    implementation = models.select("auto", generation)
    assert FASTEST_FIRST.index(implementation.name) <= FASTEST_FIRST.index(architecture.expected)
    prompt = generation.prompt_ids
    rows = [
        Row.exact(prompt[:start] + prompt[start + 5 :], start, generation)
        for start in (0, 8, 23, 49, 54)
    ]
    with torch.inference_mode():
        scored = implementation.log_likelihoods(rows)
    model = architecture.build()
    truth = torch.stack([plain_log_likelihoods(model, generation, row) for row in rows])
    assert (scored - truth).abs().max() <= NATS
    assert (truth - truth[0]).abs().max() > 10 * NATS  # the comparison is not blind
    refusal = models.masked_refusal(type(implementation), generation)
    assert (refusal is not None) == (architecture.name in NOT_MASKED)
    if refusal is None:
        masked = [
            Row.masked(generation, range(5, 9), range(30, 60)),
            Row.masked(generation, (*range(20), *range(40, 44)), range(50, 60)),
        ]
        truth = score(models, Reference, generation, masked)
        with torch.inference_mode():
            assert (implementation.log_likelihoods(masked) - truth).abs().max() <= NATS
