"""An implementation is used only where it is right, and a refusal says why."""

import copy
import logging
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import cpu_offload, disk_offload, dispatch_model
from support.architectures import ARCHITECTURES
from support.scorers import ANSWER, TREATY, chat
from support.tiny_models import byte_level, byte_tokenizer
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from transformers import (
    BertForMaskedLM,
    BertLMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    LlamaForSequenceClassification,
    LlamaModel,
    PreTrainedModel,
)
from transformers.models.llama.modeling_llama import LlamaAttention

from attribot_rag import Attributor, LocalModel
from attribot_rag.attribution import Provenance
from attribot_rag.errors import UnsupportedModel
from attribot_rag.model.generation import Generation
from attribot_rag.model.local_model import model_version
from attribot_rag.recording import GenerationRecorder
from attribot_rag.recording.generating import generate_with
from attribot_rag.scoring import ScoringOptions
from attribot_rag.scoring.local_backend import LocalBackend, make_twin
from attribot_rag.scoring.packed import Packed
from attribot_rag.scoring.row import Row

BY_NAME = {architecture.name: architecture for architecture in ARCHITECTURES}
GENERATION = Generation(tuple(range(3, 33)), (40, 41, 42))


def build(name: str) -> PreTrainedModel:
    return BY_NAME[name].build()


def test_asking_for_an_implementation_that_is_not_right_says_why() -> None:
    own = "AttentionInterface"
    for name, reason in (("lfm2", "keep states"), ("bloom", own)):
        backend = LocalBackend(build(name))
        with pytest.raises(UnsupportedModel, match=reason):
            backend.prefix_for(GENERATION, "packed")


