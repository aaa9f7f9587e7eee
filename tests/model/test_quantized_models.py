"""Quantized weights: the scores of the quantized model itself, on a twin that shares them.

`tasks/quantized` installs the packages beside the others.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from scoring.test_families import assert_scored_right
from transformers import (
    AutoModelForCausalLM,
    BitsAndBytesConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    QuantoConfig,
    TorchAoConfig,
)

from attribot_rag.errors import UnsupportedModel
from attribot_rag.model.generation import Generation
from attribot_rag.scoring.local_backend import LocalBackend, make_twin

pytestmark = pytest.mark.filterwarnings("ignore")  # what the packages warn of is theirs

Load = Callable[[], PreTrainedModel]


def torchao(name: str) -> TorchAoConfig:
    return TorchAoConfig(getattr(pytest.importorskip("torchao.quantization"), name)())


def quanto(weights: str) -> QuantoConfig:
    pytest.importorskip("optimum.quanto")
    return QuantoConfig(weights=weights)


def bitsandbytes(**options: Any) -> BitsAndBytesConfig:
    pytest.importorskip("bitsandbytes")
    config: BitsAndBytesConfig = cast(Any, BitsAndBytesConfig)(**options)
    return config


# What scores each, or None where it depends on the processor: its kernels round activations, or
# round one row otherwise than several.
SCHEMES: dict[str, tuple[str | None, Callable[[], Any]]] = {
    "torchao_int8": ("packed", lambda: torchao("Int8WeightOnlyConfig")),
    "torchao_int8_activations": (None, lambda: torchao("Int8DynamicActivationInt8WeightConfig")),
    "quanto_int8": ("packed", lambda: quanto("int8")),
    "quanto_int4": ("packed", lambda: quanto("int4")),
    "bitsandbytes_nf4": (
        None,
        lambda: bitsandbytes(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=torch.float32,
        ),
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        **{"vocab_size": 300, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3},
        **{"num_attention_heads": 4, "num_key_value_heads": 2, "initializer_range": 0.25},
    }
    saved = tmp_path_factory.mktemp("llama")
    config = LlamaConfig(**sizes)
    LlamaForCausalLM(config).save_pretrained(saved)
    return saved


def loaded(folder: Path, config: Any) -> PreTrainedModel:
    model: PreTrainedModel = cast(Any, AutoModelForCausalLM).from_pretrained(
        folder, quantization_config=config, dtype=torch.float32
    )
    return model


@pytest.fixture(params=SCHEMES)
def load(request: pytest.FixtureRequest, folder: Path) -> Load:
    return partial(loaded, folder, SCHEMES[request.param][1]())


@pytest.fixture
def expected(request: pytest.FixtureRequest) -> str | None:
    return SCHEMES[request.node.callspec.params["load"]][0]


@pytest.fixture
def generation() -> Generation:
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(3, 300, (66,), generator=generator).tolist()
    return Generation(tuple(ids[:60]), tuple(ids[60:]))


def test_scores_are_those_of_the_quantized_model(
    load: Load, expected: str | None, generation: Generation
) -> None:
    backend = LocalBackend(load())
    assert backend.prefix_for(generation).name == expected or expected is None
    assert_scored_right(backend, load(), generation)


def test_8_bits_of_bitsandbytes_are_refused_with_a_way_out(
    folder: Path, generation: Generation
) -> None:
    ids = torch.tensor([generation.prompt_ids])
    model = loaded(folder, bitsandbytes(load_in_8bit=True))
    with pytest.raises(UnsupportedModel, match="load it in 4 bits"):
        LocalBackend(model).prefix_for(generation)
    with torch.no_grad():
        truth = loaded(folder, bitsandbytes(load_in_8bit=True))(input_ids=ids).logits
        assert torch.equal(model(input_ids=ids).logits, truth)


def quantized(model: PreTrainedModel) -> Iterator[torch.Tensor]:
    """The weights of linear layers."""
    for module in model.modules():
        if hasattr(module, "in_features"):
            yield from module.parameters(recurse=False)


def test_a_twin_shares_the_weights_and_leaves_the_model_as_it_was(load: Load) -> None:
    ids = torch.arange(3, 60)[None]
    with torch.no_grad():
        truth = load()(input_ids=ids).logits
        model = load()
        for _ in range(2):
            twin = make_twin(model)
            assert torch.equal(twin(input_ids=ids).logits, truth)
            assert torch.equal(model(input_ids=ids).logits, truth)
        twin = make_twin(model)
    pairs = list(zip(quantized(model), quantized(twin), strict=True))
    assert len(pairs) >= 21
    assert all(tensor is other for tensor, other in pairs)
