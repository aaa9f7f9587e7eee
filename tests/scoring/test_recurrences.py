"""Recurrent layers of a twin go on from their state; the model itself is left as it is."""

import torch
from support.architectures import ARCHITECTURES, VOCABULARY_SIZE
from support.families import build_family
from support.implementations import chosen

from attribot_rag.model.generation import Generation
from attribot_rag.scoring.local.backend import LocalBackend
from attribot_rag.scoring.local.checkpoints import Checkpoints
from attribot_rag.scoring.local.reference import Reference
from attribot_rag.scoring.local.twin import make_twin
from attribot_rag.scoring.row import Row

BY_NAME = {architecture.name: architecture for architecture in ARCHITECTURES}
IDS = torch.randint(3, VOCABULARY_SIZE, (200,), generator=torch.Generator().manual_seed(0)).tolist()


def test_rows_of_every_beginning_go_on_from_the_last_copy_before() -> None:
    twin = make_twin(BY_NAME["lfm2"].build())
    with torch.inference_mode():
        checkpoints = Checkpoints.of(twin, IDS, lambda _: None)
    assert [position for position, _ in checkpoints.copies] == [0, 64, 128, 192, 200]
    assert [checkpoints.resume(length)[1] for length in (0, 63, 64, 127, 199, 200)] == [
        *(0, 0, 64, 64, 192, 200)
    ]


def test_a_twin_of_rwkv_leaves_the_model_s_weights_alone() -> None:
    model = build_family("rwkv", rescale_every=1)
    truth = build_family("rwkv", rescale_every=1)
    generation = Generation(tuple(IDS[:90]), tuple(IDS[90:94]))
    rows = [Row.exact(generation.prompt_ids, 90, generation)]
    backend = LocalBackend(model)
    scores = []
    for _ in range(2):
        implementation = backend.make(Reference, generation)
        with torch.inference_mode():
            scores.append(implementation.log_likelihoods(rows))
            logits = model(input_ids=torch.tensor([IDS])).logits
            assert torch.equal(logits, truth(input_ids=torch.tensor([IDS])).logits)
    expected = chosen(logits[0, 89:93], IDS[90:94])
    for scored in scores:
        assert (scored[0] - expected).abs().max() < 1e-3
