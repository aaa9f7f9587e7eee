"""Rows share the encoded images of a prompt, as far as no ablation stands before them."""

from typing import Any

import pytest
import torch
from support.vision_models import IMAGE, ids_of, inputs_for, llava, llava_of_prompt, qwen2_5_vl
from support.vision_models import gemma3 as gemma3_vl
from transformers import PreTrainedModel

from attribot_rag.model.generation import Conditioning, Generation, TokenInput
from attribot_rag.scoring.local.backend import LocalBackend
from attribot_rag.scoring.local.cropped import Cropped
from attribot_rag.scoring.local.packed import Packed
from attribot_rag.scoring.local.prefix import LocalPrefix
from attribot_rag.scoring.local.reference import Reference
from attribot_rag.scoring.row import Row

NATS = 1e-3
TEXT = "The ferry takes 84 people. "
RESPONSE = tuple(b"84 people")


def with_image(model: PreTrainedModel, *segments: str | None) -> Generation:
    ids = ids_of(segments)
    whole, per_token = {}, {}
    for name, value in inputs_for(model, ids).items():
        if value.shape == (1, len(ids)):
            per_token[name] = TokenInput({IMAGE: 1}, 0)
        else:
            whole[name] = value
    return Generation(tuple(ids), RESPONSE, conditioning=Conditioning(whole, per_token))


def rows_of(generation: Generation) -> list[Row]:
    """The prompt without a few tokens of its text, wherever that stands."""
    ids = generation.prompt_ids
    cuts = [cut for cut in range(0, len(ids) - 6, 5) if IMAGE not in ids[cut : cut + 5]]
    return [Row.exact(ids, len(ids), generation)] + [
        Row.exact((*ids[:cut], *ids[cut + 5 :]), cut, generation) for cut in cuts
    ]


@pytest.mark.parametrize("kind", [Packed, Cropped])
@pytest.mark.parametrize("build", [llava, qwen2_5_vl, gemma3_vl])
@pytest.mark.parametrize("before", ["", TEXT])
def test_rows_equal_the_reference_on_a_cache_of_their_own(
    build: Any, kind: type[LocalPrefix], before: str
) -> None:
    generation = with_image(build(), before, None, TEXT, TEXT)
    backend = LocalBackend(build())
    assert backend.refusal(kind, generation) is None
    rows = rows_of(generation)
    implementation, reference = (backend.make(member, generation) for member in (kind, Reference))
    with torch.inference_mode():
        scored, truth = (scoring.log_likelihoods(rows) for scoring in (implementation, reference))
    assert (scored - truth).abs().max() <= NATS
    assert (truth[1:] - truth[0]).abs().amax(dim=1).max() > 10 * NATS
    planned = sum(map(implementation.num_tokens, rows))
    assert implementation.scored_tokens == planned < 0.8 * reference.scored_tokens


def test_an_image_that_is_encoded_by_the_text_around_it_is_not_shared() -> None:
    generation = with_image(llava(), None, TEXT, TEXT)
    backend = LocalBackend(llava_of_prompt())
    assert backend.encode_prefix(generation).name == "reference"
    reason = str(backend.encode_prefix(generation).fallback)
    assert "conditioned on pixel_values" in reason
    assert "differs from the reference" in reason


def test_an_image_at_the_end_leaves_nothing_to_share() -> None:
    generation = with_image(llava(), TEXT, None)
    assert LocalBackend(llava()).encode_prefix(generation).name == "reference"
