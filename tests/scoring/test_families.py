"""Many more families, scored as by plain forward passes that are not ours."""

import pytest
import torch
from support.architectures import Architecture
from support.families import FAMILIES, NOT_MASKED
from support.implementations import NATS, generation_for, plain_log_likelihoods
from transformers import PreTrainedModel

from attribot_rag.model.generation import Generation
from attribot_rag.scoring.local_backend import LocalBackend
from attribot_rag.scoring.local_prefix import Reference
from attribot_rag.scoring.row import Row

FASTEST_FIRST = ["packed", "cropped", "reference"]


def assert_scored_right(
    backend: LocalBackend, model: PreTrainedModel, generation: Generation
) -> None:
    """By plain forward passes of the model; masked, if that is not refused, by the reference."""
    implementation = backend.prefix_for(generation)
    prompt = generation.prompt_ids
    rows = [
        Row.for_prompt(prompt[:start] + prompt[start + 5 :], start, generation)
        for start in (0, 8, 23, 49, 54)
    ]
    with torch.no_grad():
        scored = implementation.log_likelihoods(rows)
    truth = torch.stack([plain_log_likelihoods(model, generation, row) for row in rows])
    assert (scored - truth).abs().max() <= NATS
    assert (truth - truth[0]).abs().max() > 10 * NATS  # the comparison is not blind
    if backend.why_no_masks(type(implementation), generation) is None:
        masked = [
            Row.masked(generation, range(5, 9), range(30, 60)),
            Row.masked(generation, (*range(20), *range(40, 44)), range(50, 60)),
        ]
        reference = backend.make(Reference, generation)
        with torch.no_grad():
            scored, truth = (
                scoring.log_likelihoods(masked) for scoring in (implementation, reference)
            )
        assert (scored - truth).abs().max() <= NATS


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # GPT BigCode is scripted
@pytest.mark.parametrize("architecture", FAMILIES, ids=lambda architecture: architecture.name)
def test_each_family_is_scored_right(architecture: Architecture) -> None:
    generation = generation_for(architecture)
    backend = LocalBackend(architecture.build())
    implementation = backend.prefix_for(generation)
    assert FASTEST_FIRST.index(implementation.name) <= FASTEST_FIRST.index(architecture.expected)
    assert_scored_right(backend, architecture.build(), generation)
    refusal = backend.why_no_masks(type(implementation), generation)
    assert (refusal is not None) == (architecture.name in NOT_MASKED)
