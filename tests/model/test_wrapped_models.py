"""Adapters, compiled models, autocast, hooks: the model that answers is scored, or refused."""

from collections.abc import Sequence
from typing import Any, cast

import pytest
import torch
from peft import LoraConfig, PromptTuningConfig, TaskType, get_peft_model
from support.implementations import plain_scores
from support.tiny_models import build, byte_tokenizer
from transformers import PreTrainedModel

from attribot_rag import Attributor
from attribot_rag.attribution import Attribution
from attribot_rag.errors import ScoringFailed, UnsupportedModel
from attribot_rag.model.local_model import model_here
from attribot_rag.scoring import LocalBackend, ScoringOptions

pytestmark = [
    pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning"),
]

DOCUMENTS = ("The ferry takes 84 people.", "The tower is 38 metres high.")
PROMPT = f"{DOCUMENTS[0]} {DOCUMENTS[1]} How high?"
NATS = 1e-3


def encode(text: str) -> list[int]:
    return list(byte_tokenizer()(text, add_special_tokens=False).input_ids)


def adapted(name: str = "llama") -> Any:
    """A model with two adapters, of which the first is active."""
    torch.manual_seed(0)
    config = LoraConfig(
        r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False, task_type="CAUSAL_LM"
    )
    model = get_peft_model(build(name).model, config, adapter_name="first")
    model.add_adapter("second", config)
    return model.eval()


def answer(attributor: Attributor, model: Any) -> list[int]:
    ids = encode(PROMPT)
    with attributor.recorder:
        output = model.generate(
            input_ids=torch.tensor([ids]), max_new_tokens=6, do_sample=False, eos_token_id=None
        )
    return list(output[0, len(ids) :].tolist())


def attribute(attributor: Attributor, response: Sequence[int]) -> Attribution:
    return attributor.attribute(encode(PROMPT), response, DOCUMENTS)


def attributor_for(model: Any, **options: Any) -> Attributor:
    settings = {"method": "leave_one_out", "progress": False, "verdicts": None, **options}
    return Attributor(model, byte_tokenizer(), **settings)


def log_likelihood(model: Any, prompt: str, response: Sequence[int]) -> float:
    return float(plain_scores(model, encode(prompt), response).sum())


def assert_right(model: Any, attribution: Attribution, response: Sequence[int]) -> None:
    full = log_likelihood(model, PROMPT, response)
    assert sum(attribution.token_log_likelihoods) == pytest.approx(full, abs=NATS)
    for source in attribution.sources:
        rest = PROMPT.replace(source.text, "")
        score = attribution.score(source.id) or 0.0
        without = (
            log_likelihood(model, text, response) for text in (rest, rest.replace("  ", " "))
        )
        assert min(abs(full - value - score) for value in without) <= NATS


def switch(model: Any) -> None:
    model.set_adapter("second")


def disable(model: Any) -> None:
    model.base_model.disable_adapter_layers()


def merge(model: Any) -> None:
    model.set_adapter("second")
    model.merge_adapter()


@pytest.mark.parametrize("change", [switch, disable, merge])
def test_another_adapter_is_another_model(change: Any) -> None:
    model = adapted()
    attributor = attributor_for(model)
    assert model_here(attributor.language_model) is model.get_base_model()
    response = answer(attributor, model)
    first = attribute(attributor, response)
    assert_right(model, first, response)
    assert first.provenance.prefilled_tokens == 0
    assert not any("changed" in note for note in first.notes)
    response = answer(attributor, model)
    change(model)
    after = attribute(attributor, response)
    assert_right(model, after, response)
    assert after.provenance.prefilled_tokens > 0  # the recorded cache is another adapter's
    assert any("changed after it gave this answer" in note for note in after.notes)
    response = answer(attributor, model)
    again = attribute(attributor, response)
    assert_right(model, again, response)
    assert again.provenance.prefilled_tokens == 0


