"""Recurrent layers of a twin go on from their state; the model itself is left as it is."""

from typing import Any

import pytest
import torch
from support.architectures import ARCHITECTURES, VOCABULARY_SIZE
from support.families import FAMILIES, RECURRENT_GEMMA_GOES_ON, build_family
from support.implementations import chosen
from transformers import DynamicCache

from attribot_rag.model.generation import Generation, cache_inputs
from attribot_rag.scoring.base import Prefill
from attribot_rag.scoring.implementations.checkpoints import Checkpoints
from attribot_rag.scoring.implementations.cropped import Cropped
from attribot_rag.scoring.implementations.reference import Reference
from attribot_rag.scoring.implementations.selection import ScoringModels
from attribot_rag.scoring.implementations.twin import make_twin
from attribot_rag.scoring.row import Row

BY_NAME = {architecture.name: architecture for architecture in (*ARCHITECTURES, *FAMILIES)}
IDS = torch.randint(3, VOCABULARY_SIZE, (200,), generator=torch.Generator().manual_seed(0)).tolist()

recurrent_gemma = pytest.mark.skipif(
    not RECURRENT_GEMMA_GOES_ON, reason="this transformers cannot go on with RecurrentGemma"
)


@pytest.mark.parametrize("pieces", [(100, 1, 1, 2, 3, 93), (1, 1, 198), (2, 198)])
@pytest.mark.parametrize(
    "name", ["mamba", "zamba", pytest.param("recurrent_gemma", marks=recurrent_gemma)]
)
def test_pieces_of_any_length_go_on_from_the_state(name: str, pieces: tuple[int, ...]) -> None:
    twin = make_twin(BY_NAME[name].build())
    cache = DynamicCache(config=twin.config)
    parts, start = [], 0
    with torch.inference_mode():
        whole = twin(input_ids=torch.tensor([IDS]), use_cache=False).logits
        for length in pieces:
            positions = torch.arange(start, start + length)[None]
            inputs: dict[str, Any] = {} if name == "mamba" else {"position_ids": positions}
            ids = torch.tensor([IDS[start : start + length]])
            parts.append(
                twin(input_ids=ids, use_cache=True, **inputs, **cache_inputs(twin, cache)).logits
            )
            start += length
    assert (torch.cat(parts, dim=1) - whole).abs().max() < 1e-3


@recurrent_gemma
def test_rows_of_every_beginning_go_on_from_the_last_snapshot_before() -> None:
    twin = make_twin(BY_NAME["recurrent_gemma"].build())
    with torch.inference_mode():
        checkpoints = Checkpoints.of(twin, IDS, Prefill(branches=(70, 150)))
    assert [snapshot.position for snapshot in checkpoints.snapshots] == [0, 70, 150, 200]
    assert [checkpoints.resume(length)[1] for length in (0, 69, 70, 149, 199, 200)] == [
        *(0, 0, 70, 70, 150, 200)
    ]


def test_a_twin_of_rwkv_leaves_the_model_s_weights_alone() -> None:
    model = build_family("rwkv", rescale_every=1)
    truth = build_family("rwkv", rescale_every=1)
    generation = Generation(tuple(IDS[:90]), tuple(IDS[90:94]))
    rows = [Row.exact(generation.prompt_ids, 90, generation)]
    models = ScoringModels(model)
    scores = []
    for kind in (Reference, Cropped, Reference):
        implementation = models.make(kind, generation)
        with torch.inference_mode():
            scores.append(implementation.log_likelihoods(rows))
            logits = model(input_ids=torch.tensor([IDS])).logits
            assert torch.equal(logits, truth(input_ids=torch.tensor([IDS])).logits)
    expected = chosen(logits[0, 89:93], IDS[90:94])
    for scored in scores:
        assert (scored[0] - expected).abs().max() < 1e-3
