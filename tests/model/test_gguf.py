"""GGUF files are read as the model that they hold, or not at all."""

from pathlib import Path
from typing import Any

import pytest
import torch
from support.gguf_files import write_gguf
from support.tiny_models import byte_level
from transformers import LlamaConfig, LlamaForCausalLM

from attribot_rag import LocalModel, load_model
from attribot_rag.errors import InvalidInput

IDS = torch.tensor([list(range(3, 300))])


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTRIBOT_RAG_CACHE", str(tmp_path / "cache"))


def llama(**settings: Any) -> LocalModel:
    """A Llama whose answers depend much on places, with the tokens of `byte_level`."""
    torch.manual_seed(0)
    tokenizer = byte_level().tokenizer
    sizes: dict[str, Any] = {
        **{"vocab_size": len(tokenizer), "hidden_size": 64, "intermediate_size": 96},
        **{"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2},
        **{"max_position_embeddings": 131072, "initializer_range": 0.3},
    }
    model = LlamaForCausalLM(LlamaConfig(**sizes, **settings))
    model.train(False)
    return LocalModel(model, tokenizer)


def logits(model: LocalModel) -> torch.Tensor:
    with torch.no_grad():
        made: torch.Tensor = model.model(IDS).logits
    return made


def factors(model: LocalModel) -> torch.Tensor:
    """By how much each frequency is less than without scaling, as llama.cpp writes them."""
    rotary: Any = model.model.model.rotary_emb
    theta = model.model.config.rope_parameters["rope_theta"]
    places = torch.arange(len(rotary.inv_freq)) / len(rotary.inv_freq)
    ratios: torch.Tensor = 1 / theta**places / rotary.inv_freq
    return ratios.float()


@pytest.mark.parametrize(
    ("factor", "theta", "head_dim"), [(32.0, 500000.0, 64), (8.0, 500000.0, 128), (8.0, 1e4, 32)]
)
def test_the_frequencies_of_llama_3_are_read(
    factor: float, theta: float, head_dim: int, tmp_path: Path
) -> None:
    scaling = {
        **{"rope_type": "llama3", "rope_theta": theta, "factor": factor, "low_freq_factor": 1.0},
        **{"high_freq_factor": 4.0, "original_max_position_embeddings": 8192},
    }
    model = llama(rope_parameters=scaling, head_dim=head_dim)
    tensors = {"rope_freqs.weight": factors(model)}
    assert tensors["rope_freqs.weight"].max() == pytest.approx(factor, rel=1e-3)
    file = write_gguf(tmp_path / "model.gguf", model, tensors=tensors)
    assert torch.allclose(logits(load_model(str(file), device="cpu")), logits(model), atol=1e-4)
    plain = llama(rope_parameters={"rope_type": "default", "rope_theta": theta}, head_dim=head_dim)
    assert not torch.allclose(logits(plain), logits(model), atol=1e-2)


@pytest.mark.parametrize("spread", [1.5, 20.0])
def test_other_factors_of_frequencies_are_refused(spread: float, tmp_path: Path) -> None:
    model = llama(head_dim=32)
    tensors = {"rope_freqs.weight": torch.linspace(1, spread, 16)}
    file = write_gguf(tmp_path / "model.gguf", model, tensors=tensors)
    with pytest.raises(InvalidInput, match=r"rope_freqs.*not as in Llama 3; load the Hugging Face"):
        load_model(str(file), device="cpu")


@pytest.mark.parametrize("kind", ["linear", "yarn", "longrope"])
def test_a_scaling_that_transformers_leaves_out_is_refused(kind: str, tmp_path: Path) -> None:
    file = write_gguf(tmp_path / "model.gguf", llama(), llama_rope_scaling_type=kind)
    with pytest.raises(InvalidInput, match=f"{kind}.*; load the Hugging Face model"):
        load_model(str(file), device="cpu")
    file = write_gguf(tmp_path / "none.gguf", llama(), llama_rope_scaling_type="none")
    assert torch.equal(logits(load_model(str(file), device="cpu")), logits(llama()))


def test_factors_of_long_and_short_prompts_are_refused(tmp_path: Path) -> None:
    tensors = {f"rope_factors_{kind}.weight": torch.ones(8) for kind in ("long", "short")}
    file = write_gguf(tmp_path / "model.gguf", llama(), tensors=tensors)
    with pytest.raises(InvalidInput, match=r"rope_factors_long.weight.*; load the Hugging Face"):
        load_model(str(file), device="cpu")


@pytest.mark.parametrize(
    "lacking", ["blk.1.ffn_up.weight", "blk.0.attn_q.weight", "output_norm.weight"]
)
def test_a_file_without_some_of_the_weights_is_refused(lacking: str, tmp_path: Path) -> None:
    file = write_gguf(tmp_path / "model.gguf", llama(), without=lacking)
    with pytest.raises(InvalidInput, match=r"lacks 1 of .*weight; load the Hugging Face"):
        load_model(str(file), device="cpu")
