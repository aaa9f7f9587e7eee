"""A real model of another family, whose windows are shorter than its prompt, is scored as by plain
forward passes.

`tasks/second-model` fetches it, and says in the environment where it is.
"""

import os
from pathlib import Path

import pytest
import torch
from support.implementations import NATS, plain_scores, score

from attribot_rag import LocalModel, load_model
from attribot_rag.model.generation import Generation
from attribot_rag.scoring.local_backend import LocalBackend
from attribot_rag.scoring.local_prefix import Cropped, LocalPrefix, Reference
from attribot_rag.scoring.packed import Packed, PackedAtOnce
from attribot_rag.scoring.row import Row

MODEL = "ATTRIBOT_RAG_SECOND_MODEL"
CORPUS = Path(__file__).parents[2] / "examples/corpus"
ANSWER = " The lamp was lit for the first time in 1844."
# Before the last window of the prompt, across its beginning, and in it.
CUTS = ((1, 40), (100, 7), (300, 30), (-520, 30), (-60, 20), (-3, 1))

pytestmark = pytest.mark.skipif(not os.environ.get(MODEL), reason=f"needs a model at {MODEL}")


@pytest.fixture(scope="module")
def second_model() -> LocalModel:
    return load_model(os.environ[MODEL])


@pytest.fixture(scope="module")
def generation(second_model: LocalModel) -> Generation:
    """A prompt of two documents, longer than the window."""
    documents = [(CORPUS / name).read_text("utf-8") for name in ("lighthouse.md", "ferry.txt")]
    text = "\n\n".join([*documents, "When was the lamp lit for the first time?\n\nAnswer:"])
    prompt_ids = second_model.encode_prompt(text)
    assert len(prompt_ids) > 1.5 * second_model.model.config.sliding_window
    return Generation(prompt_ids, second_model.encode(ANSWER))


@pytest.fixture(scope="module")
def backend(second_model: LocalModel) -> LocalBackend:
    return LocalBackend(second_model.model)


@pytest.fixture(scope="module")
def rows(generation: Generation) -> list[Row]:
    """The prompt, prompts without the tokens of each cut, and the prompt with some hidden."""
    prompt = generation.prompt_ids
    starts = [(start % len(prompt), width) for start, width in CUTS]
    length = len(prompt)
    return [
        Row.for_prompt(prompt, length, generation),
        *(Row.for_prompt(prompt[:i] + prompt[i + n :], i, generation) for i, n in starts),
        *(Row.masked(generation, range(i, i + n), range(length - 20, length)) for i, n in starts),
    ]


@pytest.fixture(scope="module")
def truth(backend: LocalBackend, generation: Generation, rows: list[Row]) -> torch.Tensor:
    return score(backend, Reference, generation, rows)


def test_reference_is_what_the_model_computes(
    second_model: LocalModel, generation: Generation, rows: list[Row], truth: torch.Tensor
) -> None:
    num_new = len(generation.response_ids)
    for row, log_likelihoods in zip(rows[: len(CUTS) + 1], truth, strict=False):
        prompt_ids = row.full_ids(generation)[: 1 - num_new]
        expected = plain_scores(
            second_model.model, prompt_ids, generation.response_ids, use_cache=False
        )
        assert torch.allclose(log_likelihoods, expected, atol=1e-4)
    assert (truth[1:] - truth[0]).abs().max() > 100 * NATS  # the comparison is not blind


@pytest.mark.parametrize("kind", [Packed, PackedAtOnce, Cropped])
def test_faster_implementations_equal_the_reference(
    backend: LocalBackend,
    generation: Generation,
    rows: list[Row],
    truth: torch.Tensor,
    kind: type[LocalPrefix],
) -> None:
    count = len(rows) if backend.why_no_masks(kind, generation) is None else len(CUTS) + 1
    assert (score(backend, kind, generation, rows[:count]) - truth[:count]).abs().max() <= NATS


def test_the_fastest_implementation_is_chosen(
    backend: LocalBackend, generation: Generation
) -> None:
    assert backend.prefix_for(generation).name == "packed"