def test_an_adapter_within_a_context_manager_is_not_the_one_that_is_scored() -> None:
    model = adapted()
    attributor = attributor_for(model)
    with model.disable_adapter():
        response = answer(attributor, model)
    attribution = attribute(attributor, response)
    assert_right(model, attribution, response)
    assert any("changed after it gave this answer" in note for note in attribution.notes)


@pytest.mark.filterwarnings("ignore:Position ids are not supported:UserWarning")
def test_prompt_tuning_is_refused() -> None:
    config = PromptTuningConfig(task_type=TaskType.CAUSAL_LM, num_virtual_tokens=4)
    model: Any = get_peft_model(build("llama").model, config)
    with pytest.raises(UnsupportedModel, match="PROMPT_TUNING"):
        Attributor(cast(PreTrainedModel, model), byte_tokenizer())
    attributor = attributor_for(model.get_base_model())
    ids = torch.tensor([encode(PROMPT)])
    with attributor.recorder:
        output = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=6,
            do_sample=False,
            eos_token_id=None,
        )
    with pytest.raises(UnsupportedModel, match="prepare_inputs_for_generation"):
        attribute(attributor, output[0, ids.shape[1] :].tolist())


@pytest.mark.long
def test_a_compiled_model_is_the_model_in_it() -> None:
    plain = build("llama").model
    compiled = torch.compile(plain)
    attributor = attributor_for(compiled)
    assert model_here(attributor.language_model) is plain
    response = answer(attributor, compiled)
    attribution = attribute(attributor, response)
    assert_right(plain, attribution, response)
    assert attribution.provenance.prefilled_tokens == 0


def test_scores_are_those_outside_of_autocast() -> None:
    model = build("llama").model
    attributor = attributor_for(model)
    response = answer(attributor, model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        attribution = attribute(attributor, response)
    assert_right(model, attribution, response)


class Remembered:
    """A hook whose state does not show in the modules."""

    factor = 1.0

    def __call__(self, module: torch.nn.Module, args: Any, output: Any) -> Any:
        return output * type(self).factor


class Counting:
    """A hook of which a twin has a copy of its own."""

    def __init__(self) -> None:
        self.factor = 1.0

    def __call__(self, module: torch.nn.Module, args: Any, output: Any) -> Any:
        return output * self.factor


@pytest.mark.parametrize("hook", [Remembered(), Counting()])
def test_a_hook_that_reads_from_elsewhere_is_followed(
    hook: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model: Any = build("llama").model
    model.model.layers[0].mlp.register_forward_hook(hook)
    attributor = attributor_for(model)
    response = encode("38 me")
    assert_right(model, attribute(attributor, response), response)
    monkeypatch.setattr(hook if isinstance(hook, Counting) else Remembered, "factor", 1.5)
    assert_right(model, attribute(attributor, response), response)


def test_self_check_compares_with_the_model_itself() -> None:
    model: Any = build("llama").model
    options = ScoringOptions(implementation="reference", self_check=True)
    attributor = attributor_for(model, scoring=options)
    response = encode("38 me")
    checked = attribute(attributor, response).provenance.self_check
    assert checked is not None
    assert checked <= NATS
    backend = attributor.backend
    assert isinstance(backend, LocalBackend)
    twin: Any = backend.twin()  # gone stale, as only our mistake could do it
    twin.lm_head.weight = torch.nn.Parameter(twin.lm_head.weight.flip(0))
    with pytest.raises(ScoringFailed, match="differs from the reference"):
        attribute(attributor, response)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["llama", "mistral", "opt"])
def test_dynamic_quantization_is_refused_by_its_name(name: str) -> None:
    quantize: Any = torch.ao.quantization.quantize_dynamic
    model: Any = quantize(build(name).model, {torch.nn.Linear})
    attributor = attributor_for(model)
    with pytest.raises(UnsupportedModel, match="dynamic quantization"):
        attribute(attributor, encode("It is 38 metres high."))
