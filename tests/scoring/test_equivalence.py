"""packed = cropped = reference, for every architecture; the backbone of everything else."""

from dataclasses import replace

import pytest
import torch
from support.architectures import ARCHITECTURES, Architecture
from support.implementations import (
    NATS,
    RESPONSE_LENGTH,
    generation_for,
    model_of,
    plain_log_likelihoods,
    score,
)

from attribot_rag.model.generation import Generation
from attribot_rag.scoring.local_backend import LocalBackend
from attribot_rag.scoring.local_prefix import Cropped, LocalPrefix, Reference, rope_changes
from attribot_rag.scoring.packed import Packed, PackedAtOnce
from attribot_rag.scoring.row import Row, with_response_tokens

KEPT = ((2, 3), (0,), (0, 4, 5))
CUTS = ((0, 1), (0, 7), (1, 6), (5, 30), (17, 6), (30, 20), (45, 3), (52, 6), (54, 6))


def rows_for(generation: Generation) -> list[Row]:
    """The full prompt, then prompts without the tokens of each cut."""
    prompt = generation.prompt_ids
    rows = [Row.for_prompt(prompt, len(prompt), generation)]
    return rows + [
        Row.for_prompt(prompt[:start] + prompt[start + width :], start, generation)
        for start, width in CUTS
    ]


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda architecture: architecture.name)
def test_each_architecture_gets_the_fastest_implementation_that_is_right(
    architecture: Architecture,
) -> None:
    backend = LocalBackend(model_of(architecture))
    generation = generation_for(architecture)
    assert backend.prefix_for(generation).name == architecture.expected


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda architecture: architecture.name)
def test_reference_is_what_the_model_computes(architecture: Architecture) -> None:
    generation = generation_for(architecture)
    rows = rows_for(generation)
    scored = score(LocalBackend(model_of(architecture)), Reference, generation, rows)
    for row, log_likelihoods in zip(rows, scored, strict=True):
        fresh = architecture.build()
        num_tokens = len(row.full_ids(generation))
        if rope_changes(fresh, num_tokens - RESPONSE_LENGTH + 1, num_tokens):
            continue  # in one pass it is not what `generate` computes: see test_rope.py
        expected = plain_log_likelihoods(fresh, generation, row)
        assert torch.allclose(log_likelihoods, expected, atol=1e-4)


@pytest.mark.parametrize("kind", [Packed, PackedAtOnce, Cropped])
@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda architecture: architecture.name)
def test_cached_implementations_equal_the_reference(
    architecture: Architecture, kind: type[LocalPrefix]
) -> None:
    backend = LocalBackend(model_of(architecture))
    generation = generation_for(architecture)
    rows = rows_for(generation)
    if backend.why_not(kind, generation) is not None:
        names = ["packed", "cropped", "reference"]
        name = "packed" if issubclass(kind, Packed) else kind.name
        assert names.index(architecture.expected) > names.index(name)
        return
    truth = score(backend, Reference, generation, rows)
    scored = score(backend, kind, generation, rows)
    assert (truth - scored).abs().max() <= NATS


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda architecture: architecture.name)
def test_a_row_that_says_some_tokens_is_that_of_a_shorter_response(
    architecture: Architecture,
) -> None:
    backend = LocalBackend(model_of(architecture))
    generation = generation_for(architecture)
    prompt, full = generation.prompt_ids, rows_for(generation)[0]
    cut = prompt[:5] + prompt[35:]
    shorter = [with_response_tokens(generation, kept) for kept in KEPT]
    alone = [(short, Row.for_prompt(cut, 5, short)) for short in shorter]
    if backend.why_no_masks(Reference, generation) is None:
        alone += [(short, Row.masked(short, range(10, 20), range(48, 60))) for short in shorter]
    truth = [score(backend, Reference, short, [row])[0] for short, row in alone]
    rows = [
        replace(row, kept_response=kept) for (_, row), kept in zip(alone, 2 * KEPT, strict=False)
    ]
    for kind in (Reference, Packed, PackedAtOnce, Cropped):
        if backend.why_not(kind, generation) is not None:
            continue
        can_mask = backend.why_no_masks(kind, generation) is None
        asked = rows if can_mask else rows[: len(KEPT)]
        scored = score(backend, kind, generation, [full, *asked])
        assert scored[0].isfinite().all()
        for row, kept, expected in zip(scored[1:], 2 * KEPT, truth, strict=False):
            assert (row[list(kept)] - expected).abs().max() <= NATS
            assert row.isnan().sum() == RESPONSE_LENGTH - len(kept)


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda architecture: architecture.name)
def test_the_comparison_is_not_blind(architecture: Architecture) -> None:
    generation = generation_for(architecture)
    rows = rows_for(generation)
    scored = score(LocalBackend(model_of(architecture)), Reference, generation, rows)
    changes = (scored[1:] - scored[0]).abs().amax(dim=1)
    assert changes.max() > 100 * NATS


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_stays_close(dtype: torch.dtype) -> None:
    llama = ARCHITECTURES[0]
    model = llama.build()
    torch.nn.Module.to(model, dtype)
    backend = LocalBackend(model)
    generation = generation_for(llama)
    rows = rows_for(generation)
    truth = score(backend, Reference, generation, rows)
    for kind in (Packed, Cropped):
        assert (truth - score(backend, kind, generation, rows)).abs().max() < 0.25


def test_generations_own_cache_gives_the_same_scores() -> None:
    llama = ARCHITECTURES[0]
    backend = LocalBackend(model_of(llama))
    generation = generation_for(llama)
    prefilled = backend.make(Cropped, generation)
    assert isinstance(prefilled, Cropped)
    prefilled.read()
    assert prefilled.prefilled_tokens == llama.prompt_length - 1
    adopted = Generation(
        generation.prompt_ids, generation.response_ids, cache=prefilled.prompt_cache
    )
    rows = rows_for(generation)
    truth = score(backend, Reference, generation, rows)
    for kind in (Packed, Cropped):
        implementation = backend.make(kind, adopted)
        with torch.inference_mode():
            assert (implementation.log_likelihoods(rows) - truth).abs().max() <= NATS
        assert implementation.prefilled_tokens == 0


def test_a_prompt_of_one_token_has_nothing_to_share() -> None:
    llama = ARCHITECTURES[0]
    backend = LocalBackend(model_of(llama))
    generation = Generation((5,), (6, 7))
    rows = [Row.for_prompt((5,), 1, generation)]
    truth = score(backend, Reference, generation, rows)
    for kind in (Packed, Cropped):
        assert (score(backend, kind, generation, rows) - truth).abs().max() <= NATS
