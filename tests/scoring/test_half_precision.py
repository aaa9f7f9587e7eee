"""Approximate scores from linear layers in bfloat16: near the others; exact ones stay the same."""

from typing import Any

import numpy as np
import psutil
import pytest
import torch
from numpy.typing import NDArray
from support.scorers import TREATY, chat, scorer
from support.tiny_models import byte_level
from torch import nn

from attribot_rag import Attributor, LanguageModel, ScoringOptions
from attribot_rag.context import Ablation
from attribot_rag.errors import InvalidInput
from attribot_rag.scoring.half_precision import multiplies_half, pays_off
from attribot_rag.scoring.log_likelihoods import LogLikelihoods

FULL: dict[str, Any] = {"half_precision": False}
HALF: dict[str, Any] = {"half_precision": True}
ABLATIONS = [Ablation.of(index) for index in range(4)]


def changes(scored: LogLikelihoods) -> NDArray[np.float64]:
    return np.array(scored.changes, dtype=np.float64)


def linear_layers(model: nn.Module) -> list[nn.Module]:
    return [module for module in model.modules() if isinstance(module, nn.Linear)]


@pytest.mark.parametrize("implementation", ["packed", "cropped", "reference"])
def test_masked_scores_are_near_and_exact_scores_the_same(implementation: str) -> None:
    whole = scorer(implementation=implementation)
    half = scorer(implementation=implementation, half_precision=True)
    expected = changes(whole.score(ABLATIONS, recompute="question"))
    found = changes(half.score(ABLATIONS, recompute="question"))
    assert 1e-6 < np.abs(found - expected).max() < 0.05
    exact = changes(whole.score(ABLATIONS))
    np.testing.assert_allclose(changes(half.score(ABLATIONS)), exact, atol=1e-5)


def test_without_an_ablation_nothing_changes() -> None:
    """So masked rows are compared with the full prompt in half precision, too."""
    half = scorer(half_precision=True)
    half.score(ABLATIONS)
    found = changes(half.score([Ablation()], recompute="question"))
    np.testing.assert_allclose(found, 0.0, atol=1e-6)


def test_estimates_are_near() -> None:
    parts = [range(3), range(3, 6)]
    whole, half = scorer().patched(parts, 2), scorer(half_precision=True).patched(parts, 2)
    assert whole is not None and half is not None
    assert 1e-9 < (half.effects - whole.effects).abs().max() < 0.01


def test_the_model_keeps_its_layers_and_the_attribution_tells() -> None:
    local = byte_level()
    options: dict[str, Any] = {"method": "masked", "verdicts": None, "progress": False}
    half = Attributor(local, scoring=ScoringOptions(half_precision=True), **options)
    found = half.attribute(chat(TREATY), "The ships came.", TREATY)
    assert found.provenance.options["half_precision"] is True
    assert {type(layer) for layer in linear_layers(local.model)} == {nn.Linear}
    other = Attributor(local, **options).attribute(chat(TREATY), "The ships came.", TREATY)
    assert other.provenance.options["half_precision"] is False  # it is small


@pytest.mark.parametrize("native", [True, False])
def test_processor_and_size_decide(native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    capabilities = {"avx2": True, "avx512_bf16": native}
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    memory, cpu = psutil.virtual_memory().total, torch.device("cpu")
    assert pays_off(20_000_000, cpu) is native
    assert not pays_off(19_999_999, cpu)
    assert not pays_off(memory // 15, cpu)
    assert not pays_off(20_000_000, torch.device("meta"))
    assert not scorer(half_precision="auto").in_half_precision


@pytest.mark.slow
def test_the_default_is_in_half_precision_where_the_processor_has_it(
    smollm2: LanguageModel,
) -> None:
    native = multiplies_half(smollm2.device)
    for option, expected in (({}, native), (FULL, False), (HALF, True)):
        one = scorer(TREATY, "The ships came.", language_model=smollm2, **option)
        assert one.in_half_precision is expected


def test_another_word_is_refused() -> None:
    with pytest.raises(InvalidInput, match="half_precision='yes'; choose one of True"):
        ScoringOptions(half_precision="yes")  # type: ignore[arg-type]
