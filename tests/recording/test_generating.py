"""Answers that are generated here: their prompts in pieces, and their time."""

import itertools
import time
from typing import Any

import pytest
import torch
from support.architectures import ARCHITECTURES, Architecture
from support.tiny_models import build, byte_level, prompt, unshared
from transformers import StoppingCriteria

from attribot_rag import LocalModel
from attribot_rag.errors import InvalidInput
from attribot_rag.model import generation
from attribot_rag.model.generation import Generation
from attribot_rag.recording import generate_answer

LONG = byte_level().encode("The treaty was signed in the old town hall. " * 12)
PIECE = 7


@pytest.fixture
def short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generation, "_CPU_TOKENS", PIECE)


class Passes:
    """The lengths of what goes through a model."""

    def __init__(self, language_model: LocalModel) -> None:
        self.lengths: list[int] = []
        self._hook = language_model.model.register_forward_pre_hook(self._see, with_kwargs=True)

    def _see(self, _: Any, args: Any, kwargs: dict[str, Any]) -> None:
        ids = args[0] if args else kwargs.get("input_ids")
        self.lengths.append(1 if ids is None else ids.shape[1])


def answer(language_model: LocalModel, ids: Any, **options: Any) -> Generation:
    options = {"max_new_tokens": 6, "min_new_tokens": 6, **options}
    generated = generate_answer(language_model, ids, **options)
    assert generated is not None
    return generated


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda each: each.name)
def test_a_prompt_in_pieces_has_the_same_answer(
    architecture: Architecture, monkeypatch: pytest.MonkeyPatch
) -> None:
    language_model = build(architecture.name)
    ids = prompt(architecture.prompt_length)[0].tolist()
    whole = answer(language_model, ids)
    monkeypatch.setattr(generation, "_CPU_TOKENS", PIECE)
    pieces = answer(language_model, ids)
    assert pieces.response_ids == whole.response_ids
    assert (pieces.cache is None) == (whole.cache is None)
    for layer, other in zip(pieces.cache or (), whole.cache or (), strict=True):
        length = len(ids) - 1
        torch.testing.assert_close(
            layer.keys[:, :, :length], other.keys[:, :, :length], atol=1e-3, rtol=1e-3
        )
    assert pieces.settings is not None and whole.settings is not None
    assert pieces.settings.values == whole.settings.values
    assert not pieces.settings.left_out


@pytest.mark.usefixtures("short_pieces")
def test_a_long_prompt_is_read_in_pieces() -> None:
    language_model = unshared()
    passes = Passes(language_model)
    answer(language_model, LONG, max_new_tokens=2, min_new_tokens=2)
    assert max(passes.lengths) == PIECE
    assert sum(passes.lengths) == len(LONG) + 1


@pytest.mark.usefixtures("short_pieces")
def test_beams_have_the_answer_that_they_have_without_pieces() -> None:
    passes = Passes(language_model := unshared())
    answer(language_model, LONG, num_beams=2)
    assert max(passes.lengths) == len(LONG)


@pytest.mark.usefixtures("short_pieces")
def test_time_that_ends_before_the_answer_is_said_so() -> None:
    passes = Passes(language_model := unshared())
    with pytest.raises(
        InvalidInput, match=r"for the answer were over.*7 tokens of the prompt.*allow more time"
    ):
        answer(language_model, LONG, max_time=1e-9)
    assert passes.lengths == [PIECE]


def test_time_that_ends_the_answer_is_noted() -> None:
    language_model = unshared()
    whole = answer(language_model, LONG, max_new_tokens=500, max_time=3_000.0)
    assert not whole.out_of_time
    cut = answer(language_model, LONG, max_new_tokens=500, min_new_tokens=500, max_time=1e-9)
    assert cut.out_of_time
    assert len(cut.response_ids) == 1
    assert cut.settings is not None
    assert cut.settings.values["max_time"] == 1e-9


class Interrupted(Exception):
    pass


@pytest.mark.usefixtures("short_pieces")
@pytest.mark.parametrize("num_steps", [0, 3, len(LONG) // PIECE + 3])
def test_what_runs_between_steps_can_end_the_answer(num_steps: int) -> None:
    language_model = unshared()
    steps = itertools.count()

    def step() -> None:
        if next(steps) == num_steps:
            raise Interrupted

    with pytest.raises(Interrupted):
        answer(language_model, LONG, between_steps=step)
    assert next(steps) == num_steps + 1
    assert "generate" not in vars(language_model.model)


def test_an_answer_goes_by_a_clock_that_cannot_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    now, year = time.time(), 365 * 86_400
    jumps = itertools.cycle([now + year, now - year, 0.0])
    monkeypatch.setattr(time, "time", lambda: next(jumps))
    assert len(answer(byte_level(), LONG, max_time=3_000.0).response_ids) == 6


class Third(StoppingCriteria):
    def __call__(self, input_ids: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        return torch.full((len(input_ids),), input_ids.shape[1] >= len(LONG) + 3)


def test_criteria_of_the_caller_s_own_hold_too() -> None:
    ended = answer(byte_level(), LONG, stopping_criteria=[Third()])
    assert len(ended.response_ids) == 3
    assert ended.settings is not None
    assert ended.settings.left_out == ("stopping_criteria",)