class TwistedAttention(LlamaAttention):
    """An architecture whose attention does more than the configuration tells."""

    def forward(self, hidden_states: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        output, weights = super().forward(hidden_states, *args, **kwargs)
        counts = torch.arange(1, hidden_states.shape[1] + 1)[:, None]
        return output + hidden_states.cumsum(dim=1) / counts, weights


class BrokenAttention(LlamaAttention):
    """A kernel that fails on this machine, in the packed implementation alone."""

    def forward(self, hidden_states: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if self.config._attn_implementation == Packed.attention_function:
            raise RuntimeError("no kernel image is available for execution on the device")
        return super().forward(hidden_states, *args, **kwargs)


class VersionedAttention(LlamaAttention):
    """Its weights count their changes, as quanto's of 4 bits do, which inference mode forbids."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        torch.ones(1).add_(1.0)._version  # noqa: B018
        return super().forward(*args, **kwargs)


class OwnAttention(LlamaAttention):
    """A layer that attends on its own, without transformers' interface."""

    def forward(self, hidden_states: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return hidden_states.cumsum(dim=1), None


def llama_with(attention: type[LlamaAttention], first_layer: int = 0) -> PreTrainedModel:
    """A Llama whose layers from one on attend like this."""
    model = build("llama")
    layers = [module for module in model.modules() if type(module) is LlamaAttention]
    for layer in layers[first_layer:]:
        layer.__class__ = attention
    return model


def test_a_probe_notices_changes_that_are_not_in_the_configuration() -> None:
    backend = LocalBackend(llama_with(TwistedAttention))
    assert "probe" in str(backend.why_not(Packed, GENERATION))
    assert backend.prefix_for(GENERATION).name == "reference"
    assert "differs from the reference" in str(backend.prefix_for(GENERATION).fallback)
    with pytest.raises(UnsupportedModel, match="differs from the reference"):
        backend.prefix_for(GENERATION, "cropped")


def test_a_broken_kernel_is_logged_once_for_a_model(caplog: pytest.LogCaptureFixture) -> None:
    backend = LocalBackend(llama_with(BrokenAttention))
    with caplog.at_level(logging.WARNING, logger="attribot_rag"):
        for _ in range(3):
            assert backend.prefix_for(GENERATION).name == "cropped"
        with torch.no_grad():
            backend._model.lm_head.weight = torch.nn.Parameter(backend._model.lm_head.weight * 2)
        assert backend.prefix_for(GENERATION).name == "cropped"
    (record,) = caplog.records
    assert record.getMessage() == (
        "packed is not used for the model LlamaForCausalLM: no kernel image is available for "
        "execution on the device"
    )
    assert backend.prefix_for(GENERATION).fallback == "packed: a probe of it failed (RuntimeError)"


def test_a_model_that_does_not_run_in_inference_mode_generates_and_is_scored_as_fast() -> None:
    model = llama_with(VersionedAttention)
    with pytest.raises(RuntimeError, match="Inference"), torch.inference_mode():
        model(torch.tensor([[1]]))
    settings = {"max_new_tokens": 3, "min_new_tokens": 3, "do_sample": False}
    generation = generate_with(LocalModel(model, byte_tokenizer()), [*range(3, 33)], settings)
    assert generation is not None and len(generation.response_ids) == 3
    backend = LocalBackend(model)
    prefix, reference = backend.prefix_for(generation), backend.reference(generation)
    assert (prefix.name, prefix.why_no_masks) == ("packed", None)
    rows = [Row.for_prompt(tuple(range(3, 33)), 30, generation)]
    torch.testing.assert_close(
        prefix.log_likelihoods(rows), reference.log_likelihoods(rows), atol=1e-4, rtol=0.0
    )
    options = ScoringOptions(self_check=True)
    for method in ("masked", "patching"):
        attributor = Attributor(
            model, byte_tokenizer(), method=method, scoring=options, progress=False
        )
        text = "The treaty was signed."
        provenance = attributor.attribute(f"{text} Who?", "They.", documents=[text]).provenance
        assert (provenance.implementation, provenance.fallback) == ("packed", None)


def test_the_provenance_says_why_a_slower_implementation_was_used() -> None:
    def provenance(model: PreTrainedModel, implementation: str) -> Provenance:
        options = ScoringOptions(implementation=implementation)
        attributor = Attributor(model, byte_tokenizer(), scoring=options, progress=False)
        text = "The treaty was signed."
        return attributor.attribute(f"{text} Who?", "They.", documents=[text]).provenance

    broken = provenance(llama_with(BrokenAttention), "auto")
    assert broken.implementation == "cropped"
    assert broken.fallback == "packed: a probe of it failed (RuntimeError)"
    for implementation in ("auto", "packed", "cropped"):
        assert provenance(build("llama"), implementation).fallback is None
    assert "AttentionInterface" in str(provenance(build("bloom"), "auto").fallback)


def test_a_layer_that_attends_on_its_own_is_noticed() -> None:
    backend = LocalBackend(llama_with(OwnAttention, first_layer=2))
    assert "2 of its 3 layers" in str(backend.why_not(Packed, GENERATION))


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda architecture: architecture.name)
def test_a_twin_shares_the_weights_and_nothing_else(architecture: Any) -> None:
    model = architecture.build()
    twin = make_twin(model)
    for name, parameter in model.named_parameters():
        assert twin.get_parameter(name) is parameter
    assert twin.config is not model.config
    own = {id(module) for module in model.modules()}
    assert not any(id(module) in own for module in twin.modules())


def test_a_twin_can_be_made_while_recording_starts_and_stops() -> None:
    language_model = byte_level()
    stopped = threading.Event()

    def record() -> None:
        while not stopped.is_set():
            with GenerationRecorder(language_model):
                pass

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread = threading.Thread(target=record)
    thread.start()
    try:
        twins = [make_twin(language_model.model) for _ in range(200)]
    finally:
        stopped.set()
        thread.join()
        sys.setswitchinterval(interval)
    assert not any("generate" in twin.__dict__ for twin in twins)


def test_weights_that_are_nowhere_are_refused() -> None:
    with torch.device("meta"):
        model = LlamaForCausalLM(LlamaConfig(num_hidden_layers=1, vocab_size=300))
    with pytest.raises(UnsupportedModel, match="offloaded"):
        make_twin(model)


def offload_layers(model: Any, where: str, folder: Path) -> None:
    """The layers to the CPU's memory or to disk, by Accelerate's hooks; the rest stays."""
    if where == "cpu":
        for layer in model.model.layers:
            cpu_offload(layer, execution_device=torch.device("cpu"))
        return
    parts = ("model.embed_tokens", "model.rotary_emb", "model.norm", "lm_head")
    places = {**dict.fromkeys(parts, "cpu"), "model.layers": "disk"}
    dispatch_model(model, places, main_device="cpu", offload_dir=str(folder))


@pytest.mark.parametrize("where", ["cpu", "disk"])
@pytest.mark.parametrize("implementation", ["packed", "cropped", "reference"])
def test_offloaded_layers_score_as_loaded_ones(
    tmp_path: Path, implementation: str, where: str
) -> None:
    loaded = byte_level()
    model: Any = copy.deepcopy(loaded.model)
    offload_layers(model, where, tmp_path)
    offloaded = LocalModel(model, loaded.tokenizer)
    scoring = ScoringOptions(implementation=implementation)
    actual, expected = (
        Attributor(language_model, progress=False, scoring=scoring).attribute(
            chat(TREATY), ANSWER, TREATY
        )
        for language_model in (offloaded, loaded)
    )
    assert actual.provenance.implementation == implementation
    for row, right in zip(actual.token_scores, expected.token_scores, strict=True):
        assert row == pytest.approx(right, abs=1e-4)
    assert all(parameter.is_meta for parameter in model.model.layers.parameters())


@pytest.mark.parametrize("where", ["cpu", "disk"])
def test_an_offloaded_embedding_is_refused_with_what_to_change(tmp_path: Path, where: str) -> None:
    loaded = byte_level()
    model: Any = copy.deepcopy(loaded.model)
    if where == "cpu":
        cpu_offload(model, execution_device=torch.device("cpu"))
    else:
        disk_offload(model, str(tmp_path), execution_device=torch.device("cpu"))
    attributor = Attributor(model, loaded.tokenizer, progress=False)
    with attributor.recorder:
        model.generate(torch.tensor([[1, 2]]), max_new_tokens=2, do_sample=False)
    assert len(attributor.recorder.generations) == 1  # it does answer, and is recorded
    with pytest.raises(UnsupportedModel, match="device_map that keeps the embedding on a device"):
        attributor.attribute(chat(TREATY), ANSWER, TREATY)


def test_a_forward_pass_of_offloaded_layers_is_no_change(tmp_path: Path) -> None:
    model = copy.deepcopy(byte_level().model)
    offload_layers(model, "disk", tmp_path)
    version = model_version(model)
    model(torch.tensor([[1, 2]]))
    assert model_version(model) == version


def test_tensor_parallel_models_are_refused(tmp_path: Path) -> None:
    model = LlamaForCausalLM(LlamaConfig(**SMALL))
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1
    )
    try:
        mesh = init_device_mesh("cpu", (1,))
        weight = model.model.layers[0].mlp.up_proj.weight
        model.model.layers[0].mlp.up_proj.weight = torch.nn.Parameter(
            distribute_tensor(weight.detach(), mesh, [Shard(0)])
        )
        with pytest.raises(UnsupportedModel, match="tensor-parallel"):
            make_twin(model)
    finally:
        torch.distributed.destroy_process_group()


SMALL: dict[str, Any] = {
    **{"vocab_size": 300, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4},
    "initializer_range": 0.2,
}


@pytest.mark.parametrize(
    ("model_class", "reason"),
    [
        (BertLMHeadModel, "depend on later tokens"),
        (BertForMaskedLM, "depend on later tokens"),
        (LlamaModel, "no attribute 'logits'"),
        (
            LlamaForSequenceClassification,
            "a plain forward pass over token ids fails with IndexError",
        ),
    ],
)
def test_a_model_that_is_no_causal_language_model_is_refused(model_class: Any, reason: str) -> None:
    model = model_class(model_class.config_class(**SMALL))
    with pytest.raises(UnsupportedModel, match=reason):
        LocalBackend(model.eval()).prefix_for(GENERATION)
